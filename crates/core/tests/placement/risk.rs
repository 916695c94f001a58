use serde_json::json;

use crate::world::{World, bound, near, plain_pod, with_resources};

#[test]
fn limits_beyond_the_node() {
    for (rule, on_node, incoming, score) in [
        ("nothing at all", None, ("0", "0"), Some(100.0)),
        ("limits fit", Some(("1", "4")), ("1", "4"), Some(100.0)),
        ("limits are the whole node", Some(("1", "9")), ("1", "1"), Some(100.0)),
        // limits 16, capacity 10, requests 4: 6 / 12
        ("half of what is promised beyond requests is not there", Some(("2", "8")), ("2", "8"), Some(50.0)),
        ("requests alone exceed it", Some(("8", "8")), ("8", "8"), Some(0.0)),
        ("more is missing than is promised", Some(("12", "12")), ("4", "5"), Some(0.0)),
        ("a pod that alone is too large", None, ("1", "21"), Some(45.0)),
    ] {
        let mut world = World::of(&json!({"nodes": {"n": {"total": {"cpu": "10", "memory": "10Gi"}}}}))
            .policies(0.0, 0.0, 1.0);
        if let Some((request, limit)) = on_node {
            world.place(&with_resources(
                bound("a", "web", "n", 9),
                &json!({"cpu": request}),
                &json!({"cpu": limit}),
            ));
        }
        let pod = with_resources(plain_pod(), &json!({"cpu": incoming.0}), &json!({"cpu": incoming.1}));
        near(world.score_of(&pod, &["n"]).nodes[0].risk.unwrap(), score.unwrap(), rule);
    }
}

#[test]
fn the_worse_of_cpu_and_memory_counts() {
    let world = World::of(&json!({"nodes": {
        "n": {"total": {"cpu": "10", "memory": "10Gi"}}, "unknown": {"cpu": 0.5},
    }}))
    .policies(0.0, 0.0, 1.0);
    let pod = with_resources(
        plain_pod(),
        &json!({"cpu": "1", "memory": "1Gi"}),
        &json!({"cpu": "12", "memory": "19Gi"}),
    );
    let decision = world.score_of(&pod, &["n", "unknown"]);
    near(decision.nodes[0].score, 50.0, "9 of 18 GiB");
    assert_eq!(decision.nodes[1].risk, None, "its capacity is not known");
    near(decision.nodes[1].score, 50.0, "the median");
}
