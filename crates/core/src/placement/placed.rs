//! Which pods are on which node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::placement::estimate::Figures;
pub use crate::placement::pod::WorkloadKey;
use crate::placement::pod::PlacedPod;

/// All pods of the cluster, by node, and what decisions read of them without going through them all.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Whether all pods were listed, and are followed since.
    pub complete: bool,
}
