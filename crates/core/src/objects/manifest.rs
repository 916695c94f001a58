//! From a manifest (as the API server or a file has it) to the fact in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde_json::Value;
use thiserror::Error;

use crate::hpa::{Hpa, WorkloadFacts};
use crate::objects::{
    Bounds, ContainerRecommendation, Fact, FactKind, LimitRange, Namespace, Node, Owned, Recommendation,
    Shown, WorkloadKind,
};
use crate::pod::Workload;
use crate::pod::{controller, group_of};
use crate::problem::Problem;
use crate::profile;
use crate::quota::{Flavor, QuotaPod, QuotaPodError, StoredTree, TREE_GROUP, TREE_KIND};
use crate::resource::Resource;

/// Why a manifest of a kind that we know could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// It is not an object with `apiVersion`, `kind` and a name.
    #[error("this is no Kubernetes object: {missing} is missing")]
    NoObject {
        /// What is missing.
        missing: &'static str,
    },
    /// A field has a value that cannot be used.
    #[error("{kind} {name}: {path}: {message}")]
    Field {
        /// The object's kind.
        kind: &'static str,
        /// `namespace/name` or the name.
        name: String,
        /// Where in the object.
        path: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// The fact in a manifest. `None` for kinds that decisions do not read.
///
/// # Errors
/// It is no object, or a field that decisions need has an unusable value. A broken profile is no error:
/// it is a [`Fact::BrokenProfile`]; and a [`Fact::QuotaTree`] has its problems with it.
pub fn read_manifest(manifest: &Value) -> Result<Option<Fact>, ManifestError> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let api_version = text("/apiVersion").ok_or(ManifestError::NoObject { missing: "apiVersion" })?;
    let kind = text("/kind").ok_or(ManifestError::NoObject { missing: "kind" })?;
    let group = group_of(api_version);
    let name = text("/metadata/name").map(str::to_owned);
    let named = || name.clone().ok_or(ManifestError::NoObject { missing: "metadata.name" });
    let namespace = || text("/metadata/namespace").unwrap_or("default").to_owned();
    let is_our_version = api_version == "plimsoll.dev/v1alpha1";
    Ok(Some(match (group, kind) {
        ("plimsoll.dev", "OvercommitProfile") if !is_our_version => Fact::BrokenProfile {
            name: name.unwrap_or_default(),
            problems: vec![Problem::new("apiVersion", "version", wrong_version(api_version))],
        },
        ("plimsoll.dev", "Recommendation") if !is_our_version => {
            return Err(ManifestError::Field {
                kind: "Recommendation",
                name: format!("{}/{}", namespace(), named()?),
                path: "apiVersion".to_owned(),
                message: wrong_version(api_version),
            });
        }
        ("plimsoll.dev", "OvercommitProfile") => match profile::from_manifest(manifest) {
            Ok(profile) => Fact::Profile(Arc::new(profile)),
            Err(problems) => Fact::BrokenProfile { name: name.unwrap_or_default(), problems },
        },
        ("plimsoll.dev", "Recommendation") => {
            Fact::Recommendation(Arc::new(recommendation(manifest, namespace(), named()?)?))
        }
        ("", "Namespace") => Fact::Namespace(Arc::new(Namespace {
            name: named()?,
            labels: strings(manifest.pointer("/metadata/labels")),
            annotations: strings(manifest.pointer("/metadata/annotations")),
        })),
        ("", "LimitRange") => Fact::LimitRange(Arc::new(limit_range(manifest, namespace(), named()?)?)),
        ("apps", "ReplicaSet") | ("batch", "Job") => Fact::Owned(Owned {
            kind: if kind == "Job" { FactKind::Job } else { FactKind::ReplicaSet },
            namespace: namespace(),
            name: named()?,
            controller: manifest
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array)
                .and_then(|references| controller(references)),
        }),
        (TREE_GROUP, TREE_KIND) => {
            let tree = StoredTree { name: named()?, namespace: namespace(), ..StoredTree::read(manifest) };
            Fact::QuotaTree(Arc::new(tree.as_stored()))
        }
        ("kueue.x-k8s.io", "ResourceFlavor") => {
            let name = named()?;
            Fact::Flavor(Arc::new(Flavor::read(&name, manifest).map_err(|(path, message)| {
                ManifestError::Field { kind: "ResourceFlavor", name: name.clone(), path, message }
            })?))
        }
        ("", "Node") => Fact::Node(Arc::new(Node { name: named()?, ..Node::read(manifest) })),
        ("", "Pod") => {
            let mut pod = Cow::Borrowed(manifest);
            if text("/metadata/namespace").is_none()
                && let Some(metadata) = pod.to_mut().get_mut("metadata").and_then(Value::as_object_mut)
            {
                metadata.insert("namespace".to_owned(), Value::String(namespace()));
            }
            let read = QuotaPod::read(&pod);
            Fact::Pod(Arc::new(read.map_err(|error| match error {
                QuotaPodError::Nameless { missing } => ManifestError::NoObject { missing },
                QuotaPodError::Charge { namespace, name, error } => ManifestError::Field {
                    kind: "Pod",
                    name: format!("{namespace}/{name}"),
                    path: "spec".to_owned(),
                    message: error.to_string(),
                },
            })?))
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let mut hpa = Hpa::read(manifest).map_err(|error| ManifestError::Field {
                kind: "HorizontalPodAutoscaler",
                name: format!("{}/{}", namespace(), name.clone().unwrap_or_default()),
                path: error.path().to_owned(),
                message: error.to_string(),
            })?;
            hpa.namespace = namespace();
            Fact::Hpa(Arc::new(hpa))
        }
        (group, kind) if WorkloadKind::of(group, kind).is_some() => {
            let found =
                WorkloadFacts::read(manifest).ok_or(ManifestError::NoObject { missing: "metadata.name" })?;
            Fact::Workload(Arc::new(WorkloadFacts { namespace: namespace(), ..found }))
        }
        _ => return Ok(None),
    }))
}

