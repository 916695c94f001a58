//! The loop that keeps what containers use and what is learnt of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use plimsoll_core::placement::{ByResource, KnownNodes, LearntWeights, WeightsMemory, WorkloadKey};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::running::RunningPods;
use super::stored;
use super::usage::{Usage, totals};
use crate::cluster::backoff::Backoff;
use crate::cluster::{Limiter, WriteError};
use crate::metrics::{LoadOf, Metrics};
use crate::placement::PlacementState;
use crate::recommender::Checkpoints;
use crate::status::Part;

/// What may fail, as it is told.
const READ: &str = "read the usage of containers";
const WEIGHTS: &str = "read learnt weights";

/// How often it is looked whether pods are known.
const PODS_POLL: Duration = Duration::from_millis(50);
/// How long the first reading waits for the load, which says what nodes have.
const LOAD_WAIT: Duration = Duration::from_secs(5);
/// Pauses between attempts to read checkpoints.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often it is attempted while it fails for another reason than a right.
const ATTEMPTS: u32 = 10;

/// Weights by workload.
type Stored = Vec<(WorkloadKey, ByResource<f64>)>;

/// Keeps what containers use, and learns from it.
#[derive(Debug)]
pub struct Learner {
    usage: Usage,
    memory: WeightsMemory,
    state: PlacementState,
    metrics: Arc<Metrics>,
}

impl Learner {
    /// Nothing is asked yet.
    pub fn new(usage: Usage, state: PlacementState, metrics: Arc<Metrics>) -> Self {
        Self { usage, memory: WeightsMemory::default(), state, metrics }
    }

    /// Takes up what was learnt before a restart, at `now` in nanoseconds since 1970. What was measured already stays.
    pub fn restore(&mut self, stored: impl IntoIterator<Item = (WorkloadKey, ByResource<f64>)>, now: i64) {
        let mut images: HashMap<WorkloadKey, BTreeSet<Arc<str>>> = HashMap::new();
        let pods = RunningPods::of(&self.state.pods.read());
        for pod in pods {
            let of_workload = images.entry(pod.shape.workload.clone()).or_default();
            let shape = pod.shape.containers.iter().filter(|container| !container.image.is_empty());
            of_workload.extend(shape.map(|container| Arc::from(container.image.as_ref())));
        }
        for (workload, weights) in stored {
            let images = images.remove(&workload).unwrap_or_default();
            self.memory.restore(workload, weights, images, now);
        }
        self.put_in_place(self.memory.weights());
    }

    fn put_in_place(&self, weights: LearntWeights) {
        self.metrics.learnt_weights(weights.workloads.len(), weights.images.len());
        self.state.weights.store(Arc::new(weights));
    }

    /// Looks once, at `now` in nanoseconds since 1970, and puts in place what is known then.
    pub async fn look(&mut self, now: i64) {
        let began = Instant::now();
        let pods = RunningPods::new(RunningPods::of(&self.state.pods.read()));
        let nodes = KnownNodes::of(&self.state.objects.load());
        let load = self.state.load.load_full();
        let totals = |node: &str| totals(node, &nodes, &load);
        let look = self.usage.look(now, &pods, totals).await;
        self.metrics.load_dropped(&look.dropped);
        for failure in &look.failures {
            self.metrics.load_query_failed(failure.query);
        }
        let health = self.metrics.health();
        match look.failures.first() {
            Some(failure) => {
                health.failed(Part::PlacementLoad, READ, format!("{}: {}", failure.query, failure.message));
            }
            None if look.uses.is_some() => {
                health.works(Part::PlacementLoad, READ);
            }
            None => {}
        }
        let Some(uses) = look.uses else { return };
        self.metrics.load_answered(LoadOf::Containers, self.usage.name());
        // Without one of the resources all weights would be others.
        if look.is_whole {
            let all = nodes.names().map(|node| totals(node));
            let weights = self.memory.learn(&uses.containers, totals, all, now);
            self.put_in_place(weights);
        }
        self.state.uses.store(Arc::new(uses));
        self.metrics.load_refreshed(LoadOf::Containers, began.elapsed());
    }

    /// Looks until `cancelled`, for the first time when pods are known. `clock` is in nanoseconds since 1970. With a
    /// client, checkpoints are read once before.
    pub async fn run(
        mut self,
        checkpoints: Option<Client>,
        every: Duration,
        clock: fn() -> i64,
        cancelled: CancellationToken,
    ) {
        let work = async {
            while !self.state.pods.is_complete() {
                sleep(PODS_POLL).await;
            }
            let began = Instant::now();
            while self.state.load.load().taken == 0 && began.elapsed() < LOAD_WAIT {
                sleep(PODS_POLL).await;
            }
            let mut reading = checkpoints.map(|client| Box::pin(read(client, Arc::clone(&self.metrics))));
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let read = async {
                    match &mut reading {
                        Some(reading) => reading.await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    stored = read => {
                        reading = None;
                        self.restore(stored, clock());
                    }
                    _ = ticks.tick() => self.look(clock()).await,
                }
            }
        };
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = work => {}
        }
    }
}

