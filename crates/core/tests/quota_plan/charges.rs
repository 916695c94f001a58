//! What a pod counts.

use plimsoll_core::pod::{PodView, Pruned};
use plimsoll_core::quota::{Amounts, ChargeError, PODS, QuotaPod, charge, counted};
use plimsoll_quantity::Quantity;
use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::support::amounts;

fn on_creation(spec: &Value) -> Result<Amounts, ChargeError> {
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    charge(&PodView::read(&Pruned::of(&pod)).unwrap())
}

/// A container of these requests, as in `cpu=1 memory=1Gi`.
fn container(name: &str, requests: &str) -> Value {
    let pairs = requests.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let requests: serde_json::Map<String, Value> =
        pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({"name": name, "resources": {"requests": requests}})
}

fn sidecar(name: &str, requests: &str) -> Value {
    let mut container = container(name, requests);
    container["restartPolicy"] = json!("Always");
    container
}

fn spec(apps: &[Value], inits: &[Value]) -> Value {
    json!({"containers": apps, "initContainers": inits})
}

fn with(mut spec: Value, key: &str, value: Value) -> Value {
    spec[key] = value;
    spec
}

/// The amounts with the one pod that every pod is.
fn one_pod(text: &str) -> Amounts {
    let mut amounts = amounts(text);
    amounts.set(PODS, 1_000_000_000);
    amounts
}

#[test]
fn charges() {
    let app = |requests| vec![container("app", requests)];
    let pod_level = |requests: Value| json!({"requests": requests});
    for (rule, spec, expected) in [
        (
            "an init container runs beside the sidecar before it",
            spec(&app("cpu=100m"), &[sidecar("s", "cpu=100m"), container("i", "cpu=200m")]),
            "cpu=300m",
        ),
        (
            "and without the sidecar after it",
            spec(&app("cpu=100m"), &[container("i", "cpu=200m"), sidecar("s", "cpu=100m")]),
            "cpu=200m",
        ),
        (
            "sidecars run beside the app",
            spec(
                &app("cpu=100m"),
                &[sidecar("1", "cpu=50m"), container("i", "cpu=10m"), sidecar("2", "cpu=70m")],
            ),
            "cpu=220m",
        ),
        (
            "overhead is added",
            with(
                spec(&[container("a", "cpu=100m"), container("b", "cpu=200m")], &[]),
                "overhead",
                json!({"cpu": "250m", "memory": "120Mi"}),
            ),
            "cpu=550m memory=120Mi",
        ),
        (
            "a pod-level request replaces",
            with(spec(&app("cpu=300m memory=1Gi"), &[]), "resources", pod_level(json!({"cpu": "500m"}))),
            "cpu=500m memory=1Gi",
        ),
        (
            "also downwards, and what no container requests",
            with(
                spec(&app("cpu=2"), &[container("i", "cpu=9")]),
                "resources",
                pod_level(json!({"cpu": "1", "memory": "2Gi", "hugepages-2Mi": "4Mi"})),
            ),
            "cpu=1 memory=2Gi hugepages-2Mi=4Mi",
        ),
        (
            "only where pods can have one",
            with(spec(&app("nvidia.com/gpu=1"), &[]), "resources", pod_level(json!({"nvidia.com/gpu": "5"}))),
            "nvidia.com/gpu=1",
        ),
        (
            "the largest init container",
            spec(&app("nvidia.com/gpu=1"), &[container("i", "nvidia.com/gpu=2")]),
            "nvidia.com/gpu=2",
        ),
        (
            "each resource by itself",
            spec(&app("cpu=1 memory=1Gi"), &[container("i", "cpu=2 memory=1Mi")]),
            "cpu=2 memory=1Gi",
        ),
        ("negative is 0", spec(&[container("a", "cpu=-1"), container("b", "cpu=1")], &[]), "cpu=1"),
        (
            "negative overhead is 0",
            with(spec(&app("cpu=1"), &[]), "overhead", json!({"cpu": "-500m"})),
            "cpu=1",
        ),
        ("0 is nothing", spec(&app("cpu=0"), &[]), ""),
        ("no requests", spec(&[json!({"name": "a"})], &[]), ""),
        (
            "limits alone count nothing",
            spec(&[json!({"name": "a", "resources": {"limits": {"cpu": "1"}}})], &[]),
            "",
        ),
        ("null", spec(&[json!({"name": "a", "resources": {"requests": {"cpu": null}}})], &[]), ""),
        ("a number", spec(&[json!({"name": "a", "resources": {"requests": {"cpu": 2}}})], &[]), "cpu=2"),
    ] {
        assert_eq!(on_creation(&spec), Ok(one_pod(expected)), "{rule}");
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        assert_eq!(counted(&pod), Ok(one_pod(expected)), "{rule}: the same once it exists");
    }
}

