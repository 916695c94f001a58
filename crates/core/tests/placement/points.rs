use plimsoll_core::placement::PointsForm;
use serde_json::json;

use crate::world::{World, bound};

/// A world whose nodes have these scores.
fn scored(scores: &[f64]) -> (World, Vec<String>) {
    let mut nodes = serde_json::Map::new();
    let names: Vec<String> = (0..scores.len()).map(|index| format!("n{index}")).collect();
    for (name, score) in names.iter().zip(scores) {
        nodes.insert(name.clone(), json!({"cpu": 1.0 - score / 100.0}));
    }
    (World::of(&json!({"nodes": nodes})), names)
}

fn points(world: &World, names: &[String]) -> Vec<u8> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.score(&names).nodes.iter().map(|node| node.points).collect()
}

#[test]
fn from_scores() {
    use PointsForm::{Absolute, Spread};
    for (rule, form, scores, expected) in [
        ("all equal", Spread, &[70.0, 70.0, 70.0][..], &[5, 5, 5][..]),
        ("one node", Spread, &[3.0], &[5]),
        ("none", Spread, &[], &[]),
        ("the whole range", Spread, &[0.0, 50.0, 100.0], &[0, 5, 10]),
        ("a range of 20", Spread, &[40.0, 60.0], &[0, 10]),
        ("small differences stay small", Spread, &[50.0, 54.0], &[4, 6]),
        ("smaller than a point", Spread, &[50.0, 50.9], &[5, 5]),
        ("half a point is rounded up", Spread, &[50.0, 52.0], &[5, 6]),
        ("absolute", Absolute, &[0.0, 4.9, 5.0, 45.6, 70.8, 100.0], &[0, 0, 1, 5, 7, 10]),
    ] {
        let (mut world, names) = scored(scores);
        world.settings.points = form;
        assert_eq!(points(&world, &names), expected, "{rule}");
    }
}

#[test]
fn replicas_of_the_same_workload_cost() {
    let (mut world, names) = scored(&[60.0, 60.0, 60.0]);
    for (rule, pod, expected) in [
        ("none yet", None, [5, 5, 5]),
        ("one on the first", Some(("a", "Pod", "n0")), [3, 5, 5]),
        ("one on each: the least of them costs nothing", Some(("b", "Pod", "n1")), [3, 3, 5]),
        ("all have one", Some(("c", "Pod", "n2")), [5, 5, 5]),
        ("of another workload", Some(("other", "StatefulSet", "n2")), [5, 5, 5]),
        ("two more on the first", Some(("d", "Pod", "n0")), [3, 5, 5]),
        ("and three more", Some(("e", "Pod", "n0")), [1, 5, 5]),
        ("never below 0", Some(("f", "Pod", "n0")), [0, 5, 5]),
    ] {
        if let Some((name, kind, node)) = pod {
            let mut placed = bound(name, "new", node, 3600);
            if kind == "StatefulSet" {
                placed = bound(name, "another", node, 3600);
            }
            world.place(&placed);
        }
        let mut new = bound("new-9", "new", "", 0);
        new["spec"]["nodeName"] = json!("");
        let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        let found: Vec<_> = world.score_of(&new, &nodes).nodes.iter().map(|node| node.points).collect();
        assert_eq!(found, expected, "{rule}");
    }
}
