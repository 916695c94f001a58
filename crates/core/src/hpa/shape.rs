//! What all pods of a template have in common.

use serde_json::{Map, Value, json};

use crate::keys;
use crate::pod::{Json, Keep, Malformed, Members, PodView, Pruned, controller, default_requests};
use crate::profile::Selector;

const RESOURCES: Keep = Keep::Members(&[("requests", Keep::All), ("limits", Keep::All)]);
const CONTAINER: Keep =
    Keep::Members(&[("name", Keep::All), ("resources", RESOURCES), ("restartPolicy", Keep::All)]);
const OWNER: Keep = Keep::Members(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    ("name", Keep::All),
    ("controller", Keep::All),
]);

/// What decides about a pod's profile and its figures.
const SHAPE: Keep = Keep::Members(&[
    (
        "metadata",
        Keep::Members(&[
            ("labels", Keep::All),
            (
                "annotations",
                Keep::Members(&[
                    (keys::OVERCOMMIT, Keep::All),
                    (keys::ORIGINAL_RESOURCES, Keep::All),
                    (keys::MIRROR, Keep::All),
                ]),
            ),
            ("ownerReferences", Keep::Items(&OWNER)),
        ]),
    ),
    (
        "spec",
        Keep::Members(&[
            ("containers", Keep::Items(&CONTAINER)),
            ("initContainers", Keep::Items(&CONTAINER)),
            ("resources", RESOURCES),
            ("nodeSelector", Keep::Members(&[(keys::POOL, Keep::All)])),
            ("overhead", Keep::All),
        ]),
    ),
]);

/// Labels by which controllers tell pods of one template apart.
pub(crate) const OF_ONE_POD: [&str; 5] = [
    "apps.kruise.io/cloneset-instance-id",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
    "job-completion-index",
];

/// A pod without what tells it from the others of its template. Pods of one template have equal shapes, so that they
/// can share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(Pruned<'static>);

impl Shape {
    /// Of a pod as the API server has it. Labels that number the pods of one template are left out: no two of them
    /// would be equal.
    pub fn of_pod(pod: &Value) -> Self {
        let mut kept = Pruned::kept(pod, &SHAPE);
        if let Json::Object(pod) = &mut kept.0
            && let Some(Json::Object(metadata)) = pod.get_mut("metadata")
            && let Some(Json::Object(labels)) = metadata.get_mut("labels")
        {
            for label in OF_ONE_POD {
                labels.remove(label);
            }
        }
        Self(kept)
    }

    /// Of the pods that a workload's template makes, as far as the template tells; nothing if it has none. Containers
    /// that others inject, and defaults of `LimitRange`s, are not in it.
    pub fn of_template(workload: &Value) -> Option<Self> {
        let template = workload.pointer("/spec/template")?;
        template.pointer("/spec/containers")?.as_array()?;
        let mut metadata =
            template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
        let owner = json!({
            "apiVersion": workload.get("apiVersion"),
            "kind": workload.get("kind"),
            "name": workload.pointer("/metadata/name"),
            "controller": true,
        });
        // The controller of a ReplicaSet is what its pods belong to.
        let above = workload.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let has_controller = above.is_some_and(|references| controller(references).is_some());
        let owners = if has_controller { above.cloned().unwrap_or_default() } else { vec![owner] };
        metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
        let mut pod = json!({"metadata": metadata, "spec": template.get("spec")});
        default_requests(&mut pod);
        Some(Self::of_pod(&pod))
    }

    /// The pod, as decisions read it.
    ///
    /// # Errors
    /// A part of it is of another JSON type than Kubernetes gives it.
    pub fn view(&self) -> Result<PodView<'_>, Malformed> {
        PodView::read(&self.0)
    }

    /// Whether a label selector selects the pods.
    pub fn selected_by(&self, selector: &Selector) -> bool {
        let labels: Option<&Members<'_>> =
            self.0.0.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Json::as_object);
        selector.selects(&labels)
    }
}