#[test]
fn what_is_no_quantity_is_named() {
    let message = on_creation(&spec(&[container("app", "cpu=much")], &[])).unwrap_err().to_string();
    assert_eq!(
        message,
        r#"container "app" resources.requests.cpu: "much" is not a quantity; write one such as 500m or 1Gi"#
    );
    for (rule, spec, place) in [
        ("overhead", with(spec(&[], &[]), "overhead", json!({"cpu": "1e400"})), "spec.overhead.cpu"),
        (
            "of the pod",
            with(spec(&[], &[]), "resources", json!({"requests": {"cpu": []}})),
            "spec.resources.requests.cpu",
        ),
    ] {
        let message = on_creation(&spec).unwrap_err().to_string();
        assert!(message.starts_with(place), "{rule}: {message}");
    }
}

#[test]
fn endless_sums_stay_in_range() {
    let many: Vec<Value> = (0..50).map(|n| container(&format!("c{n}"), "cpu=9000000000000000000")).collect();
    let charge = on_creation(&spec(&many, &[])).unwrap();
    assert!(charge.of("cpu") > 0, "never negative");
    let mut sum = charge.clone();
    (0..1000).for_each(|_| sum.add(&charge));
    assert!(sum.of("cpu") >= charge.of("cpu"), "nor does the sum of many of them become so");
}

#[test]
fn resizes_count_in_both_directions() {
    let app = |cpu: &str| json!({"containers": [container("app", &format!("cpu={cpu}"))]});
    let status = |allocated: Option<&str>, actual: Option<&str>| {
        let mut status = json!({"name": "app"});
        if let Some(cpu) = allocated {
            status["allocatedResources"] = json!({"cpu": cpu});
        }
        if let Some(cpu) = actual {
            status["resources"] = json!({"requests": {"cpu": cpu}});
        }
        json!({"phase": "Running", "containerStatuses": [status]})
    };
    let none = Value::Null;
    let pod_level = |of: &str| with(app("1"), "resources", json!({"requests": {"cpu": of}}));
    let both = |status: &mut Value, key: &str, value: Value| status[key] = value;
    let mut pod_status = status(None, None);
    both(&mut pod_status, "allocatedResources", json!({"cpu": "3"}));
    both(&mut pod_status, "resources", json!({"requests": {"cpu": "2"}}));
    let init = json!({"containers": [container("app", "cpu=1")], "initContainers": [sidecar("s", "cpu=1")]});
    let of_init = json!({"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "4"}}]});
    let two = json!({"containers": [container("app", "cpu=1"), container("b", "cpu=1")]});
    for (rule, spec, status, expected) in [
        ("no status yet", app("1"), none.clone(), "cpu=1"),
        ("at rest", app("1"), status(Some("1"), Some("1")), "cpu=1"),
        ("up: asked, not yet allocated", app("3"), status(Some("1"), Some("1")), "cpu=3"),
        ("up: allocated, not yet in force", app("3"), status(Some("3"), Some("1")), "cpu=3"),
        ("down: asked, not yet allocated", app("1"), status(Some("3"), Some("3")), "cpu=3"),
        ("down: allocated, not yet in force", app("1"), status(Some("1"), Some("3")), "cpu=3"),
        ("only the allocation is reported", app("1"), status(Some("2"), None), "cpu=2"),
        ("only what is in force is reported", app("1"), status(None, Some("2")), "cpu=2"),
        ("a container without status", two, status(Some("2"), None), "cpu=3"),
        ("a sidecar", init, of_init, "cpu=5"),
        ("of the pod: up", pod_level("5"), pod_status.clone(), "cpu=5"),
        ("of the pod: down", pod_level("1"), pod_status, "cpu=3"),
        (
            "a status that is none",
            app("1"),
            json!({"containerStatuses": [{"name": "app", "resources": []}]}),
            "cpu=1",
        ),
    ] {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status});
        assert_eq!(counted(&pod), Ok(one_pod(expected)), "{rule}");
    }
}

