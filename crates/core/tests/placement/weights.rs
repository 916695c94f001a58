use plimsoll_core::placement::{ByResource, NodeResource, Weights, WeightsFrom, normalised, workload_key};
use serde_json::{Value, json};

use crate::world::{World, near};

fn pod(name: &str, image: &str) -> Value {
    json!({"metadata": {"name": format!("{name}-0"), "namespace": "ns", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "1", "controller": true}]},
        "spec": {"containers": [{"name": "c1", "image": image}]}})
}

fn paper() -> Value {
    json!({
        "nodes": {
            "Node1": {
                "total": {"cpu": "8", "memory": "32Gi", "bandwidth": "1000M", "disk": "500Gi"},
                "idle": {"cpu": 0.55, "memory": 0.50, "bandwidth": 0.32, "disk": 0.60},
            },
            "Node2": {
                "total": {"cpu": "24", "memory": "32Gi", "bandwidth": "3000M", "disk": "1500Gi"},
                "idle": {"cpu": 0.50, "memory": 0.45, "bandwidth": 0.49, "disk": 0.40},
            },
        },
        "usage": {"ns/StatefulSet/web": [
            {"node": "Node1", "container": "c1", "image": "web:1",
             "local": {"cpu": 0.18, "memory": 0.008, "bandwidth": 0.04, "disk": 0.010}},
            {"node": "Node2", "container": "c2", "image": "web:1",
             "local": {"cpu": 0.02, "memory": 0.004, "bandwidth": 0.16, "disk": 0.002}},
        ]},
    })
}

const BOTH: [&str; 2] = ["Node1", "Node2"];

fn four(weights: &Weights) -> [f64; 4] {
    NodeResource::ALL.map(|resource| weights.get(resource))
}

#[test]
fn the_paper() {
    let world = World::of(&paper()).policies(0.0, 1.0, 0.0);
    let decision = world.score_of(&pod("web", "web:1"), &BOTH);
    let (weights, from) = decision.weights.unwrap();
    for (found, expected) in four(&weights).into_iter().zip([0.30, 0.03, 0.65, 0.02]) {
        near(found, expected, "weights");
    }
    assert_eq!(from, WeightsFrom::Workload);
    let priorities: Vec<_> = decision.nodes.iter().map(|node| node.weighted.unwrap()).collect();
    near(priorities[0], 0.400, "Node1");
    near(priorities[1], 0.490, "Node2");
    near(decision.nodes[1].score, 49.0, "of 100");
    let decision = world.score_of(&pod("unknown", "other"), &BOTH);
    assert_eq!(decision.weights.unwrap().1, WeightsFrom::Default);
    assert!(decision.nodes[0].score > decision.nodes[1].score, "equal weights would choose Node1");
}

#[test]
fn normalising() {
    let mut values = ByResource::default();
    for (resource, value) in NodeResource::ALL.into_iter().zip([0.01, 0.02, 0.03, 0.0001]) {
        values.set(resource, value);
    }
    for (found, expected) in
        four(&normalised(values).unwrap()).into_iter().zip([0.16639, 0.33278, 0.49917, 0.00166])
    {
        assert!((found - expected).abs() < 5e-6, "{found} {expected}");
    }
    assert_eq!(normalised(ByResource::all(0.0)), None, "idle");
    assert_eq!(normalised(ByResource::all(f64::NAN)), None);
}

/// The paper with another list of what containers use.
fn using(usage: &Value) -> World {
    let mut file = paper();
    file["usage"] = usage.clone();
    World::of(&file).policies(0.0, 1.0, 0.0)
}

