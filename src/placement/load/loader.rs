//! The loop that keeps the snapshot of the load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::placement::{Dropped, KnownNodes, LoadSnapshot, Metric, Settings};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::metrics_server::MetricsServerLoad;
use super::prometheus::PrometheusLoad;
use crate::metrics::{LoadOf, Metrics};
use crate::placement::PlacementState;
use crate::status::Part;

/// How often it is looked whether nodes are known.
const NODES_POLL: Duration = Duration::from_millis(50);

/// What became of one look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// All that is known by now; `None`: nothing was ever answered.
    pub snapshot: Option<LoadSnapshot>,
    /// Samples that are not used.
    pub dropped: Dropped,
    /// How many questions were asked.
    pub asked: usize,
    /// How many of them were answered.
    pub answered: usize,
    /// What could not be asked or understood.
    pub failures: Vec<QueryFailure>,
    /// Windows of which nothing is known, with the metric; the other windows count in their place.
    pub missing: Vec<(Arc<str>, Metric)>,
}

/// A question that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryFailure {
    /// The name of its setting, or `nodes` or `pods` of metrics-server.
    pub query: &'static str,
    /// What failed and what can be done about it.
    pub message: String,
}

/// Where load comes from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a program")]
pub enum Source {
    /// Prometheus, or what speaks its API.
    Prometheus(PrometheusLoad),
    /// metrics-server: CPU and memory only.
    MetricsServer(MetricsServerLoad),
}

impl Source {
    /// Asks what is due at `now`, in nanoseconds since 1970.
    pub async fn look(&mut self, now: i64, nodes: &KnownNodes, settings: &Settings) -> Look {
        match self {
            Self::Prometheus(source) => source.look(now, nodes, settings).await,
            Self::MetricsServer(source) => source.look(now, nodes, settings).await,
        }
    }

    /// Its name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Prometheus(_) => "prometheus",
            Self::MetricsServer(_) => "metrics-server",
        }
    }
}

/// What may fail, as it is told.
const READ: &str = "read the load of nodes";

/// Keeps the snapshot of the load.
#[derive(Debug)]
pub struct Loader {
    source: Source,
    state: PlacementState,
    metrics: Arc<Metrics>,
    /// Whether it was logged that answers tell of no node.
    told: bool,
    /// What was missing at the last look, by window.
    missing: BTreeMap<Arc<str>, Vec<Metric>>,
}

impl Loader {
    /// Nothing is asked yet.
    pub const fn new(source: Source, state: PlacementState, metrics: Arc<Metrics>) -> Self {
        Self { source, state, metrics, told: false, missing: BTreeMap::new() }
    }

    /// Looks once, at `now` in nanoseconds since 1970, and puts in place what is known then.
    pub async fn look(&mut self, now: i64) {
        let began = Instant::now();
        let nodes = KnownNodes::of(&self.state.objects.load());
        let settings = self.state.settings.load_full();
        let look = self.source.look(now, &nodes, &settings).await;
        self.metrics.load_dropped(&look.dropped);
        for failure in &look.failures {
            self.metrics.load_query_failed(failure.query);
        }
        let health = self.metrics.health();
        match look.failures.first() {
            Some(QueryFailure { query, message }) => {
                health.failed(Part::PlacementLoad, READ, format!("{query}: {message}"));
            }
            None if look.answered > 0 => {
                health.works(Part::PlacementLoad, READ);
            }
            None => {}
        }
        if look.answered > 0 {
            health.fresh(Part::PlacementLoad);
        }
        if look.answered > 0 {
            self.metrics.load_answered(LoadOf::Nodes, self.source.name());
        }
        let fresh = look.snapshot.as_ref().map_or(0, |snapshot| snapshot.nodes.len());
        self.metrics.load_nodes(fresh, nodes.len().saturating_sub(fresh));
        self.tell(&look, fresh, nodes.len());
        if !nodes.is_empty() {
            self.tell_missing(&look, &settings);
        }
        if let Some(snapshot) = look.snapshot {
            self.state.load.store(Arc::new(snapshot));
        }
        if look.asked > 0 {
            self.metrics.load_refreshed(LoadOf::Nodes, began.elapsed());
        }
    }

    /// Says, once, that the source answers and no node has a load all the same: nothing fails, and nothing works.
    fn tell(&mut self, look: &Look, fresh: usize, nodes: usize) {
        let is_empty = look.answered > 0 && look.failures.is_empty() && fresh == 0 && nodes > 0;
        if is_empty && !self.told {
            let dropped: Vec<_> = look.dropped.iter().filter(|(_, count)| *count > 0).collect();
            tracing::warn!(
                source = self.source.name(),
                ?dropped,
                "the source answers, and tells of no node; see placement.load.nodeLabels and placement.load.queries.time"
            );
        }
        self.told = is_empty || self.told && fresh == 0;
    }

    /// Says which windows nothing is known of, whenever that changes.
    fn tell_missing(&mut self, look: &Look, settings: &Settings) {
        let mut missing: BTreeMap<Arc<str>, Vec<Metric>> = BTreeMap::new();
        for (window, metric) in &look.missing {
            missing.entry(Arc::clone(window)).or_default().push(*metric);
        }
        let named =
            |metrics: &[Metric]| metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ");
        for window in &settings.load.windows {
            let name = &window.name;
            let of_window = missing.get(name).map(Vec::as_slice).unwrap_or_default();
            self.metrics.load_window_missing(name, of_window.len());
            let before = self.missing.get(name).map(Vec::as_slice).unwrap_or_default();
            if of_window == before {
                continue;
            }
            let (window, metrics) = (name, named(of_window));
            match (&self.source, of_window.is_empty()) {
                (_, true) => tracing::info!(%window, "the means over this window are known"),
                // It only has to go on for a while.
                (Source::MetricsServer(_), false) => {
                    tracing::info!(%window, metrics, "too little of this window was seen yet; the other windows count");
                }
                (Source::Prometheus(_), false) => {
                    tracing::warn!(%window, metrics, "no means over this window are known; the other windows count");
                }
            }
        }
        self.missing = missing;
    }

    /// Looks until `cancelled`, for the first time when nodes are known. `clock` is in nanoseconds since 1970.
    pub async fn run(mut self, every: Duration, clock: fn() -> i64, cancelled: CancellationToken) {
        let work = async {
            while self.state.objects.load().nodes().next().is_none() {
                sleep(NODES_POLL).await;
            }
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.look(clock()).await;
            }
        };
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = work => {}
        }
    }
}
