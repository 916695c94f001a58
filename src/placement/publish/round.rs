//! What is to be written in a round. Nothing here waits or calls anybody.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use plimsoll_core::keys;
use plimsoll_core::objects::{Node, Objects};
use plimsoll_core::placement::{
    ClassChange, ClassRounds, CraneValues, CraneWritten, View, crane_annotations, crane_is_due, crane_values,
    usages,
};
use serde_json::{Map, Value, json};

use super::Options;
use crate::placement::PlacementState;

/// What is to be written on a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Patch {
    pub(super) node: Arc<Node>,
    /// Whether its label is in it: to be set, or taken off.
    pub(super) has_label: bool,
    /// What Crane is to read, if it has to be written.
    pub(super) crane: Option<CraneWritten>,
    /// The metadata of a merge patch.
    pub(super) metadata: Map<String, Value>,
}

/// What was seen and written, as far as it decides what is written next.
#[derive(Debug)]
pub(super) struct Rounds {
    options: Options,
    classes: ClassRounds,
    /// What Crane was told, by node and its uid. The leader before us told it too, which is not known.
    told: HashMap<(String, String), CraneWritten>,
}

impl Rounds {
    pub(super) fn new(options: Options) -> Self {
        Self { options, classes: ClassRounds::default(), told: HashMap::new() }
    }

    /// What is to be written now, by name of the node.
    pub(super) fn next(&mut self, state: &PlacementState, now: i64) -> Vec<Patch> {
        let (classes, crane) = state.decide(now, |view| {
            let classes = match &self.options.classes {
                Some(bounds) => {
                    let usage = usage_by_node(view);
                    self.classes.next(view.objects, |node| usage.get(node).copied(), bounds)
                }
                // Nobody keeps them any more.
                None => labelled(view.objects).map(|node| ClassChange { node, class: None }).collect(),
            };
            let crane = self.options.crane.map(|_| crane_by_node(view));
            (classes, crane.unwrap_or_default())
        });
        let mut patches: BTreeMap<String, Patch> = BTreeMap::new();
        for ClassChange { node, class } in classes {
            let patch = of_node(&mut patches, &node);
            let value = class.map_or(Value::Null, |class| class.name().into());
            patch.metadata.insert("labels".to_owned(), json!({ keys::LOAD_CLASS: value }));
            patch.has_label = true;
        }
        let nodes: HashSet<_> = crane.iter().map(|(node, ..)| key(node)).collect();
        self.told.retain(|told, _| nodes.contains(told));
        for (node, values, sampled) in crane {
            if !crane_is_due(&values, self.told.get(&key(&node)), sampled) {
                continue;
            }
            // Crane goes by the age of what was measured, not of what was written. Its clock may be behind the exporter's.
            let at = sampled.min(now);
            let annotations = crane_annotations(&values, at, self.options.crane.unwrap_or(0));
            let patch = of_node(&mut patches, &node);
            patch.metadata.insert("annotations".to_owned(), json!(annotations));
            patch.crane = Some(CraneWritten { values, sampled });
        }
        patches.into_values().collect()
    }

    /// Notes that it is written.
    pub(super) fn written(&mut self, patch: Patch) {
        if let Some(crane) = patch.crane {
            self.told.insert(key(&patch.node), crane);
        }
    }
}

/// The nodes that have a label of ours.
pub(super) fn labelled(objects: &Objects) -> impl Iterator<Item = Arc<Node>> {
    objects.nodes().filter(|node| node.labels.contains_key(keys::LOAD_CLASS)).map(Arc::clone)
}

fn key(node: &Node) -> (String, String) {
    (node.name.clone(), node.uid.clone())
}

fn of_node<'a>(patches: &'a mut BTreeMap<String, Patch>, node: &Arc<Node>) -> &'a mut Patch {
    patches.entry(node.name.clone()).or_insert_with(|| Patch {
        node: Arc::clone(node),
        has_label: false,
        crane: None,
        metadata: Map::new(),
    })
}

/// U(n) of the nodes that have a load, as it is without any further pod.
fn usage_by_node(view: &View<'_>) -> HashMap<String, f64> {
    let nodes: Vec<_> = view.objects.nodes().collect();
    let loads: Vec<_> = nodes.iter().map(|node| view.measured(&node.name)).collect();
    let usages = usages(&loads, &view.settings.load, |_, _| 0.0);
    let known = nodes.into_iter().zip(usages);
    known.filter_map(|(node, usage)| Some((node.name.clone(), usage?.usage))).collect()
}

