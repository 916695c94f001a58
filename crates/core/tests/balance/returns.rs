//! What is remembered of evictions, and of pods that came back.

use plimsoll_core::balance::{PastEviction, Pause, Spared, State};
use serde_json::json;

use crate::support::{NOW, SECOND, World, pod};

fn past(workload: &str, node: &str, ago: i64, cpu: f64) -> PastEviction {
    PastEviction {
        workload: workload.to_owned(),
        node: node.to_owned(),
        at: NOW - ago,
        cpu,
        ..PastEviction::default()
    }
}

/// A pod of `web` that was bound so many seconds ago.
fn bound(node: &str, name: &str, ago: i64) -> serde_json::Value {
    let time = jiff::Timestamp::from_second(NOW - ago).unwrap().to_string();
    let mut pod = pod(
        node,
        "web",
        &json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}, {"type": "Ready", "status": "True"}]}}),
    );
    pod["metadata"]["name"] = json!(name);
    pod
}

#[test]
fn a_pod_that_comes_back() {
    let web = "shop/ReplicaSet/web";
    // Seconds ago: evictions from n1; replicas bound on (node, then); how many came back, and the pause that is left.
    for (rule, evictions, bindings, back, left) in [
        ("nobody came back", &[60][..], &[("n1", 3600), ("n4", 50)][..], 0, Some(540)),
        ("to the node that it had left", &[60], &[("n1", 50)], 1, Some(1140)),
        ("at once", &[60], &[("n1", 60)], 1, Some(1140)),
        ("the pause would be over", &[700], &[("n1", 600)], 1, Some(500)),
        ("one pod stands for one eviction", &[900, 60], &[("n1", 50)], 1, Some(1140)),
        ("twice", &[900, 60], &[("n1", 800), ("n1", 50)], 2, Some(2340)),
        ("before the second time", &[900, 60], &[("n1", 800)], 1, Some(1140)),
    ] {
        let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
        world.balance.minimum_age = 0;
        for (index, (node, ago)) in bindings.iter().enumerate() {
            world.put(&bound(node, &format!("web-{index}"), *ago), 1.0);
        }
        world.put(&bound("n1", "web-old", 7200), 1.0);
        let evictions = evictions.iter().map(|ago| past(web, "n1", *ago, 0.1));
        let mut round = world.plan(&State::remembering(evictions, NOW * SECOND));
        assert_eq!(round.came_back.len(), back, "{rule}");
        for _ in 0..2 {
            round = world.plan(&round.state);
            assert!(round.came_back.is_empty(), "{rule}: told once");
        }
        let kept = round.state.evictions();
        let gone = kept.iter().filter(|past| past.cpu > 0.0).count();
        assert_eq!(gone, kept.len() - back, "{rule}: what came back has not gone");
        let why = round.spared.iter().find(|(pod, _)| pod.name.as_ref() == "web-old").map(|(_, why)| why);
        let returns = u32::try_from(back).unwrap();
        assert_eq!(why, left.map(|left| Spared::Cooldown(Pause { left, returns })).as_ref(), "{rule}");
    }
}

#[test]
fn what_was_only_tried_does_not_come_back() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.put(&bound("n1", "web-1", 50), 1.0);
    let state = State::remembering([past("shop/ReplicaSet/web", "n1", 60, 0.0)], NOW * SECOND);
    assert!(world.plan(&state).came_back.is_empty());
}

#[test]
fn a_clock_that_was_set_back_does_not_lengthen_a_pause() {
    let world = World::of_busy(&[0.5, 0.5, 0.5]);
    let mut state = State::default();
    state.note(past("shop/ReplicaSet/web", "n1", -7200, 0.1));
    let round = world.plan(&state);
    assert_eq!(round.state.evictions()[0].at, NOW);
}

#[test]
fn old_evictions_are_summed_by_node() {
    let mut world = World::of_busy(&[0.5, 0.5, 0.5]);
    world.settings.load.windows[0].seconds = 86_400;
    let evictions = vec![
        past("shop/ReplicaSet/gone", "n1", 86_400, 0.5),
        past("shop/ReplicaSet/a", "n1", 20_000, 0.1),
        past("shop/ReplicaSet/b", "n1", 10_000, 0.3),
        past("shop/ReplicaSet/c", "n2", 10_000, 0.2),
        past("shop/ReplicaSet/tried", "n2", 10_000, 0.0),
        PastEviction { back: true, ..past("shop/ReplicaSet/back", "n2", 9_000, 0.0) },
        past("shop/ReplicaSet/d", "n1", 3_599, 0.1),
    ];
    let round = world.plan(&State::remembering(evictions, NOW * SECOND));
    let told: Vec<_> = round
        .state
        .evictions()
        .iter()
        .map(|past| (past.workload.as_str(), past.node.as_str(), NOW - past.at, (past.cpu * 1000.0).round()))
        .collect();
    assert_eq!(
        told,
        [
            ("", "n1", 12_500, 400.0),
            ("", "n2", 10_000, 200.0),
            ("shop/ReplicaSet/back", "n2", 9_000, 0.0),
            ("shop/ReplicaSet/d", "n1", 3_599, 100.0)
        ]
    );
    assert_eq!(world.plan(&round.state).state.evictions(), round.state.evictions());
    // As long as the pause of a workload, it stays what it is.
    world.balance.cooldown = 15_000;
    let state =
        State::remembering([past("x", "n1", 14_999, 0.1), past("y", "n1", 15_000, 0.1)], NOW * SECOND);
    let workloads = world.plan(&state);
    let workloads: Vec<_> = workloads.state.evictions().iter().map(|past| past.workload.as_str()).collect();
    assert_eq!(workloads, ["", "x"]);
}
