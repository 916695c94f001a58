//! The pod in a manifest: the manifest itself, or the pod that its template makes.

use serde_json::{Map, Value, json};

use crate::kinds;

/// Where the pod of a manifest stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAt {
    /// The manifest is the pod.
    Root,
    /// A pod template at this JSON pointer.
    Template(&'static str),
}

const TEMPLATES: [&str; 3] = ["/spec/template", "/spec/jobTemplate/spec/template", "/template"];

/// Where the pod of a manifest stands, if it has one. A template is recognised by its containers, so kinds that are
/// not known here have theirs found as well.
pub fn find(manifest: &Value) -> Option<PodAt> {
    let is = |kind: &str| manifest.get("kind").and_then(Value::as_str) == Some(kind);
    if is("Pod") && manifest.get("apiVersion").and_then(Value::as_str) == Some("v1") {
        return Some(PodAt::Root);
    }
    TEMPLATES
        .into_iter()
        .find(|pointer| {
            manifest.pointer(&format!("{pointer}/spec/containers")).is_some_and(Value::is_array)
                && (*pointer != "/template" || is("PodTemplate"))
        })
        .map(PodAt::Template)
}

/// The pod that a controller would create from a manifest: the template's metadata and spec, with the manifest as
/// its controller.
pub fn pod(manifest: &Value, at: PodAt) -> Value {
    let PodAt::Template(pointer) = at else {
        return manifest.clone();
    };
    let template = manifest.pointer(pointer).cloned().unwrap_or_default();
    let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    let controller =
        manifest.pointer("/metadata/ownerReferences").and_then(Value::as_array).and_then(|owners| {
            owners
                .iter()
                .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
                .cloned()
        });
    let owner = controller.unwrap_or_else(|| {
        json!({
            "apiVersion": manifest.get("apiVersion"),
            "kind": manifest.get("kind"),
            "name": manifest.pointer("/metadata/name"),
            "controller": true,
        })
    });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    json!({"metadata": metadata, "spec": template.get("spec")})
}

/// How messages name a manifest, and its namespace: that of the manifest, or else the default.
pub fn title(manifest: &Value, default_namespace: &str) -> (String, String) {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = match text("/metadata/namespace") {
        "" => default_namespace,
        namespace => namespace,
    };
    let name = match text("/metadata/name") {
        "" => format!("{}*", text("/metadata/generateName")),
        name => name.to_owned(),
    };
    let title = match text("/kind") {
        kind if kinds::is_cluster_scoped(kind) => format!("{kind} {name}"),
        kind => format!("{kind} {namespace}/{name}"),
    };
    (title, namespace.to_owned())
}

/// The JSON pointer of the pod within the manifest; empty for the manifest itself.
pub const fn pointer(at: PodAt) -> &'static str {
    match at {
        PodAt::Root => "",
        PodAt::Template(pointer) => pointer,
    }
}

/// The same as a person writes it: `spec.template`.
pub fn path(at: PodAt) -> String {
    pointer(at).trim_start_matches('/').replace('/', ".")
}

/// Where a manifest that should have a pod template has no containers, as in `spec.template.spec`; nothing for kinds
/// that have no template.
pub fn without_containers(manifest: &Value) -> Option<String> {
    let kind = manifest.get("kind").and_then(Value::as_str)?;
    let [usual, of_job, bare] = TEMPLATES;
    let template = match kind {
        "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => usual,
        "CronJob" => of_job,
        "PodTemplate" => bare,
        _ => return None,
    };
    find(manifest).is_none().then(|| path(PodAt::Template(template)) + ".spec")
}

#[cfg(test)]
mod tests {
    use super::{PodAt, find, pod, without_containers};
    use serde_json::json;

    #[test]
    fn manifests() {
        let containers = json!({"containers": []});
        for (rule, manifest, expected) in [
            ("a pod", json!({"apiVersion": "v1", "kind": "Pod"}), Some(PodAt::Root)),
            (
                "a deployment",
                json!({"kind": "Deployment", "spec": {"template": {"spec": containers}}}),
                Some(PodAt::Template("/spec/template")),
            ),
            (
                "a cron job",
                json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": containers}}}}}),
                Some(PodAt::Template("/spec/jobTemplate/spec/template")),
            ),
            (
                "a kind that is not known",
                json!({"kind": "CloneSet", "spec": {"template": {"spec": containers}}}),
                Some(PodAt::Template("/spec/template")),
            ),
            (
                "a pod template",
                json!({"kind": "PodTemplate", "template": {"spec": containers}}),
                Some(PodAt::Template("/template")),
            ),
            ("a service", json!({"kind": "Service", "spec": {"template": "x"}}), None),
            ("not even an object", json!([1]), None),
        ] {
            assert_eq!(find(&manifest), expected, "{rule}");
        }
    }

    #[test]
    fn templates_without_containers() {
        for (rule, manifest, expected) in [
            ("no template", json!({"kind": "Deployment", "spec": {}}), Some("spec.template.spec")),
            (
                "no list",
                json!({"kind": "Job", "spec": {"template": {"spec": {"containers": {}}}}}),
                Some("spec.template.spec"),
            ),
            ("a cron job", json!({"kind": "CronJob"}), Some("spec.jobTemplate.spec.template.spec")),
            ("a pod template", json!({"kind": "PodTemplate"}), Some("template.spec")),
            (
                "with containers",
                json!({"kind": "Job", "spec": {"template": {"spec": {"containers": []}}}}),
                None,
            ),
            ("a kind without template", json!({"kind": "Service"}), None),
        ] {
            assert_eq!(without_containers(&manifest).as_deref(), expected, "{rule}");
        }
    }

    #[test]
    fn the_manifest_is_the_pods_controller() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}});
        assert_eq!(
            pod(&deployment, PodAt::Template("/spec/template")),
            json!({"metadata": {"labels": {"a": "b"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true}]},
                "spec": {"containers": []}})
        );
    }
}
