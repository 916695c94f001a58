//! A node as balancing sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::placement::{ByMetric, LoadSettings, Metric};
use crate::quota::Amounts;

/// A node, and how loaded it is.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceNode {
    /// What it says of itself.
    pub facts: Arc<NodeFacts>,
    /// Its usage by metric over all windows, as [`NodeLoad::usage`](crate::placement::NodeLoad::usage) gives it, not older
    /// than is allowed; all `None`: it has no fresh load.
    pub usage: ByMetric<Option<f64>>,
    /// The time of its newest sample, in nanoseconds since 1970.
    pub sampled: i64,
    /// Shares of CPU and memory that pods are expected to use, and that its load does not show yet.
    pub unseen: [f64; 2],
    /// Whether so much was bound to it lately that it has a hot-spot penalty.
    pub hot_spot: bool,
}

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid, for events.
    pub uid: String,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// `spec.unschedulable`
    pub unschedulable: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What it has, in nano-units.
    pub capacity: Amounts,
    /// What of it pods may have.
    pub allocatable: Amounts,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl BalanceNode {
    /// Whether pods may be moved from and to it, as far as its state goes.
    pub(super) fn takes_part(&self) -> bool {
        self.facts.ready && !self.facts.unschedulable
    }

    /// Whether it has any load.
    pub(super) fn is_fresh(&self, load: &LoadSettings) -> bool {
        weighted(load).any(|(metric, _)| self.usage.get(metric).is_some())
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.facts.labels.get(key).map(String::as_str)
    }

    /// The cores and bytes that it has; nothing if it does not say.
    pub(super) fn capacity(&self) -> Option<[f64; 2]> {
        let of =
            |name| Some(crate::placement::units(self.facts.capacity.get(name)?)).filter(|all| *all > 0.0);
        Some([of("cpu")?, of("memory")?])
    }
}

/// The metrics that count, with their weights.
pub(super) fn weighted(load: &LoadSettings) -> impl Iterator<Item = (Metric, f64)> {
    load.metrics.iter().copied().filter(|(_, weight)| *weight > 0.0)
}
