use serde_json::{Value, json};

use crate::world::{FOUR, World, bound, four, near, plain_pod, with_resources};

#[test]
fn the_vector() {
    let decision = World::of(&four()).score(&FOUR);
    for (index, (usage, score)) in
        [(0.5440, 45.60), (0.2920, 70.80), (0.5400, 46.00), (0.4460, 55.40)].into_iter().enumerate()
    {
        near(decision.nodes[index].usage.unwrap(), usage, FOUR[index]);
        near(decision.nodes[index].score, score, FOUR[index]);
    }
    let points: Vec<_> = decision.nodes.iter().map(|node| node.points).collect();
    assert_eq!(points, [0, 10, 0, 4], "spread over 25.2: 5 + 10 (S - 58.2) / 25.2");
}

/// Four nodes alike but for what is changed.
fn nodes(count: usize, change: impl Fn(usize, &mut Value)) -> World {
    let mut nodes = serde_json::Map::new();
    for index in 0..count {
        let mut node = json!({"cpu": 0.5, "memory": 0.5, "disk": 0.5, "load": 0.5});
        change(index, &mut node);
        nodes.insert(format!("n{}", index + 1), node);
    }
    World::of(&json!({"nodes": nodes}))
}

#[test]
fn what_is_missing() {
    let of = |count: usize, world: &World| {
        let names: Vec<String> = (1..=count).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.scores(&names)
    };
    let rows: [(&str, usize, fn(usize, &mut Value), Vec<(usize, f64)>); 8] = [
        ("all the same", 4, |_, _| (), vec![(0, 50.0), (3, 50.0)]),
        (
            "one of ten without disk: the median of the others' disk",
            10,
            |index, node| {
                if index == 0 {
                    node["disk"] = Value::Null;
                    node["cpu"] = json!(0.9);
                }
            },
            vec![(0, 34.0), (1, 50.0)],
        ),
        (
            "two of ten without disk: dropped for all",
            10,
            |index, node| {
                node["disk"] = if index < 2 { Value::Null } else { json!(1.0) };
            },
            vec![(0, 50.0), (9, 50.0)],
        ),
        (
            "one of eleven without disk, in which the others differ",
            11,
            |index, node| {
                node["disk"] = match index {
                    0 => Value::Null,
                    1..=5 => json!(0.2),
                    _ => json!(0.4),
                };
            },
            // The median of five times .2 and five times .4 is .3.
            vec![(0, 54.0), (1, 56.0), (10, 52.0)],
        ),
        (
            "a node without anything has the median score",
            4,
            |index, node| match index {
                0 => *node = json!({}),
                1 => node["cpu"] = json!(0.1),
                2 => node["cpu"] = json!(0.9),
                _ => (),
            },
            vec![(0, 50.0), (1, 66.0), (2, 34.0)],
        ),
        (
            "of an even number the mean of the middle two",
            5,
            |index, node| match index {
                0 => *node = json!({}),
                1 => node["cpu"] = json!(0.1),
                2 => node["cpu"] = json!(0.2),
                3 => node["cpu"] = json!(0.4),
                _ => node["cpu"] = json!(0.9),
            },
            vec![(0, 58.0)],
        ),
        ("nothing of anybody", 3, |_, node| *node = json!({}), vec![(0, 50.0), (1, 50.0), (2, 50.0)]),
        (
            "a gap is bridged by the other windows",
            2,
            |index, node| {
                if index == 0 {
                    node["cpu"] = json!({"15m": 0.2, "1d": 0.9});
                }
            },
            // (.2 x .2 + .5 x .9) / .7 = .7
            vec![(0, 42.0), (1, 50.0)],
        ),
    ];
    for (rule, count, change, expected) in rows {
        let scores = of(count, &nodes(count, change));
        for (index, score) in expected {
            near(scores[index], score, &format!("{rule}: node {index}"));
        }
    }
}

#[test]
fn each_mean_is_clamped_before_it_is_weighted() {
    let world = nodes(1, |_, node| node["load"] = json!({"15m": 3.0, "1h": 0.0, "1d": 0.0}));
    // .9 of the weight at .5, load at .2.
    near(world.scores(&["n1"])[0], 53.0, "load 3 counts as 1");
}

#[test]
fn the_pods_own_estimate_counts_by_metric() {
    let mut world = nodes(2, |index, node| {
        node["total"] = json!({"cpu": if index == 0 { "2" } else { "8" }, "memory": "16Gi"});
    });
    let pod = with_resources(plain_pod(), &json!({"cpu": "1", "memory": "1Gi"}), &json!({"memory": "4Gi"}));
    let scores: Vec<_> = world.score_of(&pod, &["n1", "n2"]).nodes.iter().map(|node| node.score).collect();
    // cpu + 1/2 and memory + 4/16: .4 x 1 + .3 x .75 + .3 x .5 = .775
    near(scores[0], 22.5, "request of cpu, limit of memory");
    near(scores[1], 100.0 - 62.5, "a larger node");
    world.place(&with_resources(bound("a", "web", "n2", 0), &json!({"cpu": "4"}), &json!({})));
    near(world.score(&["n1", "n2"]).nodes[1].score, 30.0, "what was bound just now counts whole");
}

#[test]
fn what_was_bound_before_the_last_sample_fades_with_the_shortest_window() {
    for (rule, ago, missing) in [
        ("now", 0, 1.0),
        ("a tenth of the shortest window", 90, 0.9),
        ("half of it", 450, 0.5),
        ("all of it", 900, 0.0),
        ("long ago: it is measured, if by the shorter windows only", 3600, 0.0),
    ] {
        let mut world = nodes(1, |_, node| node["total"] = json!({"cpu": "10", "memory": "1Gi"}));
        world.place(&with_resources(bound("a", "web", "n1", ago), &json!({"cpu": "1"}), &json!({})));
        near(
            world.score(&["n1"]).nodes[0].by_metric.iter().next().unwrap().1.unwrap(),
            0.5 + 0.1 * missing,
            rule,
        );
    }
}
