//! When anything is done at all.

use plimsoll_core::balance::{PastEviction, State, Verdict};
use plimsoll_core::placement::{HotSpotForm, Metric, Placed};
use serde_json::json;

use crate::support::{NOW, SECOND, World, means, pod};

fn world() -> World {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod("n1", "web", 1.0);
    world
}

#[test]
fn too_few_nodes() {
    for (rule, busy, expected) in [
        ("two", &[0.9, 0.1][..], Verdict::FewNodes { fresh: 2, of: 2 }),
        ("none", &[], Verdict::FewNodes { fresh: 0, of: 0 }),
        ("three are enough", &[0.5, 0.5, 0.5], Verdict::Balanced),
    ] {
        assert_eq!(World::of_busy(busy).rounds(3).verdict, expected, "{rule}");
    }
    // Nodes that are cordoned or not ready count nowhere.
    for (rule, more) in [
        ("cordoned", json!({"spec": {"unschedulable": true}})),
        ("not ready", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})),
    ] {
        let mut world = World::of_busy(&[0.5, 0.5]);
        world.node("n3", &more);
        world.busy("n3", 0.9);
        assert_eq!(world.rounds(3).verdict, Verdict::FewNodes { fresh: 2, of: 2 }, "{rule}");
    }
}

#[test]
fn rounds_in_a_row() {
    let mut world = world();
    let first = world.plan(&State::default());
    assert_eq!(first.verdict, Verdict::Waiting { node: "n1".into(), rounds: 1, of: 3 });
    let second = world.plan(&first.state);
    assert_eq!(second.verdict, Verdict::Waiting { node: "n1".into(), rounds: 2, of: 3 });
    assert_eq!(world.plan(&second.state).verdict.name(), "evict");

    world.busy("n1", 0.50);
    let calm = world.plan(&second.state);
    assert_eq!(calm.verdict, Verdict::Balanced);
    world.busy("n1", 0.80);
    assert_eq!(world.plan(&calm.state).verdict.name(), "waiting", "they begin anew");

    world.balance.rounds = 1;
    assert_eq!(world.plan(&State::default()).verdict.name(), "evict");
}

#[test]
fn the_same_samples_do_not_count_twice() {
    let mut world = world();
    let first = world.plan(&State::default());
    world.news = false;
    let mut round = first;
    for _ in 0..3 {
        round = world.plan(&round.state);
        assert_eq!(round.verdict, Verdict::NoNews { node: "n1".into() }, "nor do they begin anew");
    }
    world.news = true;
    round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::Waiting { node: "n1".into(), rounds: 2, of: 3 });
    round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::Evict { node: "n1".into() });
    world.news = false;
    round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::NoNews { node: "n1".into() }, "and nobody goes by what is old");
    assert!(round.candidates.is_empty());
    // Not even what was evicted since ends it, before the node was measured again.
    round.state.note(PastEviction {
        workload: "shop/ReplicaSet/web".to_owned(),
        node: "n1".to_owned(),
        at: NOW,
        cpu: 0.3,
        ..PastEviction::default()
    });
    round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::NoNews { node: "n1".into() });
    world.news = true;
    assert_eq!(world.plan(&round.state).verdict, Verdict::Balanced);
}

#[test]
fn relief_goes_on_until_half_the_threshold() {
    let mut world = world();
    world.pods.clear();
    world.pod("n1", "web", 0.1);
    let mut round = world.rounds(3);
    for (deviation, verdict) in
        [(0.07, "evict"), (0.051, "evict"), (0.049, "balanced"), (0.07, "balanced"), (0.11, "waiting")]
    {
        world.busy("n1", 0.5 + deviation);
        world.busy("n4", 0.5 - deviation.max(0.06));
        world.busy("n3", 0.5 + (0.06 - deviation).max(0.0));
        round = world.plan(&round.state);
        assert_eq!(round.verdict.name(), verdict, "{deviation}");
    }
}

#[test]
fn the_busiest_of_those_that_are_busy_for_long_enough() {
    let mut world = World::of_busy(&[0.70, 0.50, 0.40, 0.40, 0.10]);
    world.pod("n1", "one", 0.5);
    world.pod("n2", "two", 0.5);
    let round = world.rounds(2);
    world.busy("n2", 0.90);
    world.busy("n4", 0.10);
    let round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::Evict { node: "n1".into() }, "n2 is busier, but since now only");
    let round = world.plan(&round.state);
    let round = world.plan(&round.state);
    assert_eq!(round.verdict, Verdict::Evict { node: "n2".into() });
}

