use serde_json::{Value, json};

use super::*;
use crate::objects::{Objects, read_manifest};
use crate::resource::{MILLI, UNIT};

const MI: i128 = (1 << 20) * UNIT;

fn pod(name: &str, original: &Value, spec: &Value, phase: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name,
            "annotations": {"plimsoll.dev/original-resources": original.to_string()},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": true},
            ],
        },
        "spec": spec,
        "status": {"phase": phase},
    })
}

fn containers(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

fn lowered(from: &str, to: &str) -> Value {
    json!({"containers": {"app": {"requests": {"cpu": from}, "set": {"cpu": to}}}})
}

#[test]
fn what_a_pod_counts_before_and_now() {
    let init = json!({
        "initContainers": [{"name": "load", "resources": {"requests": {"cpu": "800m"}}}],
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}],
    });
    let pod_level = json!({
        "resources": {"requests": {"cpu": "1"}},
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}],
    });
    let overhead = json!({
        "overhead": {"cpu": "100m"},
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}],
    });
    let of_pod = json!({"pod": {"requests": {"cpu": "3"}, "set": {"cpu": "1"}}});
    for (rule, original, spec, before, now) in [
        ("lowered", lowered("1", "500m"), containers("500m", "64Mi"), 1000, 500),
        ("nothing recorded", Value::Null, containers("500m", "64Mi"), 500, 500),
        (
            "a record of another request is not believed",
            lowered("1", "400m"),
            containers("500m", "64Mi"),
            500,
            500,
        ),
        (
            "a record that says less is not believed",
            lowered("100m", "500m"),
            containers("500m", "64Mi"),
            500,
            500,
        ),
        ("an init container hides the saving in part", lowered("1", "500m"), init, 1000, 800),
        ("the pod-level request is what counts", of_pod, pod_level, 3000, 1000),
        ("overhead counts both times", lowered("1", "500m"), overhead, 1100, 600),
    ] {
        let read = SavingsPod::read(&pod("p", &original, &spec, "Running"), &Objects::default());
        let read = read.unwrap().unwrap();
        assert_eq!((read.before.cpu, read.now.cpu), (before * MILLI, now * MILLI), "{rule}");
        assert_eq!(read.lowered, before != now, "{rule}");
    }
}

#[test]
fn a_lowered_request_counts_as_one_though_another_hides_it() {
    let init = |cpu: &str| {
        json!({
            "initContainers": [{"name": "load", "resources": {"requests": {"cpu": cpu}}}],
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}],
        })
    };
    for (rule, original, expected) in [
        ("a record that is believed", lowered("1", "500m"), true),
        ("a record of another request", lowered("1", "400m"), false),
        ("no record", Value::Null, false),
    ] {
        let read = SavingsPod::read(&pod("p", &original, &init("2"), "Running"), &Objects::default());
        let read = read.unwrap().unwrap();
        assert_eq!(read.before, read.now, "{rule}");
        assert_eq!(read.lowered, expected, "{rule}");
    }
}

#[test]
fn names_in_owner_references_are_cut() {
    for (rule, name, expected) in [
        ("as long as a name may be", "a".repeat(253), "a".repeat(253)),
        ("a letter more", "a".repeat(254), "a".repeat(250) + "..."),
        ("a megabyte", "é".repeat(500_000), "é".repeat(125) + "..."),
    ] {
        let mut pod = pod("p", &Value::Null, &containers("1", "1Gi"), "Running");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": format!("{name}/v1"), "kind": name, "name": name, "uid": "r", "controller": true}]);
        let read = SavingsPod::read(&pod, &Objects::default()).unwrap().unwrap();
        let workload = &read.workload.workload;
        for text in [&workload.group, &workload.kind, &workload.name] {
            assert_eq!(*text, expected, "{rule}");
        }
    }
}

