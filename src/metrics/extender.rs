//! What the scheduler extender counts.

use std::time::Duration;

use plimsoll_core::placement::WeightsFrom;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::register;
use super::labels::{ExtenderOutcome, ExtenderVerb};
use super::{ListenerMetrics, Metrics};
use crate::status::Health;

/// Upper bounds of the buckets of durations, in seconds.
const LATENCY_BUCKETS: [f64; 11] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.2];
/// Upper bounds of the buckets of nodes.
const NODE_BUCKETS: [f64; 9] = [1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: ExtenderVerb,
    outcome: ExtenderOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: ExtenderVerb,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FromLabel {
    from: &'static str,
}

/// What the extender counts, beside its listener.
#[derive(Debug)]
pub(super) struct ExtenderFamilies {
    listener: ListenerMetrics,
    requests: Family<RequestLabels, Counter>,
    duration: Family<VerbLabel, Histogram>,
    nodes: Family<VerbLabel, Histogram>,
    whole: Counter,
    weights: Family<FromLabel, Counter>,
    refused: Counter,
}

impl ExtenderFamilies {
    pub(super) fn register(r: &mut Registry, health: &Health) -> Self {
        let requests: Family<RequestLabels, Counter> = register(
            r,
            "extender_requests",
            "Requests to the scheduler extender, by what they asked for and how they ended",
        );
        for &verb in ExtenderVerb::ALL {
            for &outcome in ExtenderOutcome::ALL {
                requests.get_or_create_owned(&RequestLabels { verb, outcome });
            }
        }
        let duration =
            Family::<VerbLabel, Histogram>::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS));
        r.register(
            "extender_duration_seconds",
            "Time from the whole request read to the answer ready, waiting for a slot included",
            duration.clone(),
        );
        let nodes = Family::<VerbLabel, Histogram>::new_with_constructor(|| Histogram::new(NODE_BUCKETS));
        r.register("extender_nodes", "Nodes in a request", nodes.clone());
        for verb in [ExtenderVerb::Prioritize, ExtenderVerb::Filter] {
            duration.get_or_create_owned(&VerbLabel { verb });
            nodes.get_or_create_owned(&VerbLabel { verb });
        }
        let whole = register(
            r,
            "extender_whole_nodes",
            "Requests with whole nodes in place of names, which cost much more",
        );
        let weights: Family<FromLabel, Counter> = register(
            r,
            "extender_weights",
            "Decisions that used weights of resources, by where the weights came from",
        );
        for from in [WeightsFrom::Workload, WeightsFrom::Image, WeightsFrom::Default] {
            weights.get_or_create_owned(&FromLabel { from: from.name() });
        }
        let refused = register(r, "extender_refused_nodes", "Nodes that were refused for their load");
        let listener = ListenerMetrics::register(r, "extender_", "extender", health);
        Self { listener, requests, duration, nodes, whole, weights, refused }
    }
}

impl Metrics {
    /// What the listener of the scheduler extender counts.
    #[must_use]
    pub const fn extender_listener(&self) -> &ListenerMetrics {
        &self.extender.listener
    }

    /// Counts a request to the scheduler extender.
    pub fn extender_request(&self, verb: ExtenderVerb, outcome: ExtenderOutcome) {
        self.extender.requests.get_or_create(&RequestLabels { verb, outcome }).inc();
    }

    /// Notes how long a decision took.
    pub fn extender_duration(&self, verb: ExtenderVerb, duration: Duration) {
        self.extender.duration.get_or_create(&VerbLabel { verb }).observe(duration.as_secs_f64());
    }

    /// Notes how many nodes a request had, and whether they were whole.
    pub fn extender_nodes(&self, verb: ExtenderVerb, nodes: usize, are_whole: bool) {
        let nodes = f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
        self.extender.nodes.get_or_create(&VerbLabel { verb }).observe(nodes);
        if are_whole {
            self.extender.whole.inc();
        }
    }

    /// Counts a decision that used weights.
    pub fn extender_weights(&self, from: WeightsFrom) {
        self.extender.weights.get_or_create(&FromLabel { from: from.name() }).inc();
    }

    /// Counts nodes that were refused.
    pub fn extender_refused(&self, nodes: usize) {
        self.extender.refused.inc_by(u64::try_from(nodes).unwrap_or(u64::MAX));
    }
}