#[test]
fn a_node_whose_pods_are_all_bound_to_it_does_not_keep_others_from_being_relieved() {
    let mut world = World::of_busy(&[0.90, 0.80, 0.75, 0.40, 0.10, 0.10]);
    world.pod_like("n1", "pinned", 0.5, &json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}));
    let round = world.rounds(3);
    assert_eq!(round.verdict, Verdict::NoCandidate { node: "n1".into() });
    assert_eq!(round.source.as_ref().unwrap().name.as_ref(), "n1");
    assert_eq!(round.spared[0].1.name(), "bound_to_node");
    let others: Vec<_> = round.stuck.iter().map(|stuck| stuck.node.name.as_ref()).collect();
    assert_eq!(others, ["n2", "n3"], "which have no pods at all");

    world.pod("n2", "web", 0.5);
    world.pod("n3", "api", 0.5);
    let round = world.rounds(3);
    assert_eq!(round.verdict, Verdict::Evict { node: "n2".into() });
    assert_eq!(round.candidates.iter().map(|goes| &*goes.pod.name).collect::<Vec<_>>(), ["web"]);
    assert!((round.excess - (0.80 - round.mean - 0.05)).abs() < 1e-12, "that of n2");
    assert_eq!(round.stuck[0].node.name.as_ref(), "n1");
    assert_eq!(round.stuck[0].spared[0].1.name(), "bound_to_node");
}

#[test]
fn nodes_with_room() {
    let mut world = world();
    for node in ["n2", "n3", "n4"] {
        world.busy(node, 0.62);
    }
    assert_eq!(
        world.rounds(3).verdict,
        Verdict::NoTarget { node: "n1".into() },
        "none is below the mean by half the threshold"
    );

    // More bindings in the last minute than are free cost points, so that nobody is moved there.
    let bound = |name: &str| {
        let time = jiff::Timestamp::from_second(NOW - 30).unwrap().to_string();
        pod(
            "n4",
            name,
            &json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]}}),
        )
    };
    for (rule, form, count, expected) in [
        ("as many as are free", HotSpotForm::Step, 5, "evict"),
        ("one more", HotSpotForm::Step, 6, "no_target"),
        ("the linear form costs at once", HotSpotForm::Linear, 5, "no_target"),
        ("and below nothing", HotSpotForm::Linear, 4, "evict"),
    ] {
        let mut world = self::world();
        world.settings.hot_spot.form = form;
        for index in 0..count {
            world.put(&bound(&format!("new-{index}")), 0.0);
        }
        assert_eq!(world.rounds(3).verdict.name(), expected, "{rule}");
    }
}

#[test]
fn a_cap_for_the_cluster() {
    let mut world = world();
    world.balance.evictions_per_hour = 2;
    let past = |ago: i64| PastEviction {
        workload: "x".to_owned(),
        node: "n9".to_owned(),
        at: NOW - ago,
        ..PastEviction::default()
    };
    for (rule, evictions, expected) in [
        ("reached", vec![past(3599), past(1)], Verdict::Capped { evictions: 2 }),
        ("one is an hour ago", vec![past(3600), past(1)], Verdict::Evict { node: "n1".into() }),
    ] {
        let mut round = world.plan(&State::remembering(evictions, NOW * SECOND));
        for _ in 0..2 {
            round = world.plan(&round.state);
        }
        assert_eq!(round.verdict, expected, "{rule}");
        assert_eq!(round.candidates.is_empty(), expected.name() == "capped", "{rule}");
    }
}

