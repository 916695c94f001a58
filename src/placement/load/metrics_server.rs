//! The load of nodes from metrics-server: CPU and memory of the present, of which means are made here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::placement::{
    ByMetric, DropReason, Dropped, KnownNodes, LoadSnapshot, Measured, Metric, NodeResource, NodeTimes,
    NodeValues, RunningMeans, Settings, checked,
};

use super::loader::{Look, QueryFailure};
use super::options::LoadOptions;
use super::prometheus::nanos;
use crate::recommender::sources::metrics_server::NodeUse;
use crate::recommender::sources::{Attempts, MetricsServer};

/// What metrics count failures under.
pub(super) const NODES: &str = "nodes";
/// How many looks apart it is asked at most while it fails.
const LONGEST_PAUSE: u32 = 4;
/// Samples that are so many looks apart, or metrics-server's own longest usual interval, are without a hole.
const LONGEST_GAP: u32 = 3;
const USUAL_GAP: Duration = Duration::from_secs(180);
/// What it tells of.
const METRICS: [Metric; 2] = [Metric::Cpu, Metric::Memory];

/// metrics-server, and what it said since the start.
#[derive(Debug)]
pub struct MetricsServerLoad {
    source: MetricsServer,
    options: LoadOptions,
    known: HashMap<Arc<str>, Known>,
    /// Lengths of the windows that means are made of, in seconds.
    windows: Vec<i64>,
    times: NodeTimes,
    attempts: Attempts,
    /// When it was looked last.
    looked: i64,
}

/// What is known of a node.
#[derive(Debug)]
struct Known {
    /// The time that its last item had, by the node's own clock.
    stamp: i64,
    means: RunningMeans,
}

impl MetricsServerLoad {
    /// Nothing is called yet. Of the options only interval and greatest age count.
    pub fn new(source: MetricsServer, options: LoadOptions) -> Self {
        let attempts = Attempts::new(options.interval / 2, options.interval * LONGEST_PAUSE);
        Self {
            source,
            options,
            known: HashMap::new(),
            windows: Vec::new(),
            times: NodeTimes::default(),
            attempts,
            looked: i64::MIN,
        }
    }

    /// Asks once, if it is due at `now`, in nanoseconds since 1970. Means are made of samples since the start; of a window of
    /// which less than half was seen there is none, but for the shortest.
    pub async fn look(&mut self, now: i64, nodes: &KnownNodes, settings: &Settings) -> Look {
        let mut look = Look::default();
        let windows: Vec<i64> = settings.load.windows.iter().map(|window| window.seconds).collect();
        // By a clock that was set back, what comes now would be older than what is known.
        if windows != self.windows || now < self.looked {
            (self.windows, self.known) = (windows, HashMap::new());
        }
        self.looked = now;
        self.known.retain(|node, _| nodes.capacity(node).is_some());
        if self.attempts.is_due(now) {
            self.ask(now, nodes, &mut look).await;
        }
        if self.attempts.last_success().is_some() {
            let columns = self.columns(now, &mut look.dropped);
            for (window, columns) in settings.load.windows.iter().zip(&columns) {
                let missing = METRICS.into_iter().zip(columns).filter(|(_, column)| column.is_empty());
                look.missing.extend(missing.map(|(metric, _)| (Arc::clone(&window.name), metric)));
            }
            look.snapshot = Some(self.snapshot(&columns, now, nodes, &mut look.dropped));
        }
        look
    }

    async fn ask(&mut self, now: i64, nodes: &KnownNodes, look: &mut Look) {
        look.asked += 1;
        let maximum_age = nanos(self.options.maximum_age);
        let mut times = NodeTimes::default();
        let longest_gap = nanos((self.options.interval * LONGEST_GAP).max(USUAL_GAP));
        let (all, windows, old, dropped) = (&mut self.known, &self.windows, &self.times, &mut look.dropped);
        let mut take = |item: NodeUse<'_>| {
            let Some(node) = nodes.find(item.name) else { return dropped.count(DropReason::UnknownNode) };
            let Some(stamp) = item.nanos else { return dropped.count(DropReason::NotANumber) };
            // The time of an item is by the clock of its node, which may be wrong by any amount: it is new when it is another
            // than that before, and of now. Only of the first one nothing else is known.
            let sampled = match all.get(node) {
                None => stamp,
                Some(known) if known.stamp != stamp => now,
                Some(_) => {
                    if let Some(sampled) = old.get(node) {
                        times.put(node, sampled, now, now, i64::MAX, dropped);
                    }
                    return;
                }
            };
            times.put(node, sampled, now, now, maximum_age, dropped);
            let is_fresh = times.get(node).is_some_and(|sampled| now.saturating_sub(sampled) <= maximum_age);
            let means = || RunningMeans::new(windows.iter().copied(), longest_gap);
            let known = all.entry(Arc::clone(node)).or_insert_with(|| Known { stamp, means: means() });
            known.stamp = stamp;
            if !is_fresh {
                return;
            }
            let capacity = nodes.capacity(node).unwrap_or_default();
            let mut share = |used: Option<f64>, resource, metric: Metric| {
                let share = used.zip(capacity.get(resource)).map(|(used, total)| used / total);
                checked(share, metric.greatest()).map_err(|reason| dropped.count(reason)).ok()
            };
            let cpu = share(item.cpu, NodeResource::Cpu, Metric::Cpu);
            let memory = share(item.memory, NodeResource::Memory, Metric::Memory);
            known.means.push(now, [cpu, memory]);
        };
        match self.source.nodes(&mut take).await {
            Ok(()) => {
                look.answered += 1;
                if self.attempts.failing_since().is_some() {
                    tracing::info!("metrics-server answers again");
                }
                self.attempts.succeed(now);
                times.keep(&self.times, now, maximum_age);
                self.times = times;
            }
            Err(failure) => {
                if self.attempts.last_error() != Some(&failure.message) {
                    let error = &failure.message;
                    tracing::warn!(
                        error,
                        "the load of nodes cannot be read; what is known stays until it is too old"
                    );
                }
                self.attempts.fail(now, &failure.message, failure.retry_after);
                look.failures.push(QueryFailure { query: NODES, message: failure.message });
            }
        }
    }

    /// The means of CPU and memory of all nodes, by window.
    fn columns(&self, now: i64, dropped: &mut Dropped) -> Vec<[NodeValues; 2]> {
        let mut columns = vec![[NodeValues::default(), NodeValues::default()]; self.windows.len()];
        for (node, known) in &self.known {
            for (columns, values) in columns.iter_mut().zip(known.means.means(now)) {
                for (column, value) in columns.iter_mut().zip(values) {
                    if value.is_some() {
                        column.put(node, value, f64::INFINITY, dropped);
                    }
                }
            }
        }
        columns
    }

    fn snapshot(
        &self,
        columns: &[[NodeValues; 2]],
        now: i64,
        nodes: &KnownNodes,
        dropped: &mut Dropped,
    ) -> LoadSnapshot {
        let mut measured = Measured { times: Some(&self.times), ..Measured::default() };
        for columns in columns {
            let mut means = ByMetric::default();
            for (metric, column) in METRICS.into_iter().zip(columns) {
                means.set(metric, Some(column));
            }
            measured.means.push(means);
        }
        let mut snapshot = measured.snapshot(nodes, now, nanos(self.options.maximum_age), dropped);
        snapshot.taken = self.attempts.last_success().unwrap_or(now);
        snapshot
    }
}
