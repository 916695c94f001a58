//! From what is known to a score for each node.

mod combined;
mod hot_spot;
mod load;
mod points;
mod refuse;
mod risk;
mod weighted;
mod why;

use std::collections::BTreeMap;

use crate::objects::Objects;
use crate::placement::{
    ByMetric, ByResource, LearntWeights, LoadSnapshot, NodeLoad, NodeResource, Placed, Settings, Weights,
    WeightsFrom, units,
};

pub use combined::score;
pub use hot_spot::FloodCause;
pub use load::{UsageOf, unseen_part, usages};
pub use refuse::{Refusal, refuse};

/// What is known, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Nodes and recommendations.
    pub objects: &'a Objects,
    /// What was measured of nodes.
    pub load: &'a LoadSnapshot,
    /// Which pods are where.
    pub placed: &'a Placed,
    /// What was learnt of workloads.
    pub weights: &'a LearntWeights,
    /// What the operator decided.
    pub settings: &'a Settings,
    /// The clock, in nanoseconds since 1970.
    pub now: i64,
    /// When a node was lost last, in nanoseconds since 1970; 0: never.
    pub node_lost: i64,
    /// Bindings that are given by hand, by node, in place of those that pods tell of.
    pub bindings: Option<&'a BTreeMap<String, u32>>,
}

/// The scores of the offered nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// In the order in which the nodes were offered.
    pub nodes: Vec<NodeScore>,
    /// The weights of resources, where policy `weights` has a part in it.
    pub weights: Option<(Weights, WeightsFrom)>,
    /// Why much is bound at once, if it is.
    pub flood: Option<FloodCause>,
}

/// The score of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeScore {
    /// 0 to 100; more is better.
    pub score: f64,
    /// What a scheduler is told: 0 to 10.
    pub points: u8,
    /// U(n): the share of the node that is used, 0 to 1, with what the pod and those bound lately are expected to use.
    /// `None`: nothing fresh was measured of it, or load has no part in the decision.
    pub usage: Option<f64>,
    /// The parts of it, by metric; what was dropped for all nodes is `None`.
    pub by_metric: ByMetric<Option<f64>>,
    /// The score by policy `load`, 0 to 100, before bindings.
    pub load: Option<f64>,
    /// `SUM_r free(r) w(r)` by policy `weights`, 0 to 1, before bindings.
    pub weighted: Option<f64>,
    /// The score by policy `overcommit-risk`, 0 to 100, before bindings.
    pub risk: Option<f64>,
    /// Pods that were bound to it in the window that counts, with those that are expected.
    pub bindings: u32,
    /// Those of them for which a scheduler was told of it, and that are not seen bound yet.
    pub expected: u32,
    /// What they cost, of the score.
    pub penalty: f64,
    /// Pods of the same workload on it, beyond the least of the offered nodes.
    pub replicas: u32,
    /// Whether nothing is known of it by any policy: it has the median of the others.
    pub is_unknown: bool,
}

impl View<'_> {
    /// What a node has of CPU (cores) and memory (bytes): its capacity, else what the source of the load told.
    fn capacities(&self, node: &str) -> [Option<f64>; 2] {
        let (object, load) = (self.objects.node(node), self.load.nodes.get(node));
        [NodeResource::Cpu, NodeResource::Memory].map(|resource| {
            let of_object = object.and_then(|node| node.capacity.get(resource.name())).map(units);
            let told = || load?.totals.get(resource);
            of_object.or_else(told).filter(|capacity| capacity.is_finite() && *capacity > 0.0)
        })
    }

    /// What is known of its load.
    pub fn measured(&self, node: &str) -> Option<&NodeLoad> {
        self.load.fresh(node, self.now, &self.settings.load)
    }

    /// The shares of a node that are idle: as given, else what the shortest window leaves. Of a disk only the given one
    /// counts: weights are by what is stored, and how busy it is says nothing of that.
    fn idle(&self, node: &NodeLoad) -> ByResource<Option<f64>> {
        use crate::placement::Metric;
        let mut idle = ByResource::default();
        for (resource, given) in node.idle.iter() {
            let metric = match resource {
                NodeResource::Cpu => Some(Metric::Cpu),
                NodeResource::Memory => Some(Metric::Memory),
                NodeResource::Bandwidth => Some(Metric::Network),
                NodeResource::Disk => None,
            };
            let left = || node.newest(metric?, &self.settings.load).map(|used| 1.0 - used);
            idle.set(resource, given.map(|given| given.clamp(0.0, 1.0)).or_else(left));
        }
        idle
    }
}

/// The median of what is known; of an even number the mean of the middle two.
fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return Some(*upper);
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(f64::midpoint(lower, *upper))
}