/// The weights in all checkpoints; nothing where there are no checkpoints. Waits for the right to read them.
async fn read(client: Client, metrics: Arc<Metrics>) -> Stored {
    // Nothing is written.
    let health = metrics.health().clone();
    let checkpoints = Checkpoints::new(client, Arc::new(Limiter::new(1)), metrics);
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut failures = 0;
    while failures < ATTEMPTS {
        let mut stored = Stored::new();
        let listed = checkpoints.list(&mut |object| stored.extend(stored::read(&object))).await;
        if matches!(listed, Ok(()) | Err(WriteError::NotInstalled { .. } | WriteError::NotFound { .. })) {
            health.works(Part::PlacementLoad, WEIGHTS);
        }
        match listed {
            Ok(()) => return stored,
            Err(WriteError::NotInstalled { .. } | WriteError::NotFound { .. }) => return Stored::new(),
            // The right may be given any time, and what was learnt until then stays.
            Err(error @ WriteError::Forbidden { .. }) => {
                if health.failed(Part::PlacementLoad, WEIGHTS, &error) {
                    tracing::warn!(%error, "weights that were learnt before cannot be read; trying again");
                }
                sleep(LONGEST_PAUSE).await;
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(%error, "weights that were learnt before cannot be read; trying again");
                sleep(backoff.pause()).await;
            }
        }
    }
    tracing::warn!("weights that were learnt before cannot be read; they are learnt anew");
    Stored::new()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// An API server with one checkpoint that fails with these codes first; and how often it was asked.
    fn api(failures: Vec<u16>) -> (Client, Arc<Mutex<usize>>) {
        let calls = Arc::new(Mutex::new(0));
        let failures = Arc::new(Mutex::new(VecDeque::from(failures)));
        let counted = Arc::clone(&calls);
        let service = tower::service_fn(move |_: Request<Body>| {
            *counted.lock().unwrap() += 1;
            let code = failures.lock().unwrap().pop_front().unwrap_or(200);
            let answer = if code == 200 {
                json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [{
                    "metadata": {"namespace": "shop", "name": "x"},
                    "spec": {
                        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                        "weights": {"cpu": "0.5", "memory": "0.5"},
                    },
                }]})
            } else {
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "message": "on purpose", "reason": "Why"})
            };
            let answer = Response::builder().status(code).body(Full::new(Bytes::from(answer.to_string())));
            async { Ok::<_, Infallible>(answer.unwrap()) }
        });
        (Client::new(service, "default"), calls)
    }

    /// What fails of it: rights, and other things.
    fn problems(metrics: &Metrics) -> [usize; 2] {
        let counts = metrics.health().counts();
        counts.into_iter().find(|(part, _)| *part == Part::PlacementLoad).unwrap().1
    }

    #[tokio::test(start_paused = true)]
    async fn learnt_weights_are_read_as_soon_as_they_can_be() {
        let attempts = usize::try_from(ATTEMPTS).unwrap();
        for (rule, failures, calls, stored, at_least) in [
            ("at once", vec![], 1, 1, 0),
            ("no such kind", vec![404], 1, 0, 0),
            ("no right: each minute, until it is given", vec![403; 30], 31, 1, 30 * 60),
            ("away for a while", vec![503; 3], 4, 1, 3),
            ("away nearly too long", vec![503; attempts - 1], attempts, 1, 60),
            ("away for too long: learnt anew", vec![503; attempts], attempts, 0, 60),
            (
                "a right that is missing is no attempt",
                [vec![403; 5], vec![500; attempts - 1]].concat(),
                attempts + 5,
                1,
                300,
            ),
        ] {
            let (client, asked) = api(failures);
            let metrics = Arc::new(Metrics::new("test"));
            let began = Instant::now();
            let found = read(client, Arc::clone(&metrics)).await;
            assert_eq!(found.len(), stored, "{rule}");
            assert_eq!(*asked.lock().unwrap(), calls, "{rule}");
            assert!(began.elapsed() >= Duration::from_secs(at_least), "{rule}: {:?}", began.elapsed());
            assert_eq!(problems(&metrics), [0, 0], "{rule}: what is over is not told any more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_right_is_told_while_it_is_missing() {
        let (client, asked) = api(vec![403; 3]);
        let metrics = Arc::new(Metrics::new("test"));
        let reading = tokio::spawn(read(client, Arc::clone(&metrics)));
        for minute in 0..3 {
            tokio::time::sleep(Duration::from_secs(if minute == 0 { 1 } else { 60 })).await;
            assert_eq!(*asked.lock().unwrap(), minute + 1);
            assert_eq!(problems(&metrics), [1, 0], "after {minute} min");
        }
        assert_eq!(reading.await.unwrap().len(), 1);
        assert_eq!(problems(&metrics), [0, 0], "it was given");
    }
}