#[test]
fn a_node_that_is_lost() {
    let mut world = world();
    let round = world.rounds(3);
    world.node_lost = NOW;
    for (after, verdict) in [(0, "node_lost"), (599, "node_lost"), (600, "evict")] {
        world.now = NOW + after;
        for (node, busy) in [("n1", 0.80), ("n2", 0.50), ("n3", 0.50), ("n4", 0.20)] {
            world.busy(node, busy);
        }
        let round = world.plan(&round.state);
        assert_eq!(round.verdict.name(), verdict, "{after}");
        assert_eq!(round.candidates.is_empty(), verdict == "node_lost", "{after}");
    }
    // From the failed node itself the node controller evicts, as long as it is down.
    let mut world = self::world();
    world.node("n5", &json!({}));
    world.busy("n5", 0.5);
    let round = world.rounds(3);
    assert_eq!(round.verdict, Verdict::Evict { node: "n1".into() });
    world.node("n1", &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    let round = world.plan(&round.state);
    assert!(round.candidates.is_empty() && round.nodes.iter().all(|view| view.name.as_ref() != "n1"));
}

#[test]
fn pods_must_be_known() {
    let world = world();
    let unknown = Placed::default();
    let mut round = world.plan_with(&State::default(), &unknown);
    for _ in 0..3 {
        assert_eq!(round.verdict, Verdict::PodsUnknown);
        round = world.plan_with(&round.state, &unknown);
    }
}

#[test]
fn who_goes_first() {
    let like = |priority: i32, resources: serde_json::Value| json!({"spec": {"priority": priority, "containers": [{"name": "app", "resources": resources}]}});
    let both = json!({"cpu": "100m", "memory": "1Mi"});
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    for (name, cores, more) in [
        ("guaranteed", 2.5, like(0, json!({"requests": both, "limits": both}))),
        ("burstable", 2.0, like(0, json!({"requests": both}))),
        ("best-effort", 0.5, like(0, json!({}))),
        ("low", 0.1, like(-10, json!({"requests": both, "limits": both}))),
        ("high", 2.5, like(1000, json!({}))),
        ("best-effort-2", 0.6, like(0, json!({}))),
        ("best-effort-1", 0.6, like(0, json!({}))),
    ] {
        world.pod_like("n1", name, cores, &more);
    }
    assert_eq!(
        world.goes(),
        ["low", "best-effort-1", "best-effort-2", "best-effort", "burstable", "guaranteed", "high"]
    );
}

#[test]
fn the_target_must_not_become_the_busiest() {
    for (rule, busy, cores, expected) in [
        ("it would be as busy as the source was", [0.80, 0.50, 0.50, 0.20], 6.0, false),
        ("busier than all others then", [0.80, 0.50, 0.50, 0.20], 4.0, false),
        ("not", [0.80, 0.50, 0.50, 0.20], 2.9, true),
        ("not the busiest, but too busy itself", [0.90, 0.85, 0.10, 0.10], 6.0, false),
        ("the second busiest, and not too busy", [0.90, 0.85, 0.10, 0.10], 4.0, true),
    ] {
        let mut world = World::of_busy(&busy);
        world.pod("n1", "web", cores);
        assert_eq!(world.goes().len(), usize::from(expected), "{rule}");
        if !expected {
            let (_, why) = &world.rounds(3).spared[0];
            assert!(why.to_string().contains("that it would make too busy"), "{rule}: {why}");
        }
    }
}

#[test]
fn the_share_of_a_smaller_node_is_larger() {
    let mut world = world();
    world.node("n4", &json!({"status": {"capacity": {"cpu": "2"}}}));
    // A core is half of it.
    assert_eq!(world.goes(), Vec::<String>::new());
    world.node("n4", &json!({"status": {"capacity": {"cpu": "20"}}}));
    assert_eq!(world.goes(), ["web"]);
}

#[test]
fn what_was_evicted_goes_on_showing() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod("n1", "web", 2.5);
    world.pod("n1", "api", 2.5);
    let mut round = world.rounds(3);
    let past = round.candidates[0].past("n1", world.now * SECOND, true);
    round.state.note(past);
    for (after, left) in [(60, 14.0 / 15.0), (450, 0.5), (899, 1.0 / 900.0)] {
        world.now = NOW + after;
        // Measured as before: the window still holds what has gone.
        for (node, busy) in [("n1", 0.80), ("n2", 0.50), ("n3", 0.50), ("n4", 0.20)] {
            world.busy(node, busy);
        }
        let next = world.plan(&round.state);
        let view = next.nodes.iter().find(|view| view.name.as_ref() == "n1").unwrap();
        assert!((view.usage - (0.80 - 0.25 * left)).abs() < 1e-9, "{after}: {}", view.usage);
    }
    // One that was only tried takes nothing away.
    let mut round = world.rounds(3);
    round.state.note(round.candidates[0].past("n1", world.now * SECOND, false));
    let next = world.plan(&round.state);
    assert!((next.nodes[0].usage - 0.80).abs() < 1e-9);
}

#[test]
fn a_metric_that_few_nodes_lack_is_their_median() {
    let mut world = World::new();
    world.settings.load.metrics = vec![(Metric::Cpu, 0.5), (Metric::Disk, 0.5)];
    let usage = |world: &World, name: &str| {
        let round = world.plan(&State::default());
        round.nodes.iter().find(|view| view.name.as_ref() == name).unwrap().usage
    };
    for index in 0..10 {
        let name = format!("n{index}");
        world.node(&name, &json!({}));
        let disk = if index == 0 { None } else { Some(f64::from(index) / 10.0) };
        world.measured(&name, vec![means([Some(0.4), None, disk, None])]);
    }
    assert!((usage(&world, "n0") - 0.45).abs() < 1e-12, "the median of .1 to .9 is .5");
    world.measured("n1", vec![means([Some(0.4), None, None, None])]);
    assert!((usage(&world, "n0") - 0.4).abs() < 1e-12, "two of ten are too many: dropped for all");
    assert!((usage(&world, "n9") - 0.4).abs() < 1e-12);
}

#[test]
fn every_verdict_has_a_name_and_words() {
    let verdicts = [
        Verdict::PodsUnknown,
        Verdict::FewNodes { fresh: 2, of: 2 },
        Verdict::Stale { fresh: 3, of: 4 },
        Verdict::NodeLost { ago: 1 },
        Verdict::Balanced,
        Verdict::Waiting { node: "n".into(), rounds: 1, of: 3 },
        Verdict::NoNews { node: "n".into() },
        Verdict::NoTarget { node: "n".into() },
        Verdict::Capped { evictions: 1 },
        Verdict::NoCandidate { node: "n".into() },
        Verdict::Evict { node: "n".into() },
    ];
    assert_eq!(verdicts.each_ref().map(Verdict::name), Verdict::NAMES);
    let words: std::collections::BTreeSet<String> = verdicts.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), verdicts.len());
}
