use plimsoll_core::objects::Objects;
use plimsoll_core::placement::{Placed, PlacedPod, Qos, workload_key};
use plimsoll_core::resource::UNIT;
use serde_json::{Value, json};

use crate::world::{NOW, SECOND, bound, plain_pod, with_resources};

fn read(pod: &Value) -> PlacedPod {
    PlacedPod::read(pod, &Objects::default()).unwrap()
}

fn with(mut pod: Value, path: &str, key: &str, value: Value) -> Value {
    pod.pointer_mut(path).unwrap()[key] = value;
    pod
}

/// What the table tells: pods in all, pending, on n1, cores requested there, replicas of web on n1, ready of web, bindings.
fn told(placed: &Placed) -> (usize, usize, usize, i128, u32, u32, u32) {
    let web = workload_key("shop/StatefulSet/web").unwrap();
    let on = placed.on("n1");
    (
        placed.len(),
        placed.pending(),
        on.map_or(0, |on| on.pods().len()),
        on.map_or(0, |on| on.requests()[0] / UNIT),
        placed.replicas(&web).and_then(|on| on.get("n1")).copied().unwrap_or(0),
        placed.ready(&web),
        on.map_or(0, |on| on.bindings(NOW, 60 * SECOND)),
    )
}

#[test]
fn the_table_follows_every_change() {
    let pod = |name: &str| with_resources(bound(name, "web", "n1", 5), &json!({"cpu": "2"}), &json!({}));
    let mut placed = Placed::listed([]);
    assert!(placed.is_complete() && !Placed::default().is_complete());
    let mut step = |rule: &str, change: &dyn Fn(&mut Placed), expected| {
        change(&mut placed);
        assert_eq!(told(&placed), expected, "{rule}");
    };
    step("nothing", &|_| (), (0, 0, 0, 0, 0, 0, 0));
    step(
        "one waits",
        &|p| p.put(read(&with(pod("a"), "/spec", "nodeName", json!("")))),
        (1, 1, 0, 0, 0, 0, 0),
    );
    step("and is bound", &|p| p.put(read(&pod("a"))), (1, 0, 1, 2, 1, 1, 1));
    step("the same again", &|p| p.put(read(&pod("a"))), (1, 0, 1, 2, 1, 1, 1));
    step("another", &|p| p.put(read(&pod("b"))), (2, 0, 2, 4, 2, 2, 2));
    step(
        "not ready",
        &|p| {
            p.put(read(&with(
                pod("b"),
                "/status",
                "conditions",
                pod("b")["status"]["conditions"].as_array().unwrap()[..1].into(),
            )));
        },
        (2, 0, 2, 4, 2, 1, 2),
    );
    step(
        "resized",
        &|p| p.put(read(&with_resources(pod("a"), &json!({"cpu": "3"}), &json!({})))),
        (2, 0, 2, 5, 2, 1, 2),
    );
    step(
        "it ends",
        &|p| p.put(read(&with(pod("b"), "/metadata", "deletionTimestamp", json!("2026-03-01T10:00:00Z")))),
        (2, 0, 2, 5, 1, 1, 2),
    );
    step("another of that name is gone", &|p| p.remove("shop", "b", "old"), (2, 0, 2, 5, 1, 1, 2));
    step("it is gone", &|p| p.remove("shop", "b", "b"), (1, 0, 1, 3, 1, 1, 1));
    step("again", &|p| p.remove("shop", "b", "b"), (1, 0, 1, 3, 1, 1, 1));
    step(
        "finished: it was bound all the same",
        &|p| p.put(read(&with(pod("a"), "/status", "phase", json!("Failed")))),
        (1, 0, 0, 0, 0, 0, 1),
    );
    step("gone without a uid", &|p| p.remove("shop", "a", ""), (0, 0, 0, 0, 0, 0, 0));
    step(
        "a gated one",
        &|p| {
            p.put(read(&with(
                with(pod("g"), "/spec", "nodeName", json!(null)),
                "/spec",
                "schedulingGates",
                json!([{"name": "x"}]),
            )));
        },
        (1, 0, 0, 0, 0, 0, 0),
    );
    step("listed anew", &|p| *p = Placed::listed([read(&pod("x")), read(&pod("y"))]), (2, 0, 2, 4, 2, 2, 2));
}

#[test]
fn classes_and_annotations() {
    let both = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi"});
    for (rule, pod, qos) in [
        ("nothing", plain_pod(), Qos::BestEffort),
        ("a request", with_resources(plain_pod(), &json!({"cpu": "1"}), &json!({})), Qos::Burstable),
        ("a limit", with_resources(plain_pod(), &json!({}), &json!({"memory": "1Gi"})), Qos::Burstable),
        ("all alike", with_resources(plain_pod(), &both("1"), &both("1")), Qos::Guaranteed),
        ("lowered", with_resources(plain_pod(), &both("500m"), &both("1")), Qos::Burstable),
        ("zero", with_resources(plain_pod(), &json!({"cpu": "0"}), &json!({})), Qos::BestEffort),
    ] {
        assert_eq!(read(&pod).shape.qos, qos, "{rule}");
    }
    let annotated = |key: &str, value: &str| {
        read(&with(plain_pod(), "/metadata", "annotations", json!({key: value}))).shape.stays.clone()
    };
    for (key, value, stays) in [
        ("plimsoll.dev/do-not-evict", "true", true),
        ("plimsoll.dev/do-not-evict", "false", false),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true", true),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "", true),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", true),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", false),
    ] {
        assert_eq!(annotated(key, value).contains(&key), stays, "{key}: {value:?}");
    }
}

#[test]
fn pods_of_one_template_have_equal_shapes() {
    let labelled = |name: &str, index: &str| {
        with(
            bound(name, "web", "n1", 5),
            "/metadata",
            "labels",
            json!({"app": "web", "apps.kubernetes.io/pod-index": index}),
        )
    };
    assert_eq!(read(&labelled("web-0", "0")).shape, read(&labelled("web-1", "1")).shape);
}