/// What Crane is to read of the nodes that have a load, and when that was measured.
fn crane_by_node(view: &View<'_>) -> Vec<(Arc<Node>, CraneValues, i64)> {
    let hot_spot = &view.settings.hot_spot;
    let window = hot_spot.window.saturating_mul(1_000_000_000);
    view.objects
        .nodes()
        .filter_map(|node| {
            let load = view.measured(&node.name)?;
            let bindings = view.placed.on(&node.name).map_or(0, |on| on.bindings(view.now, window));
            let hot = bindings.checked_div(hot_spot.bindings).unwrap_or(0);
            Some((Arc::clone(node), crane_values(load, &view.settings.load, hot), load.sampled))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_core::objects::Fact;
    use plimsoll_core::placement::{
        ByMetric, ClassBounds, LoadSnapshot, Metric, NodeLoad, Placed, PlacedPod, Settings,
    };

    use super::*;
    use crate::placement::PlacedPods;

    const BOUNDS: ClassBounds = ClassBounds { mid: 0.5, high: 0.75, hysteresis: 0.05 };
    /// 2026-03-01T10:00:00Z
    const NOW: i64 = 1_772_359_200_000_000_000;

    fn options(labels: bool, annotations: bool) -> Options {
        Options {
            classes: labels.then_some(BOUNDS),
            crane: annotations.then_some(8 * 3600),
            interval: Duration::from_secs(60),
        }
    }

    /// Nodes by name, with their label and what they use of every window and metric.
    fn state(nodes: &[(&str, Option<&str>, Option<f64>)]) -> PlacementState {
        let mut objects = Objects::default();
        let mut load = LoadSnapshot { taken: NOW, ..LoadSnapshot::default() };
        for (name, label, usage) in nodes {
            let labels = label.map(|label| (keys::LOAD_CLASS.to_owned(), label.to_owned()));
            let node = Node {
                name: (*name).to_owned(),
                uid: format!("uid-{name}"),
                labels: labels.into_iter().collect(),
                ..Node::default()
            };
            objects.put(Fact::Node(Arc::new(node)));
            if let Some(usage) = usage {
                let mut means = ByMetric::default();
                for metric in [Metric::Cpu, Metric::Memory, Metric::Disk, Metric::Load] {
                    means.set(metric, Some(*usage));
                }
                let load_of_it = NodeLoad { means: vec![means; 3], sampled: NOW, ..NodeLoad::default() };
                load.nodes.insert((*name).into(), load_of_it);
            }
        }
        let objects = Arc::new(arc_swap::ArcSwap::from_pointee(objects));
        let state = PlacementState::new(Settings::default(), objects);
        state.load.store(Arc::new(load));
        state
    }

    fn labels(patches: &[Patch]) -> Vec<(&str, Value)> {
        patches
            .iter()
            .map(|patch| (patch.node.name.as_str(), patch.metadata["labels"][keys::LOAD_CLASS].clone()))
            .collect()
    }

    /// The nodes are measured anew at that time.
    fn measured(state: &PlacementState, at: i64) {
        let mut load = LoadSnapshot::clone(&state.load.load());
        load.taken = at;
        load.nodes.values_mut().for_each(|node| node.sampled = at);
        state.load.store(Arc::new(load));
    }

    const MINUTE: i64 = 60_000_000_000;

    #[test]
    fn labels_follow_the_load() {
        let nodes = [
            ("a", None, Some(0.2)),
            ("b", Some("low"), Some(0.2)),
            ("c", Some("low"), Some(0.8)),
            ("d", Some("mid"), Some(0.47)),
            ("e", Some("mid"), None),
            ("f", None, None),
        ];
        let (a, c, e) = (("a", json!("low")), ("c", json!("high")), ("e", Value::Null));
        let state = state(&nodes);
        let mut rounds = Rounds::new(options(true, false));
        for (round, expected) in
            [vec![a.clone()], vec![a.clone(), c.clone()], vec![a, c, e]].into_iter().enumerate()
        {
            let patches = rounds.next(&state, NOW);
            assert_eq!(labels(&patches), expected, "round {round}");
            assert!(patches.iter().all(|patch| patch.crane.is_none() && patch.metadata.len() == 1));
        }
    }

    #[test]
    fn while_the_source_is_away_labels_stay() {
        let state = state(&[("a", Some("low"), Some(0.2)), ("b", Some("mid"), Some(0.6))]);
        let mut rounds = Rounds::new(options(true, true));
        rounds.next(&state, NOW);
        let labels_at = |rounds: &mut Rounds, minute: i64| {
            let patches = rounds.next(&state, NOW + minute * MINUTE);
            patches.iter().filter(|patch| patch.has_label).count()
        };
        assert!((1..30).all(|minute| labels_at(&mut rounds, minute) == 0), "whatever becomes old");
        let empty = LoadSnapshot { taken: NOW + 30 * MINUTE, ..LoadSnapshot::default() };
        state.load.store(Arc::new(empty));
        assert!((30..40).all(|minute| labels_at(&mut rounds, minute) == 0), "an answer without nodes");
    }

    #[test]
    fn labels_that_nobody_keeps_go() {
        for (rule, annotations, expected) in
            [("balance leads", false, vec!["b", "c"]), ("beside annotations", true, vec!["a", "b", "c"])]
        {
            let state =
                state(&[("a", None, Some(0.2)), ("b", Some("low"), Some(0.2)), ("c", Some("other"), None)]);
            let mut rounds = Rounds::new(options(false, annotations));
            let patches = rounds.next(&state, NOW);
            let names: Vec<_> = patches.iter().map(|patch| patch.node.name.as_str()).collect();
            assert_eq!(names, expected, "{rule}");
            for patch in &patches {
                let label = patch.metadata.get("labels");
                let expected = (patch.node.name != "a").then(|| json!({ keys::LOAD_CLASS: null }));
                assert_eq!(label, expected.as_ref(), "{rule}: {}", patch.node.name);
            }
        }
    }

    #[test]
    fn one_patch_for_both() {
        let mut rounds = Rounds::new(options(true, true));
        let state = state(&[("a", None, Some(0.2)), ("b", Some("low"), Some(0.2))]);
        let patches = rounds.next(&state, NOW);
        let keys: Vec<_> = patches.iter().map(|patch| patch.metadata.keys().collect::<Vec<_>>()).collect();
        assert_eq!(keys, [vec!["annotations", "labels"], vec!["annotations"]]);
        let annotations = &patches[0].metadata["annotations"];
        assert_eq!(annotations["cpu_usage_avg_1h"], "0.20000,2026-03-01T18:00:00Z");
        assert_eq!(annotations["node_hot_value"], "0,2026-03-01T18:00:00Z");
    }

    #[test]
    fn what_was_written_is_not_written_again_at_once() {
        let mut rounds = Rounds::new(options(false, true));
        let state = state(&[("a", None, Some(0.2)), ("b", None, Some(0.2))]);
        let names = |patches: &[Patch]| -> Vec<String> {
            patches.iter().map(|patch| patch.node.name.clone()).collect()
        };
        let mut patches = rounds.next(&state, NOW);
        assert_eq!(names(&patches), ["a", "b"]);
        rounds.written(patches.remove(0));
        measured(&state, NOW + MINUTE);
        assert_eq!(names(&rounds.next(&state, NOW + MINUTE)), ["b"], "it was not written");
        measured(&state, NOW + 3 * MINUTE);
        assert_eq!(names(&rounds.next(&state, NOW + 3 * MINUTE)), ["a", "b"], "it gets old");
    }

    #[test]
    fn crane_is_told_when_it_was_measured() {
        let state = state(&[("a", None, Some(0.2))]);
        let mut rounds = Rounds::new(options(false, true));
        let time = |patches: &[Patch]| patches[0].metadata["annotations"]["cpu_usage_avg_1h"].clone();
        let mut patches = rounds.next(&state, NOW + 2 * MINUTE);
        assert_eq!(time(&patches), "0.20000,2026-03-01T18:00:00Z", "not when it is written");
        rounds.written(patches.remove(0));
        assert_eq!(rounds.next(&state, NOW + 4 * MINUTE), [], "no newer sample: Crane sees that it gets old");
        measured(&state, NOW + 5 * MINUTE);
        let patches = rounds.next(&state, NOW + 4 * MINUTE);
        assert_eq!(time(&patches), "0.20000,2026-03-01T18:04:00Z", "not of the future");
    }

    #[test]
    fn what_was_bound_of_late_is_told() {
        let mut state = state(&[("a", None, Some(0.2))]);
        let pods = (0..11).map(|pod| {
            let manifest = json!({
                "metadata": {"namespace": "shop", "name": format!("p{pod}"), "uid": pod.to_string()},
                "spec": {"nodeName": "a", "containers": []},
                "status": {"conditions": [{
                    "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T09:59:30Z",
                }]},
            });
            PlacedPod::read(&manifest, &Objects::default()).unwrap()
        });
        state.pods = PlacedPods::of(Placed::listed(pods));
        let patches = Rounds::new(options(false, true)).next(&state, NOW);
        let hot = &patches[0].metadata["annotations"]["node_hot_value"];
        assert_eq!(*hot, "2,2026-03-01T18:00:00Z", "11 bindings, of which 5 cost nothing");
    }
}
