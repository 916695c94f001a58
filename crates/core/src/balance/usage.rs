//! How busy each node is: one figure of all metrics, for all nodes by the same metrics.

use crate::balance::node::{BalanceNode, weighted};
use crate::balance::state::{State, still_shown};
use crate::placement::{LoadSettings, Metric};

/// How busy the nodes are.
#[derive(Clone, Debug, Default)]
pub(super) struct Usages<'a> {
    pub(super) nodes: Vec<NodeUsage<'a>>,
    /// The mean of what is expected of them.
    pub(super) mean: f64,
    /// The weights of CPU and memory among those of all metrics that count in this round.
    pub(super) parts: [f64; 2],
}

/// How busy a node is, each a share of the whole node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeUsage<'a> {
    pub(super) node: &'a BalanceNode,
    /// As measured, less what was evicted and still shows.
    pub(super) settled: f64,
    /// And with what was bound and does not show yet.
    pub(super) expected: f64,
}

/// What is known of fresh nodes. A metric that more of them than `load.missing` do not have is left out for all; where
/// fewer do not have it, they get the others' median.
pub(super) fn usages<'a>(fresh: &[&'a BalanceNode], state: &State, load: &LoadSettings) -> Usages<'a> {
    let metrics: Vec<(Metric, f64, f64)> = weighted(load)
        .filter_map(|(metric, weight)| {
            let mut known: Vec<f64> = fresh.iter().filter_map(|node| node.usage.get(metric)).collect();
            let missing = count(fresh.len().saturating_sub(known.len()));
            if known.is_empty() || missing > load.missing * count(fresh.len()) {
                return None;
            }
            Some((metric, weight, median(&mut known)?))
        })
        .collect();
    let sum: f64 = metrics.iter().map(|(_, weight, _)| weight).sum();
    if sum <= 0.0 {
        return Usages::default();
    }
    let of = |node: &BalanceNode, more: [f64; 2]| -> f64 {
        let parts = metrics.iter().map(|(metric, weight, median)| {
            let more = match metric {
                Metric::Cpu => more[0],
                Metric::Memory => more[1],
                Metric::Disk | Metric::Load | Metric::Network => 0.0,
            };
            weight * (node.usage.get(*metric).unwrap_or(*median) + more).clamp(0.0, 1.0)
        });
        parts.sum::<f64>() / sum
    };
    let evictions = state.by_node();
    let nodes: Vec<NodeUsage<'_>> = fresh
        .iter()
        .map(|node| {
            let evictions = evictions.get(node.facts.name.as_ref()).map_or(&[][..], Vec::as_slice);
            let gone = still_shown(evictions, node.sampled, load);
            let [cpu, memory] = node.unseen;
            NodeUsage {
                node,
                settled: of(node, gone.map(|gone| -gone)),
                expected: of(node, [cpu - gone[0], memory - gone[1]]),
            }
        })
        .collect();
    let mean = nodes.iter().map(|node| node.expected).sum::<f64>() / count(nodes.len());
    let part = |metric| {
        metrics.iter().find(|(known, ..)| *known == metric).map_or(0.0, |(_, weight, _)| weight / sum)
    };
    Usages { nodes, mean, parts: [part(Metric::Cpu), part(Metric::Memory)] }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper))
}

/// A count as a number; there are fewer nodes than that loses anything.
pub(super) fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
