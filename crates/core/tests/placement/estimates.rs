use plimsoll_core::placement::Incoming;
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};

use crate::world::{World, near};

fn recommendation(name: &str, target: &Value, pod: Option<&str>, cpu: &str) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"profile": "p", "targetRef": target, "podName": pod},
        "status": {"containers": [{"name": "app", "cpu": {"target": cpu}}]},
    })
}

fn pod(containers: &Value, init: &Value) -> Value {
    json!({"metadata": {"name": "db-0", "namespace": "shop", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true}]},
        "spec": {"containers": containers, "initContainers": init}})
}

#[test]
fn what_a_pod_is_expected_to_use() {
    let with = |requests: Value, limits: Value| json!({"name": "app", "resources": {"requests": requests, "limits": limits}});
    let sidecar = json!([{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                         {"name": "init", "resources": {"requests": {"cpu": "64"}}}]);
    let of_db = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"});
    let other_group = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"});
    let both = || json!([with(json!({"cpu": "1"}), json!({"cpu": "3"}))]);
    let rows: [(&str, Vec<Value>, Value, Value, f64); 9] = [
        ("nothing", vec![], json!([{"name": "app"}]), json!([]), 0.0),
        ("the request", vec![], json!([with(json!({"cpu": "1"}), json!({}))]), json!([]), 1.0),
        ("the limit goes before it", vec![], both(), json!([]), 3.0),
        (
            "a limit of 0 is none",
            vec![],
            json!([with(json!({"cpu": "1"}), json!({"cpu": "0"}))]),
            json!([]),
            1.0,
        ),
        ("sidecars count, what ends before the pod starts does not", vec![], both(), sidecar, 4.0),
        (
            "the recommendation goes before both",
            vec![recommendation("r", &of_db, None, "200m")],
            both(),
            json!([]),
            0.2,
        ),
        (
            "that of the very pod before that of its workload",
            vec![
                recommendation("r", &of_db, None, "200m"),
                recommendation("s", &of_db, Some("db-0"), "300m"),
                recommendation("t", &of_db, Some("db-1"), "400m"),
            ],
            both(),
            json!([]),
            0.3,
        ),
        ("another group", vec![recommendation("r", &other_group, None, "200m")], both(), json!([]), 3.0),
        (
            "a container that it does not know",
            vec![recommendation("r", &of_db, None, "200m")],
            json!([{"name": "new", "resources": {"limits": {"cpu": "2"}}}]),
            json!([]),
            2.0,
        ),
    ];
    for (rule, recommendations, containers, init, cpu) in rows {
        let mut world = World::default();
        for object in recommendations {
            world.put(&object);
        }
        let incoming = Incoming::read(&Pruned::of_placed(&pod(&containers, &init)), &world.objects);
        near(incoming.estimate.cpu, cpu, rule);
    }
}

#[test]
fn a_pod_of_no_form_is_read_as_far_as_it_goes() {
    let world = World::default();
    for odd in [
        json!(null),
        json!(5),
        json!({"metadata": 5, "spec": 5}),
        json!({"metadata": {"name": 5, "labels": [], "ownerReferences": {}}, "spec": {"containers": {}, "priority": "x"}}),
        json!({"spec": {"containers": [5, {"resources": {"limits": {"cpu": "x"}}}]}}),
        json!({"spec": {"priority": 1e300, "containers": [{"name": "a", "resources": {"requests": {"cpu": "-1"}, "limits": {"cpu": -5}}}]}}),
    ] {
        let incoming = Incoming::read(&Pruned::of_placed(&odd), &world.objects);
        assert!(incoming.estimate.cpu == 0.0 && incoming.estimate.memory == 0.0, "{odd}");
    }
}
