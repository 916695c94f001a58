//! Policy `weights`: idle shares, weighted by what the workload uses most.

use super::View;
use crate::placement::{ByResource, NodeResource, Weights};

/// `SUM_r free(i,r) w(r)` of each node, 0 to 1. A resource whose idle share one node does not tell is left out for all of
/// them, and the weights of the others grow; a node that tells none has no figure.
pub(super) fn priorities(nodes: &[&str], weights: &Weights, view: &View<'_>) -> Vec<Option<f64>> {
    let idle: Vec<Option<ByResource<Option<f64>>>> = nodes
        .iter()
        .map(|node| {
            let idle = view.idle(view.measured(node)?);
            idle.iter().any(|(_, share)| share.is_some()).then_some(idle)
        })
        .collect();
    let is_told = |resource: NodeResource| idle.iter().flatten().all(|node| node.get(resource).is_some());
    let told: Vec<_> = NodeResource::ALL.into_iter().filter(|resource| is_told(*resource)).collect();
    let sum: f64 = told.iter().map(|resource| weights.get(*resource)).sum();
    // All that the workload uses is left out: the resources that are told count the same.
    let weight = |resource: NodeResource| {
        #[expect(clippy::cast_precision_loss, reason = "at most four")]
        let equal = 1.0 / told.len() as f64;
        if sum > 0.0 { weights.get(resource) / sum } else { equal }
    };
    let priority = |node: ByResource<Option<f64>>| {
        let parts = told.iter().filter_map(|resource| Some(node.get(*resource)? * weight(*resource)));
        (!told.is_empty()).then(|| parts.sum())
    };
    idle.into_iter().map(|node| node.and_then(priority)).collect()
}