fn wrong_version(api_version: &str) -> String {
    let found: String = api_version.chars().take(80).collect();
    format!("{found:?} is not a version of it; write plimsoll.dev/v1alpha1")
}

pub(super) fn strings(map: Option<&Value>) -> BTreeMap<String, String> {
    map.and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn limit_range(manifest: &Value, namespace: String, name: String) -> Result<LimitRange, ManifestError> {
    let mut range = LimitRange { namespace, name, ..LimitRange::default() };
    let items = manifest.pointer("/spec/limits").and_then(Value::as_array);
    for (index, item) in items.into_iter().flatten().enumerate() {
        let mut bounds: BTreeMap<Resource, Bounds> = BTreeMap::new();
        for resource in Resource::ALL {
            let read = |key: &str| -> Result<Option<Quantity>, ManifestError> {
                let value = item.get(key).and_then(|list| list.get(resource.name()));
                quantity(value).map_err(|message| ManifestError::Field {
                    kind: "LimitRange",
                    name: format!("{}/{}", range.namespace, range.name),
                    path: format!("spec.limits[{index}].{key}.{resource}"),
                    message,
                })
            };
            let found = Bounds { min: read("min")?, max_ratio: read("maxLimitRequestRatio")? };
            if found != Bounds::default() {
                bounds.insert(resource, found);
            }
        }
        let into = match item.get("type").and_then(Value::as_str) {
            Some("Container") => &mut range.container,
            Some("Pod") => &mut range.pod,
            _ => continue,
        };
        for (resource, found) in bounds {
            let present: &mut Bounds = into.entry(resource).or_default();
            // Every item of every range must hold: the highest minimum and the lowest ratio.
            present.min = present.min.take().max(found.min);
            present.max_ratio = match (present.max_ratio.take(), found.max_ratio) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    Ok(range)
}

fn recommendation(
    manifest: &Value,
    namespace: String,
    name: String,
) -> Result<Recommendation, ManifestError> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let error = |path: String, message: String| ManifestError::Field {
        kind: "Recommendation",
        name: format!("{namespace}/{name}"),
        path,
        message,
    };
    let target = manifest
        .pointer("/spec/targetRef")
        .and_then(Workload::from_reference)
        .ok_or_else(|| error("spec.targetRef".to_owned(), "kind and name are needed".to_owned()))?;
    let mut containers = BTreeMap::new();
    let list = manifest.pointer("/status/containers").and_then(Value::as_array);
    for (index, item) in list.into_iter().flatten().enumerate() {
        let path = |field: &str| format!("status.containers[{index}].{field}");
        let Some(container) = item.get("name").and_then(Value::as_str) else {
            return Err(error(path("name"), "missing".to_owned()));
        };
        let mut found = ContainerRecommendation::default();
        for resource in [Resource::Cpu, Resource::Memory] {
            let value = item.get(resource.name()).and_then(|figures| figures.get("target"));
            let target = quantity(value)
                .map_err(|message| error(path(&format!("{resource}.target")), message))?
                .filter(|target| !target.is_negative());
            found.targets.extend(target.map(|target| (resource, target)));
        }
        let time = |field: &str| match item.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_str().and_then(|t| t.parse::<Timestamp>().ok()).map(Some).ok_or_else(|| {
                    error(path(field), format!("{value} is not a time such as 2026-03-01T10:00:00Z"))
                })
            }
        };
        found.first_sample = time("firstSample")?;
        found.last_sample = time("lastSample")?;
        containers.insert(container.to_owned(), found);
    }
    Ok(Recommendation {
        profile: text("/spec/profile").unwrap_or_default(),
        pod_name: text("/spec/podName").filter(|pod| !pod.is_empty()),
        target,
        containers,
        shown: shown(manifest),
        namespace,
        name,
    })
}

fn shown(manifest: &Value) -> Shown {
    let mut shown = Shown::default();
    let parts = [
        ("/spec/targetRef", &mut shown.target),
        ("/status/containers", &mut shown.containers),
        ("/status/conditions", &mut shown.conditions),
    ];
    for (pointer, text) in parts {
        if let Some(part) = manifest.pointer(pointer).filter(|part| part.is_array() || part.is_object()) {
            *text = part.to_string().into();
        }
    }
    shown
}

fn quantity(value: Option<&Value>) -> Result<Option<Quantity>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value.clone()).map(Some).map_err(|error| error.to_string()),
    }
}