#[test]
fn pods_that_count_nothing() {
    for (rule, pod) in [
        ("succeeded", pod("p", &Value::Null, &containers("1", "1Gi"), "Succeeded")),
        ("failed", pod("p", &Value::Null, &containers("1", "1Gi"), "Failed")),
        ("without a name", pod("", &Value::Null, &containers("1", "1Gi"), "Running")),
        ("no pod", json!({})),
    ] {
        assert_eq!(SavingsPod::read(&pod, &Objects::default()).unwrap(), None, "{rule}");
    }
    let broken = pod("p", &Value::Null, &containers("much", "1Gi"), "Running");
    assert!(SavingsPod::read(&broken, &Objects::default()).is_err());
}

#[test]
fn sums_by_workload_and_namespace() {
    let mut objects = Objects::default();
    let replica_set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "shop", "name": "web-1", "uid": "r", "labels": {"pod-template-hash": "1"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true},
            ],
        },
    });
    objects.put(read_manifest(&replica_set).unwrap().unwrap());
    let pods = [("a", lowered("1", "500m")), ("b", Value::Null)].map(|(name, original)| {
        let pod = pod(name, &original, &containers("500m", "64Mi"), "Running");
        SavingsPod::read(&pod, &objects).unwrap().unwrap()
    });
    let mut usage = Usage::default();
    usage.add("shop", "a", Some(0.1), None);
    usage.add("shop", "a", Some(0.025), Some(1024.0 * 1024.0));
    usage.add("shop", "gone", Some(9.0), Some(9.0));
    usage.add("shop", "odd", Some(f64::NAN), Some(-1.0));
    let savings = Savings::of(&pods, &usage);
    assert_eq!(savings.workloads.len(), 1);
    let (key, row) = savings.workloads.iter().next().unwrap();
    assert_eq!(key.to_string(), "shop/Deployment/web");
    let expected = Row {
        pods: 2,
        lowered: 1,
        measured: Measured { cpu: 1, memory: 1 },
        before: Figures { cpu: 1500 * MILLI, memory: 128 * MI },
        now: Figures { cpu: 1000 * MILLI, memory: 128 * MI },
        used: Figures { cpu: 125 * MILLI, memory: MI },
        now_of_measured: Figures { cpu: 500 * MILLI, memory: 64 * MI },
    };
    assert_eq!(*row, expected);
    assert_eq!(row.saved(), Figures { cpu: 500 * MILLI, memory: 0 });
    assert_eq!(savings.total(), expected);
    assert_eq!(savings.namespaces(), [(Arc::from("shop"), expected)].into());
    assert_eq!((usage.len(), usage.is_empty()), (2, false), "what is no number was not measured");
}

#[test]
fn each_resource_is_measured_on_its_own() {
    let pods = ["a", "b"].map(|name| {
        let pod = pod(name, &Value::Null, &containers("500m", "64Mi"), "Running");
        SavingsPod::read(&pod, &Objects::default()).unwrap().unwrap()
    });
    for (rule, measured, used, of_measured) in [
        ("nothing", vec![], (None, None), (None, None)),
        ("no number", vec![("a", Some(f64::NAN), Some(-1.0))], (None, None), (None, None)),
        (
            "CPU alone",
            vec![("a", Some(0.25), None), ("b", Some(0.0), Some(f64::INFINITY))],
            (Some(250 * MILLI), None),
            (Some(1000 * MILLI), None),
        ),
        (
            "CPU of one, memory of the other",
            vec![("a", Some(0.25), None), ("b", None, Some(1024.0 * 1024.0))],
            (Some(250 * MILLI), Some(MI)),
            (Some(500 * MILLI), Some(64 * MI)),
        ),
        ("nothing is used", vec![("a", Some(0.0), None)], (Some(0), None), (Some(500 * MILLI), None)),
    ] {
        let mut usage = Usage::default();
        for (name, cpu, memory) in measured {
            usage.add("shop", name, cpu, memory);
        }
        let total = Savings::of(&pods, &usage).total();
        let pair = |used: Used| (used.cpu, used.memory);
        assert_eq!((pair(total.used()), pair(total.now_of_measured())), (used, of_measured), "{rule}");
        assert_eq!(total.measured.both(), total.measured.cpu.min(total.measured.memory), "{rule}");
    }
}
