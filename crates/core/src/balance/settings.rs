//! What an operator decides about balancing.

use std::collections::BTreeSet;

/// When pods are evicted, and which. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceSettings {
    /// How far above the mean a node's usage must be. Balancing goes on until half of it.
    pub threshold: f64,
    /// For how many rounds in a row; at least 1.
    pub rounds: u32,
    /// An owner keeps at least so many ready pods beside the one that is evicted.
    pub min_replicas: u32,
    /// A pod that has been on its node for less stays.
    pub minimum_age: i64,
    /// So long after an eviction the same workload is left alone.
    pub cooldown: i64,
    /// At most so many evictions in any hour.
    pub evictions_per_hour: u32,
    /// Nobody is evicted from these namespaces.
    pub excluded_namespaces: BTreeSet<String>,
    /// Whether pods may be evicted whose data on the node is lost then.
    pub evict_local_storage: bool,
    /// So long after a node was lost nobody is evicted: its pods look for room.
    pub node_lost: i64,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            threshold: 0.10,
            rounds: 3,
            min_replicas: 1,
            minimum_age: 300,
            cooldown: 600,
            evictions_per_hour: 60,
            excluded_namespaces: BTreeSet::from(["kube-system".to_owned()]),
            evict_local_storage: false,
            node_lost: 600,
        }
    }
}
