//! Manifests that scenarios create, and what they read from pods.

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub(crate) const ORIGINAL: &str = "plimsoll.dev/original-resources";
pub(crate) const APPLIED: &str = "plimsoll.dev/applied";
pub(crate) const OPT_OUT: &str = "plimsoll.dev/overcommit";

/// A container that runs anywhere; kwok does not pull images.
pub(crate) fn container(name: &str, resources: &Value) -> Value {
    json!({"name": name, "image": "registry.k8s.io/pause:3.10", "resources": resources})
}

/// The usual container: CPU 1 of at most 2, memory 64Mi of at most 128Mi.
pub(crate) fn app() -> Value {
    container(
        "app",
        &json!({"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "128Mi"}}),
    )
}

pub(crate) fn pod_spec(containers: &[Value]) -> Value {
    json!({"containers": containers, "terminationGracePeriodSeconds": 0})
}

pub(crate) fn pod(namespace: &str, name: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": pod_spec(containers),
    })
}

/// A pod that is admitted and then left alone: the scheduler does not touch it.
pub(crate) fn gated_pod(namespace: &str, name: &str, containers: &[Value]) -> Value {
    let mut pod = pod(namespace, name, containers);
    pod["spec"]["schedulingGates"] = json!([{"name": "plimsoll.dev/e2e"}]);
    pod
}

pub(crate) fn profile(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "OvercommitProfile",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// What names an object of a list, whose items do not say their kind.
pub(crate) fn named(version: &str, kind: &str, item: &Value) -> Value {
    let metadata = json!({"name": item["metadata"]["name"], "namespace": item["metadata"]["namespace"]});
    json!({"apiVersion": version, "kind": kind, "metadata": metadata})
}

/// `spec.containers` and `spec.initContainers` by name.
pub(crate) fn container_of<'a>(pod: &'a Value, name: &str) -> Result<&'a Value> {
    ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array())
        .flatten()
        .find(|container| container["name"] == name)
        .with_context(|| format!("no container {name} in {pod}"))
}

/// The text of a request or limit, e.g. `figure(pod, "app", "requests", "cpu")`; "" if there is none.
pub(crate) fn figure<'a>(pod: &'a Value, container: &str, part: &str, resource: &str) -> Result<&'a str> {
    Ok(container_of(pod, container)?["resources"][part][resource].as_str().unwrap_or_default())
}

/// The CPU request of a container.
pub(crate) fn cpu<'a>(pod: &'a Value, container: &str) -> Result<&'a str> {
    figure(pod, container, "requests", "cpu")
}

/// An annotation's text, if it is there.
pub(crate) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// The recorded originals, parsed.
pub(crate) fn originals(pod: &Value) -> Result<Value> {
    let text = annotation(pod, ORIGINAL).with_context(|| format!("no {ORIGINAL} in {}", pod["metadata"]))?;
    serde_json::from_str(text).with_context(|| format!("{ORIGINAL} is not JSON: {text}"))
}

pub(crate) fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}