#[test]
fn what_is_learnt() {
    let container =
        |node: &str, image: &str, local: Value| json!({"node": node, "image": image, "local": local});
    let cpu_only = |image: &str| json!([container("Node1", image, json!({"cpu": 0.5}))]);
    let rows: [(&str, Value, (&str, &str), [f64; 4], WeightsFrom); 8] = [
        (
            "only one resource is reported",
            json!({"ns/StatefulSet/web": cpu_only("i")}),
            ("web", "i"),
            [1.0, 0.0, 0.0, 0.0],
            WeightsFrom::Workload,
        ),
        (
            "an idle workload falls through to its image",
            json!({
                "ns/StatefulSet/web": [container("Node1", "i", json!({"cpu": 0.0, "memory": 0.0}))],
                "ns/StatefulSet/other": cpu_only("i"),
            }),
            ("web", "i"),
            [1.0, 0.0, 0.0, 0.0],
            WeightsFrom::Image,
        ),
        (
            "an idle workload without an image that is known",
            json!({"ns/StatefulSet/web": [container("Node1", "i", json!({"cpu": 0.0}))]}),
            ("web", "i"),
            [0.25; 4],
            WeightsFrom::Default,
        ),
        (
            "an image has the plain mean of its workloads, however large they are",
            json!({
                "ns/StatefulSet/a": cpu_only("i"),
                "ns/StatefulSet/b": [container("Node1", "i", json!({"memory": 0.001})), container("Node2", "i", json!({"memory": 0.001}))],
            }),
            ("new", "i"),
            [0.5, 0.5, 0.0, 0.0],
            WeightsFrom::Image,
        ),
        (
            "another image of the same workload has its weights too",
            json!({"ns/StatefulSet/a": [container("Node1", "i", json!({"cpu": 0.1})), container("Node1", "j", json!({"memory": 0.1}))]}),
            ("new", "j"),
            [0.025 / 0.075, 0.05 / 0.075, 0.0, 0.0],
            WeightsFrom::Image,
        ),
        (
            "a share above 1 counts as 1",
            json!({"ns/StatefulSet/web": [container("Node1", "i", json!({"cpu": 7.0, "memory": 0.5}))]}),
            ("web", "i"),
            [0.5, 0.5, 0.0, 0.0],
            WeightsFrom::Workload,
        ),
        (
            "a node that nobody knows",
            json!({"ns/StatefulSet/web": [container("Node9", "i", json!({"cpu": 0.5}))]}),
            ("web", "i"),
            [0.25; 4],
            WeightsFrom::Default,
        ),
        (
            "workloads of another namespace are others",
            json!({"zz/StatefulSet/web": cpu_only("other")}),
            ("web", "i"),
            [0.25; 4],
            WeightsFrom::Default,
        ),
    ];
    for (rule, usage, (name, image), expected, from) in rows {
        let decision = using(&usage).score_of(&pod(name, image), &BOTH);
        let (weights, found) = decision.weights.unwrap();
        assert_eq!(found, from, "{rule}");
        for (found, expected) in four(&weights).into_iter().zip(expected) {
            near(found, expected, rule);
        }
    }
}

#[test]
fn several_images_have_the_mean_of_their_vectors() {
    let usage = json!({
        "ns/StatefulSet/a": [{"node": "Node1", "image": "i", "local": {"cpu": 0.5}}],
        "ns/StatefulSet/b": [{"node": "Node1", "image": "j", "local": {"disk": 0.5}}],
    });
    let world = using(&usage);
    let key = workload_key("ns/StatefulSet/new").unwrap();
    let (weights, from) = world.weights.of(&key, ["i", "j", "j", "unknown"], ByResource::all(1.0));
    assert_eq!((four(&weights), from), ([0.5, 0.0, 0.0, 0.5], WeightsFrom::Image));
}

#[test]
fn an_idle_share_that_one_node_does_not_tell_is_left_out_for_all() {
    let mut file = paper();
    file["nodes"]["Node1"]["idle"]["bandwidth"] = Value::Null;
    let world = World::of(&file).policies(0.0, 1.0, 0.0);
    let decision = world.score_of(&pod("web", "web:1"), &BOTH);
    near(decision.nodes[0].weighted.unwrap(), (0.30 * 0.55 + 0.03 * 0.50 + 0.02 * 0.60) / 0.35, "Node1");
    near(decision.nodes[1].weighted.unwrap(), (0.30 * 0.50 + 0.03 * 0.45 + 0.02 * 0.40) / 0.35, "Node2");
    file["nodes"]["Node3"] = json!({});
    let decision =
        World::of(&file).policies(0.0, 1.0, 0.0).score_of(&pod("web", "web:1"), &["Node1", "Node2", "Node3"]);
    assert_eq!(decision.nodes[2].weighted, None, "a node that tells nothing");
    near(
        decision.nodes[2].score,
        f64::midpoint(decision.nodes[0].score, decision.nodes[1].score),
        "has the median",
    );
}

#[test]
fn without_an_idle_share_the_shortest_window_counts() {
    let file = json!({"nodes": {"a": {"cpu": {"15m": 0.3, "1d": 0.9}, "network": {"15m": 0.5, "1d": 0.9}}}});
    let decision = World::of(&file).policies(0.0, 1.0, 0.0).score(&["a"]);
    near(decision.nodes[0].weighted.unwrap(), 0.5 * 0.7 + 0.5 * 0.5, "cpu and bandwidth");
}

/// Weights of disk are learnt from what is stored: a disk that is busy may be empty.
#[test]
fn how_busy_a_disk_is_does_not_tell_how_full_it_is() {
    for (rule, idle, expected) in [
        ("only how busy it is", json!({}), 0.7),
        ("how full it is", json!({"disk": 0.1}), f64::midpoint(0.7, 0.1)),
    ] {
        let file = json!({"nodes": {"a": {"cpu": {"15m": 0.3}, "disk": {"15m": 0.4}, "idle": idle}}});
        let decision = World::of(&file).policies(0.0, 1.0, 0.0).score(&["a"]);
        near(decision.nodes[0].weighted.unwrap(), expected, rule);
    }
}
