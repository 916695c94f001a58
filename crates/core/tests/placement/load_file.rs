use plimsoll_core::placement::{LoadFile, LoadSettings};
use serde_json::{Value, json};

use crate::world::{NOW, World, four};

fn read(file: &Value) -> Result<LoadFile, Vec<String>> {
    LoadFile::read(file, &LoadSettings::default(), NOW).map_err(|problems| {
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
    })
}

#[test]
fn what_cannot_be_meant_is_named() {
    for (rule, file, expected) in [
        ("no map", json!([]), vec![": is not a map"]),
        ("a slip", json!({"node": {}}), vec!["node: is not known; nodes, usage or bindings"]),
        ("a metric that is none", json!({"nodes": {"n": {"cpus": 0.5}}}), vec!["nodes.n.cpus: is not known"]),
        (
            "a window that is none",
            json!({"nodes": {"n": {"cpu": {"5m": 0.5}}}}),
            vec!["nodes.n.cpu.5m: is no window of placement.load.windows; those are 15m, 1h, 1d"],
        ),
        ("no number", json!({"nodes": {"n": {"cpu": "50%"}}}), vec!["nodes.n.cpu: is not a map"]),
        (
            "no number in a window",
            json!({"nodes": {"n": {"cpu": {"15m": "x"}}}}),
            vec!["nodes.n.cpu.15m: \"x\" is not a number"],
        ),
        (
            "no quantity",
            json!({"nodes": {"n": {"total": {"disk": "big", "cpu": 0}}}}),
            vec!["nodes.n.total.cpu: 0 is not a quantity above 0", "nodes.n.total.disk: \"big\" is not"],
        ),
        (
            "an idle share below 0",
            json!({"nodes": {"n": {"idle": {"cpu": -1}}}}),
            vec!["nodes.n.idle.cpu: -1 is negative"],
        ),
        (
            "no time",
            json!({"nodes": {"n": {"time": "yesterday"}}}),
            vec!["nodes.n.time: \"yesterday\" is not a time"],
        ),
        (
            "no workload",
            json!({"usage": {"web": []}}),
            vec!["usage.web: names no workload; write namespace/kind/name"],
        ),
        ("too many parts", json!({"usage": {"a/b/c/d": []}}), vec!["usage.a/b/c/d: names no workload"]),
        ("no list", json!({"usage": {"a/b/c": {}}}), vec!["usage.a/b/c: is not a list"]),
        (
            "no node",
            json!({"usage": {"a/b/c": [{"local": {"cpu": 0.5}}]}}),
            vec!["usage.a/b/c[0].node: is missing"],
        ),
        (
            "an odd count",
            json!({"bindings": {"n": -1, "m": 1.5}}),
            vec!["bindings.m: 1.5 is not a number of pods", "bindings.n: -1 is not"],
        ),
    ] {
        let problems = read(&file).unwrap_err();
        assert_eq!(problems.len(), expected.len(), "{rule}: {problems:?}");
        for (found, expected) in problems.iter().zip(expected) {
            assert!(found.starts_with(expected), "{rule}: {found}");
        }
    }
}

#[test]
fn what_a_source_would_drop_is_dropped() {
    let mut file = four();
    file["nodes"]["n1"]["cpu"]["15m"] = json!(1.06);
    file["nodes"]["n1"]["memory"]["1h"] = json!(-0.1);
    file["nodes"]["n1"]["load"]["1d"] = json!(77.0);
    file["nodes"]["n3"]["time"] = json!("2026-03-01T09:54:59Z");
    file["nodes"]["n4"]["time"] = json!("2026-03-01T09:55:00Z");
    let read = read(&file).unwrap();
    assert_eq!(
        read.notes,
        [
            "nodes.n1.cpu.15m: 1.06 cannot be true, and is dropped",
            "nodes.n1.memory.1h: -0.1 cannot be true, and is dropped",
            "nodes.n3: its newest sample is too old; nothing fresh is known of it",
        ]
    );
    let fresh = |node| read.load.fresh(node, NOW, &LoadSettings::default()).is_some();
    assert!(!fresh("n3") && fresh("n4"));
}

#[test]
fn a_plain_number_is_that_of_every_window() {
    let world = World::of(&json!({"nodes": {"n": {"cpu": 0.25}}}));
    assert!((world.scores(&["n"])[0] - 75.0).abs() < 1e-9);
    assert!(read(&Value::Null).unwrap().load.nodes.is_empty(), "an empty file");
}
