//! Policy `load`: how much of a node is used, over several windows and metrics.

use std::collections::HashMap;

use super::{View, median};
use crate::placement::{ByMetric, Expected, Figures, LoadSettings, Metric, NodeLoad};

/// How much of a node is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageOf {
    /// U(n), 0 to 1.
    pub usage: f64,
    /// U(n,m) of each metric of the decision.
    pub by_metric: ByMetric<Option<f64>>,
}

/// U(n) of each node, in their order. `None`: nothing fresh was measured of it, or no metric is common enough.
///
/// `U(n,m) = SUM_w a_w u / SUM a_w`, and `U(n) = SUM_m b_m U(n,m) / SUM b_m` over the metrics of the decision: one that is
/// missing on more than the share [`LoadSettings::missing`] of the nodes that have any is dropped for all of them;
/// otherwise those few nodes have the median of the others. `more` is what is added to a metric of a node, by its place.
pub fn usages(
    nodes: &[Option<&NodeLoad>],
    settings: &LoadSettings,
    more: impl Fn(usize, Metric) -> f64,
) -> Vec<Option<UsageOf>> {
    let metrics: Vec<_> =
        settings.metrics.iter().copied().filter(|(_, weight)| weight.is_finite() && *weight > 0.0).collect();
    let mut measured: Vec<Option<ByMetric<Option<f64>>>> = nodes
        .iter()
        .map(|node| {
            let mut by_metric = ByMetric::default();
            for (metric, _) in &metrics {
                by_metric.set(*metric, node.and_then(|node| node.usage(*metric, settings)));
            }
            by_metric.iter().any(|(_, usage)| usage.is_some()).then_some(by_metric)
        })
        .collect();
    let fresh = measured.iter().flatten().count();
    let mut weights = 0.0;
    for (metric, weight) in &metrics {
        let known = measured.iter().flatten().filter(|found| found.get(*metric).is_some()).count();
        let missing = fresh - known;
        #[expect(clippy::cast_precision_loss, reason = "numbers of nodes")]
        let is_dropped = known == 0 || missing as f64 > settings.missing * fresh as f64;
        let filler = if missing > 0 && !is_dropped {
            median(measured.iter().flatten().filter_map(|found| found.get(*metric)))
        } else {
            None
        };
        weights += if is_dropped { 0.0 } else { *weight };
        for (place, found) in measured.iter_mut().enumerate() {
            let Some(found) = found else { continue };
            let usage = found.get(*metric).or(filler).filter(|_| !is_dropped);
            found.set(*metric, usage.map(|usage| (usage + more(place, *metric)).clamp(0.0, 1.0)));
        }
    }
    let of_node = |found: ByMetric<Option<f64>>| {
        let parts = metrics.iter().filter_map(|(metric, weight)| Some(weight * found.get(*metric)?));
        (weights > 0.0).then(|| UsageOf { usage: parts.sum::<f64>() / weights, by_metric: found })
    };
    measured.into_iter().map(|found| found.and_then(of_node)).collect()
}

/// U(n) of each offered node as if a pod with this estimate ran there.
pub(super) fn with_pod(
    nodes: &[&str],
    estimate: Figures,
    expected: &HashMap<&str, Expected>,
    view: &View<'_>,
) -> Vec<Option<UsageOf>> {
    let settings = &view.settings.load;
    let measured: Vec<_> = nodes.iter().map(|node| view.measured(node)).collect();
    let more: Vec<_> = nodes
        .iter()
        .zip(&measured)
        .map(|(node, load)| {
            let Some(load) = load else { return Figures::default() };
            let mut more = estimate;
            if let Some(pods) = view.placed.on(node) {
                more.add(pods.unseen(load.sampled, settings), 1.0);
            }
            if let Some(pods) = expected.get(node) {
                more.add(pods.estimate, 1.0);
            }
            if more == Figures::default() {
                return more;
            }
            let [cpu, memory] = view.capacities(node);
            let part = |figure: f64, whole: Option<f64>| whole.map_or(0.0, |whole| figure / whole);
            Figures { cpu: part(more.cpu, cpu), memory: part(more.memory, memory) }
        })
        .collect();
    usages(&measured, settings, |place, metric| {
        let of_node = more.get(place).copied().unwrap_or_default();
        match metric {
            Metric::Cpu => of_node.cpu,
            Metric::Memory => of_node.memory,
            Metric::Disk | Metric::Load | Metric::Network => 0.0,
        }
    })
}

const SECOND: i64 = 1_000_000_000;

/// Which part of what runs for `age` nanoseconds is missing in the weighted mean over the windows, and which part of what
/// stopped so long ago is still in it: all at first, and 1 - age/length in each window later on.
pub fn unseen_part(age: i64, settings: &LoadSettings) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a part of a day needs no nanoseconds")]
    let seconds = age as f64 / SECOND as f64;
    let (mut missing, mut weights) = (0.0, 0.0);
    for window in &settings.windows {
        #[expect(clippy::cast_precision_loss, reason = "at most some days, in seconds")]
        let length = window.seconds.max(1) as f64;
        missing += window.weight * (1.0 - seconds / length).max(0.0);
        weights += window.weight;
    }
    if weights > 0.0 { missing / weights } else { 0.0 }
}
