//! Policy `overcommit-risk`: how far the limits of a node's pods exceed it.

use super::View;
use crate::placement::{Incoming, NodePods, units};

/// `100 (1 - max over cpu and memory of max(0, limits - capacity) / (limits - requests))`, with sums over the pods of the
/// node and the new one. `None`: its capacity is not known.
pub(super) fn score(node: &str, pod: &Incoming, view: &View<'_>) -> Option<f64> {
    let on = view.placed.on(node);
    let (requests, limits) = on.map_or(([0; 2], [0; 2]), |on: &NodePods| (on.requests(), on.limits()));
    let mut greatest: f64 = 0.0;
    for (capacity, (index, name)) in view.capacities(node).into_iter().zip([(0, "cpu"), (1, "memory")]) {
        let capacity = capacity?;
        let sum = |sums: [i128; 2], own: i128| {
            units(sums.get(index).copied().unwrap_or(0).saturating_add(own.max(0)))
        };
        let limits = sum(limits, pod.shape.limits.get(index).copied().unwrap_or(0));
        let requests = sum(requests, pod.shape.requests.of(name));
        let beyond = limits - capacity;
        if beyond > 0.0 {
            let promised = limits - requests;
            greatest = greatest.max(if promised > 0.0 { (beyond / promised).min(1.0) } else { 1.0 });
        }
    }
    Some(100.0 * (1.0 - greatest))
}
