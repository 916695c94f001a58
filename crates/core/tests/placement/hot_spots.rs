use plimsoll_core::placement::{Flood, FloodCause, FloodForm, HotSpot, HotSpotForm};
use serde_json::{Value, json};

use crate::world::{FOUR, NOW, SECOND, World, bound, four, near};

fn with_bindings(world: &mut World, node: &str, ages: &[i64]) {
    for (index, ago) in ages.iter().enumerate() {
        world.place(&bound(&format!("{node}-{ago}-{index}"), &format!("owner-{node}-{index}"), node, *ago));
    }
}

#[test]
fn the_vector() {
    let mut world = World::of(&four());
    with_bindings(&mut world, "n2", &[10; 5]);
    near(world.scores(&FOUR)[1], 70.8, "5 bindings");
    with_bindings(&mut world, "n2", &[11]);
    let scores = world.scores(&FOUR);
    near(scores[1], 50.8, "6 bindings");
    assert!(scores[3] > scores[1] && scores[3] > scores[0] && scores[3] > scores[2], "n4 wins");
    world.file.bindings = Some([("n2".to_owned(), 5)].into());
    near(world.scores(&FOUR)[1], 70.8, "given by hand");
}

#[test]
fn the_window_is_open_at_its_far_end() {
    for (rule, ages, bindings) in [
        ("just now", &[0][..], 1),
        ("a second ahead, by a clock that goes before", &[-1], 1),
        ("59 s ago", &[59], 1),
        ("60 s ago", &[60], 0),
        ("some of each", &[5, 30, 59, 60, 61, 3600], 3),
    ] {
        let mut world = World::of(&four());
        with_bindings(&mut world, "n2", ages);
        assert_eq!(world.score(&FOUR).nodes[1].bindings, bindings, "{rule}");
    }
}

#[test]
fn forms() {
    let step = HotSpot { window: 60, bindings: 5, form: HotSpotForm::Step, penalty: 20.0 };
    let linear = HotSpot { form: HotSpotForm::Linear, ..step };
    for (rule, form, bindings, cost) in [
        ("step: none", step, 0, 0.0),
        ("step: M", step, 5, 0.0),
        ("step: M + 1", step, 6, 20.0),
        ("step: many", step, 600, 20.0),
        ("linear: below M", linear, 4, 0.0),
        ("linear: M", linear, 5, 10.0),
        ("linear: 2 M - 1", linear, 9, 10.0),
        ("linear: 2 M", linear, 10, 20.0),
        ("linear: many", linear, 600, 1200.0),
    ] {
        near(form.cost(bindings), cost, rule);
    }
    let mut world = World::of(&four());
    world.settings.hot_spot = linear;
    world.file.bindings = Some([("n2".to_owned(), 600)].into());
    near(world.scores(&FOUR)[1], 0.0, "the floor is 0");
}

#[test]
fn what_goes_to_each_node_by_itself_is_no_binding() {
    let kind = |kind: &str| {
        let mut pod = bound("a", "agent", "n2", 1);
        pod["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
        pod
    };
    let with = |path: &str, key: &str, value: Value| {
        let mut pod = bound("a", "agent", "n2", 1);
        pod.pointer_mut(path).unwrap()[key] = value;
        pod
    };
    for (rule, pod, bindings) in [
        ("a pod", kind("StatefulSet"), 1),
        ("of a daemon set", kind("DaemonSet"), 0),
        ("of a node", kind("Node"), 0),
        ("a mirror", with("/metadata", "annotations", json!({"kubernetes.io/config.mirror": "x"})), 0),
        ("finished, but bound all the same", with("/status", "phase", json!("Succeeded")), 1),
        (
            "terminating still has its place",
            with("/metadata", "deletionTimestamp", json!("2026-03-01T09:00:00Z")),
            1,
        ),
        ("no time of binding", with("/status", "conditions", json!([])), 0),
        ("not bound", with("/spec", "nodeName", json!("")), 0),
    ] {
        let mut world = World::of(&four());
        world.place(&pod);
        assert_eq!(world.score(&FOUR).nodes[1].bindings, bindings, "{rule}");
    }
}

#[test]
fn a_node_without_load_pays_for_bindings_too() {
    let mut file = four();
    file["nodes"]["n5"] = json!({});
    file["bindings"] = json!({"n5": 6});
    let scores = World::of(&file).scores(&["n1", "n2", "n3", "n4", "n5"]);
    near(scores[4], f64::midpoint(46.0, 55.4) - 20.0, "the median, less 20");
}

#[test]
fn floods() {
    let flood = |form| Flood { pending: 2, window: 600, node_lost: 300, form };
    let waiting = |count: usize, gated: bool, ago: i64| {
        move |world: &mut World| {
            for index in 0..count {
                let mut pod = bound(&format!("p{index}"), "web", "", 1);
                let created = jiff::Timestamp::from_nanosecond(i128::from(NOW - ago * SECOND)).unwrap();
                pod["metadata"]["creationTimestamp"] = json!(created.to_string());
                if gated {
                    pod["spec"]["schedulingGates"] = json!([{"name": "x"}]);
                }
                world.place(&pod);
            }
        }
    };
    let lost = |ago: i64| move |world: &mut World| world.node_lost = NOW - ago * SECOND;
    let rows: [(&str, Box<dyn Fn(&mut World)>, Option<FloodCause>); 8] = [
        ("as many as may be", Box::new(waiting(2, false, 5)), None),
        ("one more", Box::new(waiting(3, false, 599)), Some(FloodCause::Pending(2))),
        ("they wait for gates", Box::new(waiting(9, true, 5)), None),
        ("nothing has had room for them for long", Box::new(waiting(9, false, 600)), None),
        ("the clock was set back", Box::new(lost(-5)), None),
        ("a node was lost", Box::new(lost(299)), Some(FloodCause::NodeLost)),
        ("long ago", Box::new(lost(300)), None),
        ("nothing", Box::new(|_| ()), None),
    ];
    for (rule, change, cause) in rows {
        for form in [FloodForm::Buffer, FloodForm::Fuse] {
            let mut world = World::of(&four());
            world.settings.flood = flood(form);
            with_bindings(&mut world, "n2", &[100, 200, 300, 400, 500, 550]);
            with_bindings(&mut world, "n4", &[100, 200, 300]);
            change(&mut world);
            let decision = world.score(&FOUR);
            assert_eq!(decision.flood, cause, "{rule}");
            let scores: Vec<_> = decision.nodes.iter().map(|node| node.score).collect();
            match (cause, form) {
                (None, _) => near(scores[1], 70.8, rule),
                (Some(_), FloodForm::Buffer) => near(scores[1], 50.8, rule),
                (Some(_), FloodForm::Fuse) => {
                    for (found, expected) in scores.into_iter().zip([100.0, 0.0, 100.0, 50.0]) {
                        near(found, expected, rule);
                    }
                }
            }
            let why = decision.nodes[1].why(&decision, &world.settings);
            assert_eq!(why.contains("flood"), cause.is_some(), "{rule}: {why}");
        }
    }
}
