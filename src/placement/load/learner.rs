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
