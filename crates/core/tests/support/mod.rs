//! A small bench for decisions: profile, objects and pods as JSON, the answer applied to the pod.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use jiff::Timestamp;
use plimsoll_core::admission::{AbsentNamespace, Context, Decision, Settings, decide, patch_to_json};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-03-10T12:00:00Z";

/// The profile of the vectors: static factors cpu 0.5 and memory 0.7.
pub(crate) fn vector_spec() -> Value {
    json!({"mode": "Static", "static": {"factors": {"cpu": "0.5", "memory": "0.7"}}})
}

/// `a` with the members of `b` set, recursively.
pub(crate) fn merged(a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut out = a.clone();
            for (key, value) in b {
                let merged = merged(a.get(key).unwrap_or(&Value::Null), value);
                out.insert(key.clone(), merged);
            }
            Value::Object(out)
        }
        (_, b) => b.clone(),
    }
}

pub(crate) fn profile(spec: &Value) -> Value {
    json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile",
        "metadata": {"name": "shared-pool"}, "spec": spec})
}

pub(crate) fn limit_range(name: &str, item: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"limits": [item]}})
}

/// A recommendation for the bare pod `p` unless `over` says otherwise.
pub(crate) fn recommendation(containers: &Value, over: &Value) -> Value {
    let base = json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
        "metadata": {"name": "r", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}, "profile": "shared-pool"},
        "status": {"containers": containers}});
    merged(&base, over)
}

/// One container's figures with two days of samples up to now.
pub(crate) fn figures(name: &str, targets: &Value) -> Value {
    let mut out = json!({"name": name, "samples": 2880,
        "firstSample": "2026-03-08T12:00:00Z", "lastSample": "2026-03-10T11:59:00Z"});
    for (resource, target) in targets.as_object().unwrap() {
        out[resource] = json!({"target": target});
    }
    out
}

pub(crate) fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": spec})
}

/// A pod of one container `app`.
pub(crate) fn app(requests: &Value, limits: &Value) -> Value {
    pod(&json!({"containers": [container("app", requests, limits)]}))
}

pub(crate) fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    let mut resources = json!({});
    if !requests.is_null() {
        resources["requests"] = requests.clone();
    }
    if !limits.is_null() {
        resources["limits"] = limits.clone();
    }
    json!({"name": name, "image": "i", "resources": resources})
}

pub(crate) fn objects(manifests: &[Value]) -> Objects {
    let mut objects = Objects::default();
    for manifest in manifests {
        objects.put(read_manifest(manifest).unwrap().expect("a kind that decisions read"));
    }
    objects
}

pub(crate) fn settings() -> Settings {
    Settings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        absent_namespace: AbsentNamespace::Exists,
        ..Settings::default()
    }
}

pub(crate) fn judge(pod: &Value, objects: &Objects) -> Decision {
    let now: Timestamp = NOW.parse().unwrap();
    let settings = settings();
    let context = Context { objects, settings: &settings, namespace: None, now, defaulted: None };
    decide(&Pruned::of(pod), "shop", &context)
}

/// The pod after the decision's patch, with everything that must hold for every patch checked.
pub(crate) fn after(rule: &str, before: &Value, objects: &Objects) -> (Value, Decision) {
    let decision = judge(before, objects);
    assert_eq!(decision.self_check, None, "{rule}");
    let patched = apply(before, &decision);
    let again = judge(&patched, objects);
    assert_eq!(again.answer.patch, vec![], "{rule}: our own result sent in again needs nothing");
    for list in ["containers", "initContainers"] {
        for (index, container) in before["spec"][list].as_array().into_iter().flatten().enumerate() {
            assert_eq!(
                container["resources"]["limits"], patched["spec"][list][index]["resources"]["limits"],
                "{rule}: limits are never changed"
            );
        }
    }
    (patched, decision)
}

pub(crate) fn apply(pod: &Value, decision: &Decision) -> Value {
    let mut patched = pod.clone();
    let patch: json_patch::Patch = serde_json::from_slice(&patch_to_json(&decision.answer.patch)).unwrap();
    json_patch::patch(&mut patched, &patch).unwrap();
    patched
}

/// The record in a pod's annotation, or null.
pub(crate) fn record(pod: &Value) -> Value {
    pod["metadata"]["annotations"]["plimsoll.dev/original-resources"]
        .as_str()
        .map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}
