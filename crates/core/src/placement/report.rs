//! What is known of each node, for people and tools.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys;
use crate::placement::{Incoming, View, score};
use crate::pod::{Json, Pruned};
use crate::quota::Amounts;

/// All nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesReport {
    /// When the load was read last; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Why much is bound at once, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood: Option<String>,
    /// By name.
    pub nodes: Vec<NodeReport>,
}

/// A node at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its label `plimsoll.dev/load-class`, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The time of its newest sample; absent: nothing fresh was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<String>,
    /// U(n): the share that is used, 0 to 1, with what pods that were bound lately are expected to use.
    #[serde(rename = "U", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<f64>,
    /// The parts of it, by metric.
    pub metrics: BTreeMap<String, f64>,
    /// The means, as measured, by metric and window.
    pub load: BTreeMap<String, BTreeMap<String, f64>>,
    /// The score for a pod that asks for nothing and of which nothing is known, 0 to 100.
    pub score: f64,
    /// Pods that were bound to it lately, with those that are expected.
    pub bindings: u32,
    /// Those of them for which this replica named the node to a scheduler, and that are not seen bound yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expected: u32,
    /// What they cost, of the score.
    pub penalty: f64,
    /// Pods on it that have not finished.
    pub pods: usize,
    /// What they request of CPU and memory.
    pub requested: Amounts,
    /// What of CPU and memory the scheduler may give away.
    pub allocatable: Amounts,
    /// CPU and memory of the machine, which usage is a share of.
    pub capacity: Amounts,
}

const CPU_AND_MEMORY: [&str; 2] = ["cpu", "memory"];

impl NodesReport {
    /// Of the nodes that are known, be it only by their load.
    pub fn of(view: &View<'_>) -> Self {
        let of_objects = view.objects.nodes().map(|node| node.name.as_str());
        let names: BTreeSet<&str> = of_objects.chain(view.load.nodes.keys().map(AsRef::as_ref)).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let nothing = Incoming::read(&Pruned(Json::Null), view.objects);
        let decision = score(&nothing, &names, view);
        let nodes = names.iter().zip(&decision.nodes).map(|(name, scored)| {
            let mut report = NodeReport::of(name, view);
            report.usage = scored.usage;
            report.metrics = scored
                .by_metric
                .iter()
                .filter_map(|(metric, usage)| Some((metric.name().to_owned(), usage?)))
                .collect();
            report.score = scored.score;
            report.bindings = scored.bindings;
            report.expected = scored.expected;
            report.penalty = scored.penalty;
            report
        });
        Self {
            taken: (view.load.taken > 0).then(|| time(view.load.taken)),
            flood: decision.flood.map(|cause| cause.to_string()),
            nodes: nodes.collect(),
        }
    }
}

impl NodeReport {
    /// All but the score.
    fn of(name: &str, view: &View<'_>) -> Self {
        let mut report = Self { name: name.to_owned(), ..Self::default() };
        if let Some(node) = view.objects.node(name) {
            let some = |all: &Amounts| {
                CPU_AND_MEMORY.iter().filter_map(|name| Some((*name, all.get(name)?))).collect()
            };
            report.ready = node.ready;
            report.unschedulable = node.unschedulable;
            report.class = node.labels.get(keys::LOAD_CLASS).cloned();
            report.allocatable = some(&node.allocatable);
            report.capacity = some(&node.capacity);
        }
        if let Some(load) = view.measured(name) {
            report.sampled = Some(time(load.sampled));
            for (means, window) in load.means.iter().zip(&view.settings.load.windows) {
                for (metric, mean) in means.iter() {
                    let Some(mean) = mean else { continue };
                    let of_metric = report.load.entry(metric.name().to_owned()).or_default();
                    of_metric.insert(window.name.to_string(), mean);
                }
            }
        }
        if let Some(on) = view.placed.on(name) {
            report.pods = on.pods().len();
            report.requested = CPU_AND_MEMORY.into_iter().zip(on.requests()).collect();
        }
        report
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn time(nanos: i64) -> String {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or_default().to_string()
}
