//! The vectors of the documents.

use plimsoll_core::balance::{State, Verdict};
use plimsoll_core::placement::Settings;
use serde_json::json;

use crate::support::{SECOND, World, means};

/// The table of four nodes: over 15 minutes, an hour and a day.
fn table() -> World {
    let mut world = World::new();
    world.settings = Settings::default();
    let rows = [
        ("n1", [[0.80, 0.70, 0.60], [0.60, 0.60, 0.50], [0.30, 0.20, 0.10], [0.90, 0.80, 0.70]]),
        ("n2", [[0.20, 0.30, 0.40], [0.30, 0.30, 0.40], [0.10, 0.10, 0.20], [0.20, 0.20, 0.30]]),
        ("n3", [[0.50, 0.50, 0.50], [0.70, 0.70, 0.70], [0.40, 0.40, 0.40], [0.50, 0.50, 0.50]]),
        ("n4", [[0.30, 0.40, 0.60], [0.50, 0.50, 0.50], [0.10, 0.20, 0.30], [1.50, 0.60, 0.40]]),
    ];
    for (name, metrics) in rows {
        world.node(name, &json!({}));
        let window = |index: usize| means(metrics.map(|windows| Some(windows[index])));
        world.measured(name, vec![window(0), window(1), window(2)]);
    }
    world
}

#[test]
fn the_table_of_four_nodes() {
    let mut world = table();
    world.balance.threshold = 0.08;
    world.pod("n1", "web", 0.5);
    let round = world.rounds(3);
    assert!((round.mean - 0.4555).abs() < 1e-12, "{}", round.mean);
    for (name, usage, deviation) in
        [("n1", 0.544, 0.0885), ("n2", 0.292, -0.1635), ("n3", 0.540, 0.0845), ("n4", 0.446, -0.0095)]
    {
        let view = round.nodes.iter().find(|view| view.name.as_ref() == name).unwrap();
        assert!((view.usage - usage).abs() < 1e-12, "{name}: {}", view.usage);
        assert!((view.deviation - deviation).abs() < 1e-12, "{name}: {}", view.deviation);
        assert_eq!(view.is_target, name == "n2", "{name}");
    }
    assert_eq!(round.source.as_ref().unwrap().name.as_ref(), "n1", "not n2, which is farthest from the mean");
    assert_eq!(round.verdict, Verdict::Evict { node: "n1".into() });
    let goes = &round.candidates[0];
    assert_eq!((goes.pod.name.as_ref(), goes.target.as_ref()), ("web", "n2"));
    // 0.4 of the weights are CPU's, and it uses a twentieth of ten cores.
    assert!((goes.part - 0.4 * 0.05).abs() < 1e-12, "{}", goes.part);

    let world = table();
    let round = world.rounds(5);
    assert_eq!(round.verdict, Verdict::Balanced, "with a threshold of 0.1 none is too busy");
}

#[test]
fn the_emptiest_node_is_never_the_source() {
    let mut world = World::of_busy(&[0.70, 0.68, 0.66, 0.10]);
    for node in ["n1", "n2", "n3", "n4"] {
        world.pod(node, &format!("on-{node}"), 0.6);
    }
    assert_eq!(world.goes(), ["on-n1"]);
    assert_eq!(world.rounds(3).candidates[0].target.as_ref(), "n4");
}

#[test]
fn the_part_nearest_to_the_excess() {
    for (rule, pods, expected) in [
        ("the smallest above", &[600, 4000][..], "pod-600"),
        ("from below first", &[400, 4000], "pod-400"),
        ("the largest below", &[100, 300, 499, 501], "pod-499"),
        ("just the excess", &[100, 500, 600], "pod-500"),
    ] {
        // The mean is 0.5, and n1 is 0.09 above it: with a threshold of 0.08 it has an excess of 0.05, 500m of 10 cores.
        let mut world = World::of_busy(&[0.59, 0.50, 0.55, 0.36]);
        world.balance.threshold = 0.08;
        for pod in pods {
            world.pod("n1", &format!("pod-{pod}"), f64::from(*pod) / 1000.0);
        }
        let round = world.rounds(3);
        assert!((round.excess - 0.05).abs() < 1e-12, "{rule}: {}", round.excess);
        assert_eq!(round.candidates[0].pod.name.as_ref(), expected, "{rule}");
    }
}

#[test]
fn one_of_five_nodes_without_metrics() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.node("n5", &json!({}));
    world.pod("n1", "web", 1.0);
    assert_eq!(world.goes(), ["web"], "the others are still balanced");
    world.node("n6", &json!({}));
    let round = world.rounds(3);
    assert_eq!(round.verdict, Verdict::Stale { fresh: 4, of: 6 });
    assert!(round.candidates.is_empty());
}

#[test]
fn a_source_whose_metrics_are_stale() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20, 0.50]);
    world.pod("n1", "web", 1.0);
    let round = world.rounds(2);
    world.settings.load.maximum_age = 59;
    world.now += 60;
    for node in ["n2", "n3", "n4", "n5"] {
        let busy = if node == "n4" { 0.20 } else { 0.50 };
        world.busy(node, busy);
    }
    let round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::Balanced, "nobody is evicted from it");
    assert!(round.nodes.iter().all(|view| view.name.as_ref() != "n1"));
    world.busy("n1", 0.80);
    let round = world.plan(&round.state);
    assert_eq!(
        round.verdict,
        Verdict::Waiting { node: "n1".into(), rounds: 1, of: 3 },
        "and its rounds in a row begin anew"
    );
}

#[test]
fn a_pod_that_tolerates_only_the_source() {
    let mut world = World::new();
    for (name, busy) in [("n1", 0.80), ("n2", 0.50), ("n3", 0.50), ("n4", 0.20)] {
        world.node(
            name,
            &json!({"spec": {"taints": [{"key": "owner", "value": name, "effect": "NoSchedule"}]}}),
        );
        world.busy(name, busy);
    }
    let tolerations = json!([{"key": "owner", "operator": "Equal", "value": "n1", "effect": "NoSchedule"}]);
    world.pod_like("n1", "web", 1.0, &json!({"spec": {"tolerations": tolerations}}));
    let round = world.rounds(3);
    assert_eq!(round.verdict, Verdict::NoCandidate { node: "n1".into() });
    assert_eq!(
        round.spared[0].1.to_string(),
        "it fits on none of the nodes that have room: 1 by the taint owner"
    );
    world.pod_like("n1", "anywhere", 1.0, &json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    assert_eq!(world.goes(), ["anywhere"]);
}

#[test]
fn a_state_survives_being_written() {
    let mut state = State::default();
    let world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    let mut other = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    other.pod("n1", "web", 1.0);
    let round = other.rounds(3);
    state.note(round.candidates[0].past("n1", world.now * SECOND, true));
    let text = serde_json::to_string(state.evictions()).unwrap();
    assert_eq!(text, r#"[{"w":"shop/ReplicaSet/web","n":"n1","t":1764532800,"c":0.1,"m":0.0}]"#);
    let read = State::remembering(serde_json::from_str::<Vec<_>>(&text).unwrap(), world.now * SECOND);
    assert_eq!(read, state);
}
