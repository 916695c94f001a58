//! Whose pod it is.

use serde_json::Value;

use crate::keys;
use crate::objects::{Objects, OwnerLookup};
use crate::pod::{Json, PodView};

/// The topmost controller of a pod, or the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind, as in `Deployment`.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Workload {
    /// The workload that an owner reference names.
    pub fn from_reference(reference: &Value) -> Option<Self> {
        Self::from_texts(|key| reference.get(key).and_then(Value::as_str))
    }

    fn from_texts<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        Some(Self {
            group: group_of(text("apiVersion").unwrap_or_default()).to_owned(),
            kind: text("kind")?.to_owned(),
            name: text("name")?.to_owned(),
        })
    }
}

/// The group of an `apiVersion` such as `apps/v1`.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The reference with `controller: true`, if there is one.
pub(crate) fn controller(references: &[Value]) -> Option<Workload> {
    references
        .iter()
        .find(|reference| reference.get("controller").and_then(Value::as_bool) == Some(true))
        .and_then(Workload::from_reference)
}

fn controller_of(pod: &PodView<'_>) -> Option<Workload> {
    let mut references = pod.owner_references.iter();
    let reference = references.find(|reference| reference.get("controller") == Some(&Json::Bool(true)))?;
    Workload::from_texts(|key| reference.get(key).and_then(Json::as_str))
}

/// Follows the controller owner reference: ReplicaSet to its Deployment (or Rollout), Job to its
/// CronJob. A ReplicaSet that the snapshot does not hold yet is taken to be a Deployment's, by its name
/// less the pod-template-hash. A pod without controller is its own workload.
pub fn topmost_owner(pod: &PodView<'_>, namespace: &str, objects: &Objects) -> Workload {
    let Some(owner) = controller_of(pod) else {
        return Workload { group: String::new(), kind: "Pod".to_owned(), name: pod.name.to_owned() };
    };
    match (owner.group.as_str(), owner.kind.as_str()) {
        ("apps", "ReplicaSet") | ("batch", "Job") => {}
        _ => return owner,
    }
    match objects.owner_of(&owner.kind, namespace, &owner.name) {
        OwnerLookup::Controller(above) => above.clone(),
        OwnerLookup::Unknown if owner.kind == "ReplicaSet" => {
            let deployment = pod
                .label(keys::POD_TEMPLATE_HASH)
                .and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'))
                .filter(|name| !name.is_empty());
            match deployment {
                Some(name) => Workload {
                    group: "apps".to_owned(),
                    kind: "Deployment".to_owned(),
                    name: name.to_owned(),
                },
                None => owner,
            }
        }
        OwnerLookup::NoController | OwnerLookup::Unknown => owner,
    }
}
