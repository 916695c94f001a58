//! The policies together, bindings and replicas.

use std::collections::HashMap;

use super::{Decision, NodeScore, View, load, median, points, risk, weighted};
use crate::placement::{Expected, FloodForm, Incoming, Weights, WeightsFrom};

/// What a node has of which nothing is known, where nothing is known of any.
const MIDDLE: f64 = 50.0;

/// Scores the offered nodes for a pod. The answer has a score for each of them, in their order.
///
/// Each policy gives 0 to 100, the median of its scores to nodes of which it knows nothing, and has a part in the mean by
/// its weight; one that knows none of the nodes has no part. Then the nodes to which much was bound lost points.
pub fn score(pod: &Incoming, nodes: &[&str], view: &View<'_>) -> Decision {
    let policies = view.settings.policies;
    let mut scores = vec![NodeScore { is_unknown: true, ..NodeScore::default() }; nodes.len()];
    let flood = view.flood();
    let window = view.hot_spot_window(flood);
    let expected = view.expected(pod, window);
    for (score, node) in scores.iter_mut().zip(nodes) {
        score.expected = expected.get(node).map_or(0, |on| on.pods);
        score.bindings = view.bindings(node, window).saturating_add(score.expected);
    }
    if policies.load > 0.0 {
        for (score, usage) in scores.iter_mut().zip(load::with_pod(nodes, pod.estimate, &expected, view)) {
            let Some(usage) = usage else { continue };
            score.usage = Some(usage.usage);
            score.by_metric = usage.by_metric;
            score.load = Some(100.0 * (1.0 - usage.usage));
        }
    }
    let mut weights: Option<(Weights, WeightsFrom)> = None;
    if policies.weights > 0.0 {
        let images = pod.shape.containers.iter().map(|container| container.image.as_ref());
        let of_pod = view.weights.of(&pod.shape.workload, images, view.settings.default_weights);
        for (score, priority) in scores.iter_mut().zip(weighted::priorities(nodes, &of_pod.0, view)) {
            score.weighted = priority;
        }
        weights = Some(of_pod);
    }
    if policies.overcommit_risk > 0.0 {
        for (score, node) in scores.iter_mut().zip(nodes) {
            score.risk = risk::score(node, pod, view);
        }
    }
    combine(&mut scores, view);
    if flood.is_some() && view.settings.flood.form == FloodForm::Fuse {
        spread(&mut scores);
    } else {
        for score in &mut scores {
            score.penalty = view.settings.hot_spot.cost(score.bindings);
            score.score = (score.score - score.penalty).max(0.0);
        }
    }
    count_replicas(&mut scores, pod, nodes, &expected, view);
    points::give(&mut scores, view.settings.points, view.settings.replica_penalty);
    Decision { nodes: scores, weights, flood }
}

/// The weight of a policy, and the score that it gives a node.
type Part = (f64, fn(&NodeScore) -> Option<f64>);

/// The mean of the policies by their weights.
fn combine(scores: &mut [NodeScore], view: &View<'_>) {
    let policies = view.settings.policies;
    let parts: [Part; 3] = [
        (policies.load, |score| score.load),
        (policies.weights, |score| score.weighted.map(|priority| 100.0 * priority)),
        (policies.overcommit_risk, |score| score.risk),
    ];
    let mut weights = 0.0;
    for (weight, of) in parts {
        let Some(median) = median(scores.iter().filter_map(of)).filter(|_| weight > 0.0) else { continue };
        weights += weight;
        for score in scores.iter_mut() {
            let own = of(score);
            score.is_unknown &= own.is_none();
            score.score += weight * own.unwrap_or(median);
        }
    }
    for score in scores {
        score.score = if weights > 0.0 { (score.score / weights).clamp(0.0, 100.0) } else { MIDDLE };
    }
}

/// In a flood: the node to which least was bound is best, whatever its load.
fn spread(scores: &mut [NodeScore]) {
    let most = scores.iter().map(|score| score.bindings).max().unwrap_or(0).max(1);
    for score in scores {
        score.score = 100.0 * (1.0 - f64::from(score.bindings) / f64::from(most));
    }
}

fn count_replicas(
    scores: &mut [NodeScore],
    pod: &Incoming,
    nodes: &[&str],
    expected: &HashMap<&str, Expected>,
    view: &View<'_>,
) {
    let on = view.placed.replicas(&pod.shape.workload);
    if on.is_none() && expected.is_empty() {
        return;
    }
    let of = |node: &str| {
        let seen = on.and_then(|on| on.get(node)).copied().unwrap_or(0);
        seen.saturating_add(expected.get(node).map_or(0, |on| on.replicas))
    };
    let least = nodes.iter().map(|node| of(node)).min().unwrap_or(0);
    for (score, node) in scores.iter_mut().zip(nodes) {
        score.replicas = of(node) - least;
    }
}
