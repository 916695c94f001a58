//! Whose pod it is.

use serde_json::Value;

use crate::keys;
use crate::objects::{Objects, OwnerLookup};
use crate::pod::{Json, PodView};

/// What an owner reference says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The object.
    pub workload: Workload,
    /// Its API version, as in `apps/v1`.
    pub api_version: String,
    /// Which of all objects of that name, over time; empty where it is not known.
    pub uid: String,
}

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
pub(crate) fn controller(references: &[Value]) -> Option<Owner> {
    let mut references = references.iter();
    let reference = references.find(|reference| reference.get("controller") == Some(&Value::Bool(true)))?;
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Owner {
        workload: Workload::from_reference(reference)?,
        api_version: text("apiVersion"),
        uid: text("uid"),
    })
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
    match above(&owner, pod.label(keys::POD_TEMPLATE_HASH), namespace, objects) {
        Above::Owner(found) => found.workload.clone(),
        Above::Deployment(name) => deployment(name),
        Above::Nothing => owner,
    }
}

/// The same for a controller whose reference is known whole; what is returned says which object it is.
pub fn topmost_controller(
    owner: &Owner,
    template_hash: Option<&str>,
    namespace: &str,
    objects: &Objects,
) -> Owner {
    match above(&owner.workload, template_hash, namespace, objects) {
        Above::Owner(found) => found.clone(),
        Above::Deployment(name) => {
            Owner { workload: deployment(name), api_version: "apps/v1".to_owned(), uid: String::new() }
        }
        Above::Nothing => owner.clone(),
    }
}

/// What stands above a pod's controller.
enum Above<'a> {
    Owner(&'a Owner),
    /// Probably a Deployment of this name.
    Deployment(&'a str),
    Nothing,
}

fn above<'a>(
    owner: &'a Workload,
    template_hash: Option<&str>,
    namespace: &str,
    objects: &'a Objects,
) -> Above<'a> {
    match (owner.group.as_str(), owner.kind.as_str()) {
        ("apps", "ReplicaSet") | ("batch", "Job") => {}
        _ => return Above::Nothing,
    }
    match objects.owner_of(&owner.kind, namespace, &owner.name) {
        OwnerLookup::Controller(found) => Above::Owner(found),
        OwnerLookup::Unknown if owner.kind == "ReplicaSet" => template_hash
            .and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'))
            .filter(|name| !name.is_empty())
            .map_or(Above::Nothing, Above::Deployment),
        OwnerLookup::NoController | OwnerLookup::Unknown => Above::Nothing,
    }
}

fn deployment(name: &str) -> Workload {
    Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: name.to_owned() }
}
