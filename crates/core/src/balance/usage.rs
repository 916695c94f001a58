//! How busy each node is: one figure of all metrics, for all nodes by the same metrics.

use crate::balance::node::BalanceNode;
use crate::balance::state::{State, still_shown};
use crate::placement::{ByMetric, Figures, LoadSettings, Metric, usages as measured};

/// How busy the nodes are.
#[derive(Clone, Debug, Default)]
pub(super) struct Usages<'a> {
    pub(super) nodes: Vec<NodeUsage<'a>>,
    /// The mean of what was measured: whoever is moved does not change it.
    pub(super) mean: f64,
    /// The mean of what is expected.
    pub(super) expected_mean: f64,
    /// The weights of CPU and memory among those of all metrics of this round.
    pub(super) parts: Figures,
}

/// How busy a node is, each a share of the whole node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeUsage<'a> {
    pub(super) node: BalanceNode<'a>,
    /// As measured.
    pub(super) measured: f64,
    /// Less what was evicted and still shows.
    pub(super) settled: f64,
    /// And with what was bound and does not show yet.
    pub(super) expected: f64,
}

/// How busy these nodes are, by the rules by which they are scored.
pub(super) fn usages<'a>(fresh: &[BalanceNode<'a>], state: &State, settings: &LoadSettings) -> Usages<'a> {
    let loads: Vec<_> = fresh.iter().map(|node| node.load).collect();
    let evictions = state.by_node();
    let gone: Vec<Figures> = fresh
        .iter()
        .map(|node| {
            let evictions = evictions.get(node.name()).map_or(&[][..], Vec::as_slice);
            still_shown(evictions, node.load.map_or(0, |load| load.sampled), settings)
        })
        .collect();
    let new: Vec<Figures> = fresh.iter().map(|node| node.shares(node.unseen)).collect();
    let less = |place: usize, metric| -of(gone.get(place), metric);
    let both = |place: usize, metric| of(new.get(place), metric) - of(gone.get(place), metric);
    let plain = measured(&loads, settings, |_, _| 0.0);
    let settled = measured(&loads, settings, less);
    let expected = measured(&loads, settings, both);
    let metrics = plain.iter().flatten().map(|found| found.by_metric).next().unwrap_or_default();
    let nodes: Vec<NodeUsage<'_>> = fresh
        .iter()
        .zip(plain.into_iter().zip(settled.into_iter().zip(expected)))
        .filter_map(|(node, (plain, (settled, expected)))| {
            Some(NodeUsage {
                node: *node,
                measured: plain?.usage,
                settled: settled?.usage,
                expected: expected?.usage,
            })
        })
        .collect();
    let mean =
        |of: &dyn Fn(&NodeUsage<'_>) -> f64| nodes.iter().map(of).sum::<f64>() / count(nodes.len()).max(1.0);
    Usages {
        mean: mean(&|node| node.measured),
        expected_mean: mean(&|node| node.expected),
        parts: parts(&metrics, settings),
        nodes,
    }
}

/// The weights of CPU and memory among the metrics that have a value.
fn parts(metrics: &ByMetric<Option<f64>>, settings: &LoadSettings) -> Figures {
    let of = |wanted: &dyn Fn(Metric) -> bool| -> f64 {
        let counts = |(metric, _): &&(Metric, f64)| metrics.get(*metric).is_some() && wanted(*metric);
        settings.metrics.iter().filter(counts).map(|(_, weight)| weight).sum()
    };
    let all = of(&|_| true);
    if all > 0.0 {
        Figures {
            cpu: of(&|metric| metric == Metric::Cpu) / all,
            memory: of(&|metric| metric == Metric::Memory) / all,
        }
    } else {
        Figures::default()
    }
}

fn of(figures: Option<&Figures>, metric: Metric) -> f64 {
    let figures = figures.copied().unwrap_or_default();
    match metric {
        Metric::Cpu => figures.cpu,
        Metric::Memory => figures.memory,
        Metric::Disk | Metric::Load | Metric::Network => 0.0,
    }
}

/// A count as a number; there are fewer nodes than that loses anything.
pub(super) fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
