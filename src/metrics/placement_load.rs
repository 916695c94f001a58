//! What is counted about load: how old it is, which nodes have one, what is not used of it, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::placement::{DropReason, Dropped};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{IntGauge, register};
use super::labels::{LoadOf, LoadState, QueryLabel, ReasonLabel, WeightsOf};
use super::{Metrics, saturate};

/// Upper bounds of the buckets of a look's duration, in seconds.
const LOOK_BUCKETS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// What is asked, by the names of settings, and of metrics-server.
const QUERIES: [&str; 15] = [
    "cpu",
    "memory",
    "disk",
    "load",
    "network",
    "time",
    "totalBandwidth",
    "totalDisk",
    "idleDisk",
    "containerCpu",
    "containerMemory",
    "containerBandwidth",
    "containerDisk",
    "nodes",
    "pods",
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct AgeLabels {
    of: &'static str,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLabel {
    of: LoadOf,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: LoadState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WeightsLabel {
    of: WeightsOf,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WindowLabel {
    window: String,
}

/// When each source last answered, so that its age is that of the scrape.
#[derive(Clone, Debug, Default)]
struct LoadAges(Arc<Mutex<BTreeMap<AgeLabels, Instant>>>);

impl Collector for LoadAges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let answered = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if answered.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "placement_load_age_seconds",
            "Time since the source last answered about nodes or containers",
            None,
            MetricType::Gauge,
        )?;
        for (labels, at) in answered {
            let age = ConstGauge::new(at.elapsed().as_secs_f64());
            age.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// What is counted about load, by every replica.
#[derive(Debug)]
pub(super) struct LoadFamilies {
    ages: LoadAges,
    looks: Family<OfLabel, Histogram, fn() -> Histogram>,
    nodes: Family<StateLabel, IntGauge>,
    missing: Family<WindowLabel, IntGauge>,
    dropped: Family<ReasonLabel, Counter>,
    failures: Family<QueryLabel, Counter>,
    weights: Family<WeightsLabel, IntGauge>,
}

impl LoadFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let ages = LoadAges::default();
        r.register_collector(Box::new(ages.clone()));
        let looks: Family<OfLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(LOOK_BUCKETS));
        r.register(
            "placement_load_refresh_duration_seconds",
            "Time from asking about nodes or containers to having what is made of the answers in place",
            looks.clone(),
        );
        for &of in LoadOf::ALL {
            looks.get_or_create_owned(&OfLabel { of });
        }
        let nodes: Family<StateLabel, IntGauge> =
            register(r, "placement_load_nodes", "Nodes with a load that is fresh, and without one");
        for &state in LoadState::ALL {
            nodes.get_or_create_owned(&StateLabel { state });
        }
        let missing: Family<WindowLabel, IntGauge> = register(
            r,
            "placement_load_missing_means",
            "Metrics of whose means over the window nothing is known, so that other windows count in their place",
        );
        let dropped: Family<ReasonLabel, Counter> = register(
            r,
            "placement_load_samples_dropped",
            "Samples of nodes and containers that are not used",
        );
        for reason in DropReason::ALL {
            dropped.get_or_create_owned(&ReasonLabel { reason: reason.name() });
        }
        let weights: Family<WeightsLabel, IntGauge> =
            register(r, "placement_learnt_weights", "Workloads and images whose weights were learnt");
        for &of in WeightsOf::ALL {
            weights.get_or_create_owned(&WeightsLabel { of });
        }
        let failures: Family<QueryLabel, Counter> =
            register(r, "placement_load_query_failures", "Questions about load that failed");
        for query in QUERIES {
            failures.get_or_create_owned(&QueryLabel { query });
        }
        Self { ages, looks, nodes, missing, dropped, failures, weights }
    }
}

impl Metrics {
    /// Notes that a source answered about nodes or containers just now, at least in part.
    pub fn load_answered(&self, of: LoadOf, source: &'static str) {
        let labels = AgeLabels { of: of.as_str(), source };
        self.load.ages.0.lock().unwrap_or_else(PoisonError::into_inner).insert(labels, Instant::now());
    }

    /// Notes how long it took to ask and to make something of the answers.
    pub fn load_refreshed(&self, of: LoadOf, took: Duration) {
        self.load.looks.get_or_create(&OfLabel { of }).observe(took.as_secs_f64());
    }

    /// Notes how many nodes have a load that is fresh, and how many do not.
    pub fn load_nodes(&self, fresh: usize, without: usize) {
        for (state, count) in [(LoadState::Fresh, fresh), (LoadState::Without, without)] {
            self.load.nodes.get_or_create(&StateLabel { state }).set(saturate(count));
        }
    }

    /// Notes of how many metrics no mean over a window is known.
    pub fn load_window_missing(&self, window: &str, metrics: usize) {
        let label = WindowLabel { window: window.to_owned() };
        self.load.missing.get_or_create(&label).set(saturate(metrics));
    }

    /// Counts samples that are not used.
    pub fn load_dropped(&self, dropped: &Dropped) {
        for (reason, count) in dropped.iter().filter(|(_, count)| *count > 0) {
            self.load.dropped.get_or_create(&ReasonLabel { reason: reason.name() }).inc_by(count);
        }
    }

    /// Counts a question that failed; `query` is the name of its setting.
    pub fn load_query_failed(&self, query: &'static str) {
        self.load.failures.get_or_create(&QueryLabel { query }).inc();
    }

    /// Notes of how many workloads and images weights were learnt.
    pub fn learnt_weights(&self, workloads: usize, images: usize) {
        for (of, count) in [(WeightsOf::Workload, workloads), (WeightsOf::Image, images)] {
            self.load.weights.get_or_create(&WeightsLabel { of }).set(saturate(count));
        }
    }
}
