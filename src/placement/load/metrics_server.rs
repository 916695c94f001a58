//! The load of nodes from metrics-server: CPU and memory of the present, of which means are made here.

use std::collections::HashMap;
use std::sync::Arc;

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

/// metrics-server, and what it said since the start.
#[derive(Debug)]
pub struct MetricsServerLoad {
    source: MetricsServer,
    options: LoadOptions,
    means: HashMap<Arc<str>, RunningMeans>,
    /// Lengths of the windows that means are made of, in seconds.
    windows: Vec<i64>,
    times: NodeTimes,
    attempts: Attempts,
}

impl MetricsServerLoad {
    /// Nothing is called yet. Of the options only interval and greatest age count.
    pub fn new(source: MetricsServer, options: LoadOptions) -> Self {
        let attempts = Attempts::new(options.interval / 2, options.interval * LONGEST_PAUSE);
        Self {
            source,
            options,
            means: HashMap::new(),
            windows: Vec::new(),
            times: NodeTimes::default(),
            attempts,
        }
    }

    /// Asks once, if it is due at `now`, in nanoseconds since 1970. Windows are filled as far as there are samples since
    /// the start.
    pub async fn look(&mut self, now: i64, nodes: &KnownNodes, settings: &Settings) -> Look {
        let mut look = Look::default();
        let windows: Vec<i64> = settings.load.windows.iter().map(|window| window.seconds).collect();
        if windows != self.windows {
            (self.windows, self.means) = (windows, HashMap::new());
        }
        self.means.retain(|node, _| nodes.capacity(node).is_some());
        if self.attempts.is_due(now) {
            self.ask(now, nodes, &mut look).await;
        }
        if self.attempts.last_success().is_some() {
            look.snapshot = Some(self.snapshot(now, nodes, &mut look.dropped));
        }
        look
    }

    async fn ask(&mut self, now: i64, nodes: &KnownNodes, look: &mut Look) {
        look.asked += 1;
        let maximum_age = nanos(self.options.maximum_age);
        let mut times = NodeTimes::default();
        let (means, windows, dropped) = (&mut self.means, &self.windows, &mut look.dropped);
        let mut take = |item: NodeUse<'_>| {
            let Some(node) = nodes.find(item.name) else { return dropped.count(DropReason::UnknownNode) };
            let Some(time) = item.nanos else { return dropped.count(DropReason::NotANumber) };
            times.put(node, time, now, now, maximum_age, dropped);
            if times.get(node).is_none() {
                return;
            }
            let capacity = nodes.capacity(node).unwrap_or_default();
            let mut share = |used: Option<f64>, resource, metric: Metric| {
                let share = used.zip(capacity.get(resource)).map(|(used, total)| used / total);
                checked(share, metric.greatest()).map_err(|reason| dropped.count(reason)).ok()
            };
            let cpu = share(item.cpu, NodeResource::Cpu, Metric::Cpu);
            let memory = share(item.memory, NodeResource::Memory, Metric::Memory);
            let known =
                means.entry(Arc::clone(node)).or_insert_with(|| RunningMeans::new(windows.iter().copied()));
            known.push(time, [cpu, memory]);
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

    fn snapshot(&self, now: i64, nodes: &KnownNodes, dropped: &mut Dropped) -> LoadSnapshot {
        let mut columns = vec![[NodeValues::default(), NodeValues::default()]; self.windows.len()];
        for (node, means) in &self.means {
            for (columns, values) in columns.iter_mut().zip(means.means(now)) {
                for (column, value) in columns.iter_mut().zip(values) {
                    if value.is_some() {
                        column.put(node, value, f64::INFINITY, dropped);
                    }
                }
            }
        }
        let mut measured = Measured { times: Some(&self.times), ..Measured::default() };
        for [cpu, memory] in &columns {
            let mut means = ByMetric::default();
            means.set(Metric::Cpu, Some(cpu));
            means.set(Metric::Memory, Some(memory));
            measured.means.push(means);
        }
        let mut snapshot = measured.snapshot(nodes, now, nanos(self.options.maximum_age), dropped);
        snapshot.taken = self.attempts.last_success().unwrap_or(now);
        snapshot
    }
}
