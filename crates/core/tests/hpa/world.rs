//! Pods, autoscalers and profiles in a few words.

use jiff::Timestamp;
use plimsoll_core::admission::{AbsentNamespace, Context, Settings};
use plimsoll_core::hpa::{Hpa, MetricKey, Shape};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::resource::Resource;
use serde_json::{Value, json};

use crate::support;

pub(crate) const ORIGINAL: &str = "plimsoll.dev/hpa-original";
pub(crate) const SYNC: &str = "plimsoll.dev/hpa-sync";

pub(crate) fn cpu() -> MetricKey {
    MetricKey::pod(Resource::Cpu)
}

pub(crate) fn memory() -> MetricKey {
    MetricKey::pod(Resource::Memory)
}

pub(crate) fn of_container(name: &str, resource: Resource) -> MetricKey {
    MetricKey { container: Some(name.to_owned()), resource }
}

/// A pod of a Deployment `web` with these containers.
pub(crate) fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "web-1", "namespace": "shop", "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true}],
    }, "spec": spec})
}

/// A pod with one container, that was lowered from `original` to `set`.
pub(crate) fn lowered(original: &str, set: &str, limit: &str) -> Value {
    let mut pod = pod(&json!({"containers": [app("app", set, limit)]}));
    let record = json!({"basis": "request", "profile": "shared-pool",
        "containers": {"app": {"requests": {"cpu": original}, "limits": {"cpu": limit}, "set": {"cpu": set}}}});
    pod["metadata"]["annotations"] = json!({"plimsoll.dev/original-resources": record.to_string()});
    pod
}

/// A pod with one container that nobody touched.
pub(crate) fn untouched(request: &str, limit: &str) -> Value {
    pod(&json!({"containers": [app("app", request, limit)]}))
}

/// A container with a CPU request and limit; empty for none.
pub(crate) fn app(name: &str, request: &str, limit: &str) -> Value {
    let list = |text: &str| if text.is_empty() { json!({}) } else { json!({"cpu": text}) };
    json!({"name": name, "resources": {"requests": list(request), "limits": list(limit)}})
}

pub(crate) fn shape(pod: &Value) -> Shape {
    Shape::of_pod(pod)
}

pub(crate) fn deployment(request: &str, limit: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [app("app", request, limit)]}}}})
}

/// An autoscaler of the Deployment `web` with these metrics.
pub(crate) fn hpa(metrics: &Value) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 20, "metrics": metrics}})
}

pub(crate) fn annotated(mut hpa: Value, key: &str, text: &str) -> Value {
    if hpa["metadata"].get("annotations").is_none() {
        hpa["metadata"]["annotations"] = json!({});
    }
    hpa["metadata"]["annotations"][key] = json!(text);
    hpa
}

pub(crate) fn utilization(resource: &str, percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": resource,
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

pub(crate) fn average(resource: &str, value: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": resource,
        "target": {"type": "AverageValue", "averageValue": value}}})
}

/// The record of a CPU utilization that was converted.
pub(crate) fn record(target: i64, value: &str, sum: &str, pods: u64) -> String {
    json!({"metrics": [{"type": "Resource", "resource": "cpu", "target": target, "basis": "request",
        "sum": sum, "pods": pods, "value": value}]})
    .to_string()
}

pub(crate) fn read(hpa: &Value) -> Hpa {
    Hpa::read(hpa).unwrap()
}

/// A cluster with the profile `shared-pool` of this spec; without one if it is null.
pub(crate) fn objects(profile: &Value, more: &[Value]) -> Objects {
    let mut objects = Objects::default();
    let profile = (!profile.is_null()).then(|| support::profile(profile));
    for manifest in profile.iter().chain(more) {
        objects.put(read_manifest(manifest).unwrap().unwrap());
    }
    objects
}

pub(crate) fn static_profile(more: &Value) -> Value {
    support::merged(&json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}}), more)
}

pub(crate) fn settings() -> Settings {
    Settings { absent_namespace: AbsentNamespace::Exists, ..Settings::default() }
}

pub(crate) fn context<'a>(objects: &'a Objects, settings: &'a Settings) -> Context<'a> {
    Context { objects, settings, namespace: None, now: Timestamp::UNIX_EPOCH, defaulted: None }
}
