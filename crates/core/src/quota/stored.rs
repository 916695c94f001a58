//! Trees as the cluster holds them, good or bad, and which of them counts.

use std::sync::Arc;

use crate::problem::Problem;
use crate::quota::Tree;

/// The only namespace where a tree has an effect.
pub const TREE_NAMESPACE: &str = "kube-system";

/// An `ElasticQuotaTree` that is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredTree {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created, in seconds since 1970; 0 offline.
    pub created: i64,
    /// What of it is in force, with what is blocked because of violations.
    pub tree: Arc<Tree>,
    /// What is wrong with it by itself.
    pub problems: Vec<Problem>,
    /// What is odd about it by itself.
    pub warnings: Vec<Problem>,
}

impl StoredTree {
    /// The order in which trees count: the oldest first.
    pub fn rank(&self) -> (i64, &str) {
        (self.created, &self.name)
    }
}