#[test]
fn which_pods_count() {
    let node = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "controller": true}]);
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    for (rule, metadata, phase, counts) in [
        ("pending", json!({}), "Pending", true),
        ("running", json!({}), "Running", true),
        ("unknown", json!({}), "Unknown", true),
        ("succeeded", json!({}), "Succeeded", false),
        ("failed", json!({}), "Failed", false),
        ("terminating", json!({"deletionTimestamp": "2026-03-01T00:00:00Z"}), "Running", true),
        ("a mirror pod", json!({"annotations": mirror, "ownerReferences": node}), "Running", false),
        ("only its annotation", json!({"annotations": mirror}), "Running", true),
    ] {
        let mut pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}});
        pod["metadata"]["name"] = json!("p");
        pod["metadata"]["namespace"] = json!("n");
        assert_eq!(QuotaPod::read(&pod).unwrap().counts(), counts, "{rule}");
    }
}

/// A container as the naive rule sees it: whether it is a sidecar, and its requests.
#[derive(Clone, Debug)]
struct Plain {
    sidecar: bool,
    requests: Vec<(&'static str, &'static str)>,
}

fn plain() -> impl Strategy<Value = Plain> {
    let request = |name: &'static str, values: &'static [&'static str]| {
        weighted(0.6, select(values)).prop_map(move |value| value.map(|value| (name, value)))
    };
    let requests = (
        request("cpu", &["0", "1m", "250m", "1", "1.5", "-1", "3e-1"]),
        request("memory", &["0", "1", "1Mi", "0.5Gi", "100M"]),
        request("nvidia.com/gpu", &["0", "1", "4"]),
    );
    (any::<bool>(), requests).prop_map(|(sidecar, (cpu, memory, gpu))| Plain {
        sidecar,
        requests: [cpu, memory, gpu].into_iter().flatten().collect(),
    })
}

fn nanos(value: &str) -> i128 {
    Quantity::parse(value).unwrap().nanos()
}

/// The rule as one would say it: look at every moment of the pod's life, and take the one with most.
fn naive(name: &str, apps: &[Plain], inits: &[Plain], pod: Option<&str>, overhead: Option<&str>) -> i128 {
    let of = |plain: &Plain| {
        let found = plain.requests.iter().find(|(of, _)| *of == name);
        found.map_or(0, |(_, value)| nanos(value).max(0))
    };
    let mut moments = Vec::new();
    for now in 0..inits.len() {
        let before = inits[..now].iter().filter(|init| init.sidecar).map(of).sum::<i128>();
        moments.push(before + of(&inits[now]));
    }
    let sidecars = inits.iter().filter(|init| init.sidecar).map(of).sum::<i128>();
    moments.push(apps.iter().map(of).sum::<i128>() + sidecars);
    let most = moments.into_iter().max().unwrap();
    let most = pod.filter(|_| name != "nvidia.com/gpu").map_or(most, |value| nanos(value).max(0));
    most + overhead.map_or(0, |value| nanos(value).max(0))
}

proptest! {
    #[test]
    fn as_the_scheduler_counts(
        apps in vec(plain(), 1..4),
        inits in vec(plain(), 0..5),
        pod in of(select(&["0", "200m", "2"][..])),
        overhead in of(select(&["0", "100m", "-1", "1"][..])),
    ) {
        let value = |plain: &Plain, name: String, init: bool| {
            let requests: serde_json::Map<String, Value> =
                plain.requests.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            let mut container = json!({"name": name, "resources": {"requests": requests}});
            if init && plain.sidecar {
                container["restartPolicy"] = json!("Always");
            }
            container
        };
        let list = |all: &[Plain], init: bool| -> Vec<Value> {
            all.iter().enumerate().map(|(n, plain)| value(plain, format!("{init}{n}"), init)).collect()
        };
        let mut spec = spec(&list(&apps, false), &list(&inits, true));
        let everywhere = |value: &str| json!({"cpu": value, "memory": value, "nvidia.com/gpu": value});
        if let Some(value) = pod {
            spec["resources"] = json!({"requests": everywhere(value)});
        }
        if let Some(value) = overhead {
            spec["overhead"] = everywhere(value);
        }
        let charge = on_creation(&spec).unwrap();
        for name in ["cpu", "memory", "nvidia.com/gpu"] {
            prop_assert_eq!(charge.of(name), naive(name, &apps, &inits, pod, overhead), "{}", name);
        }
        prop_assert_eq!(charge.of(PODS), 1_000_000_000);
        prop_assert!(charge.iter().all(|(_, nanos)| nanos > 0), "what is not requested has no entry");
    }
}
