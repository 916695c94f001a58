//! A pod that exists, as its author wrote it.

use serde_json::{Map, Value};

use crate::keys;
use crate::overcommit::{Amount, Record, Requested, Target};
use crate::pod::{Container, PodView, Pruned};
use crate::resource::Resource;

/// The pod as it would be sent again: with the originals that its record says where they can be believed, and without
/// our annotations. What it decides is what would be decided about the next one, not about the one that was lowered.
///
/// A pod that cannot be read only loses the annotations. Node affinity that was added stays.
pub fn restored(pod: &Value) -> Value {
    let mut out = pod.clone();
    for (pointer, resource, text) in replacements(pod) {
        if let Some(requests) = out.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            requests.insert(resource.name().to_owned(), text.into());
        }
    }
    if let Some(annotations) = out.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        let ours = |key: &str| [keys::APPLIED, keys::ORIGINAL_RESOURCES].contains(&key);
        let kept: Map<String, Value> =
            std::mem::take(annotations).into_iter().filter(|(key, _)| !ours(key)).collect();
        *annotations = kept;
    }
    out
}

/// What a pod that exists requested before it was lowered: what its record says where that can be believed, else what
/// it requests now.
pub(crate) struct Originals<'p> {
    pod: &'p PodView<'p>,
    record: Record,
}

impl<'p> Originals<'p> {
    /// Those of a pod.
    pub(crate) fn of(pod: &'p PodView<'p>) -> Self {
        Self { pod, record: Record::read(pod.annotation(keys::ORIGINAL_RESOURCES)) }
    }

    /// What a container requests, and did; `None` if it requests nothing.
    pub(crate) fn of_container(&self, container: &Container<'_>, resource: Resource) -> Option<Requested> {
        Requested::read(container, &self.record, resource)
    }

    /// What the pod itself requested; `None` if it requests nothing, or was not lowered.
    pub(crate) fn of_pod(&self, resource: Resource) -> Option<Amount> {
        let read = |list| Amount::read(list, resource.name()).and_then(Result::ok);
        let request = read(self.pod.pod_level.requests)?;
        let limit = read(self.pod.pod_level.limits);
        self.record.original(&Target::Pod, resource, &request, limit.as_ref())
    }
}

/// Where requests are to be replaced, and by what.
fn replacements(pod: &Value) -> Vec<(String, Resource, String)> {
    let pruned = Pruned::of(pod);
    let Ok(view) = PodView::read(&pruned) else { return Vec::new() };
    let originals = Originals::of(&view);
    let mut found = Vec::new();
    for resource in Resource::ALL {
        for container in &view.containers {
            let Some(requested) = originals.of_container(container, resource) else { continue };
            if requested.original.nanos != requested.request.nanos {
                let pointer = match Target::of(container) {
                    Target::Container { index, .. } => format!("/spec/containers/{index}/resources/requests"),
                    Target::InitContainer { index, .. } => {
                        format!("/spec/initContainers/{index}/resources/requests")
                    }
                    Target::Pod => continue,
                };
                found.push((pointer, resource, requested.original.text));
            }
        }
        if let Some(original) = originals.of_pod(resource) {
            found.push(("/spec/resources/requests".to_owned(), resource, original.text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn originals_come_back_where_they_can_be_believed() {
        let pod = |annotations: Value, containers: Value, pod_level: Value| {
            json!({
                "metadata": {"name": "p", "annotations": annotations},
                "spec": {"containers": containers, "initContainers": [], "resources": pod_level},
            })
        };
        let app =
            |cpu: &str| json!([{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]);
        let record = |set: &str| {
            json!({
                "plimsoll.dev/applied": "cpu: 2->500m", "other": "kept",
                "plimsoll.dev/original-resources":
                    json!({"containers": {"app": {"requests": {"cpu": "2"}, "set": {"cpu": set}}}}).to_string(),
            })
        };
        let of_pod = json!({
            "plimsoll.dev/original-resources":
                json!({"pod": {"requests": {"cpu": "3"}, "set": {"cpu": "1"}}}).to_string(),
        });
        let level = json!({"requests": {"cpu": "1"}});
        for (rule, given, expected) in [
            (
                "lowered",
                pod(record("500m"), app("500m"), json!({})),
                pod(json!({"other": "kept"}), app("2"), json!({})),
            ),
            (
                "changed after us",
                pod(record("400m"), app("500m"), json!({})),
                pod(json!({"other": "kept"}), app("500m"), json!({})),
            ),
            (
                "at the level of the pod",
                pod(of_pod, app("500m"), level),
                pod(json!({}), app("500m"), json!({"requests": {"cpu": "3"}})),
            ),
            ("no pod", json!({"metadata": {"annotations": 1}}), json!({"metadata": {"annotations": 1}})),
        ] {
            assert_eq!(restored(&given), expected, "{rule}");
            assert_eq!(restored(&expected), expected, "{rule}: and nothing else");
        }
    }
}
