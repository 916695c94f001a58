//! What the recommender knows of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde_json::Value;

use crate::keys;
use crate::overcommit::{Record, Requested};
use crate::pod::{Container, Json, Owner, PodView, Pruned, controller};
use crate::resource::Resource;
use crate::usage::nanos_of;

/// A pod, as far as its usage is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of all pods of that name, over time.
    pub uid: String,
    /// When it was created, in nanoseconds since 1970.
    pub created: i64,
    /// Whether its phase is Running: the usage of others is not taken.
    pub running: bool,
    /// Whether its phase is Succeeded or Failed.
    pub ended: bool,
    /// Its controller.
    pub controller: Option<Owner>,
    /// What it has in common with the other pods of its template.
    pub shape: Arc<PodShape>,
    /// The kills for memory that its status tells of.
    pub kills: Vec<Kill>,
}

/// What all pods of a template have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The pool that the node selector asks for.
    pub selected_pool: Option<String>,
    /// App containers and sidecars, in the order of their lists.
    pub containers: Vec<ContainerShape>,
}

/// A container whose usage is taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerShape {
    /// Its name.
    pub name: String,
    /// What it asks for of CPU.
    pub cpu: Option<RequestShape>,
    /// What it asks for of memory.
    pub memory: Option<RequestShape>,
}

/// What a container asks for of a resource, in nano-units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestShape {
    /// The request in force.
    pub request: i128,
    /// The request that the pod's author wrote.
    pub original: i128,
    /// The limit.
    pub limit: Option<i128>,
}

/// A container that was killed because memory ran out, or was in a pod that was evicted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The container's name.
    pub container: String,
    /// When, in nanoseconds since 1970.
    pub nanos: i64,
}

impl ContainerShape {
    /// What it asks for of a resource.
    pub fn of(&self, resource: Resource) -> Option<&RequestShape> {
        match resource {
            Resource::Cpu => self.cpu.as_ref(),
            Resource::Memory => self.memory.as_ref(),
            Resource::EphemeralStorage => None,
        }
    }
}

impl RequestShape {
    /// The original as a quantity.
    pub fn original(&self, resource: Resource) -> Quantity {
        Quantity::from_nanos(self.original, resource.format())
    }
}

/// Reads a pod. `None` for what has no name, no namespace, or is not of the form that Kubernetes gives pods.
pub fn read_pod(pod: &Value) -> Option<PodFacts> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() || name.is_empty() {
        return None;
    }
    let pruned = Pruned::of(pod);
    let view = PodView::read(&pruned).ok()?;
    let references = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    Some(PodFacts {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: text("/metadata/uid").to_owned(),
        created: time(text("/metadata/creationTimestamp")).unwrap_or_default(),
        running: text("/status/phase") == "Running",
        ended: matches!(text("/status/phase"), "Succeeded" | "Failed"),
        controller: references.and_then(|references| controller(references)),
        shape: Arc::new(shape(&view)),
        kills: kills(pod),
    })
}

fn shape(pod: &PodView<'_>) -> PodShape {
    let record = Record::read(pod.annotation(keys::ORIGINAL_RESOURCES));
    let labels = pod.labels.into_iter().flat_map(crate::pod::Members::iter);
    PodShape {
        labels: labels
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
            .collect(),
        selected_pool: pod
            .node_selector
            .and_then(|selector| selector.get(keys::POOL))
            .and_then(Json::as_str)
            .map(str::to_owned),
        containers: pod
            .containers
            .iter()
            .filter(|container| container.part() != crate::pod::Part::Init && !container.name.is_empty())
            .map(|container| container_shape(container, &record))
            .collect(),
    }
}

fn container_shape(container: &Container<'_>, record: &Record) -> ContainerShape {
    let of = |resource| {
        let requested = Requested::read(container, record, resource)?;
        Some(RequestShape {
            request: requested.request.nanos,
            original: requested.original.nanos,
            limit: requested.limit.map(|limit| limit.nanos),
        })
    };
    ContainerShape { name: container.name.to_owned(), cpu: of(Resource::Cpu), memory: of(Resource::Memory) }
}

/// The kills for memory that a pod's status tells of: containers whose present or last state is `OOMKilled`,
/// and those that an eviction for memory names, or all of them where it names none.
fn kills(pod: &Value) -> Vec<Kill> {
    let mut kills = Vec::new();
    for list in ["containerStatuses", "initContainerStatuses"] {
        let statuses = pod.pointer("/status").and_then(|status| status.get(list)).and_then(Value::as_array);
        for status in statuses.into_iter().flatten() {
            let Some(container) = status.get("name").and_then(Value::as_str) else { continue };
            for state in ["lastState", "state"] {
                let Some(terminated) = status.get(state).and_then(|state| state.get("terminated")) else {
                    continue;
                };
                let text = |key: &str| terminated.get(key).and_then(Value::as_str).unwrap_or_default();
                if text("reason") == "OOMKilled"
                    && let Some(nanos) = time(text("finishedAt"))
                {
                    kills.push(Kill { container: container.to_owned(), nanos });
                }
            }
        }
    }
    kills.extend(eviction(pod));
    kills
}

/// The kubelet writes: `The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi.
/// Container app was using 500Mi, request is 100Mi, has larger consumption of memory. `
fn eviction(pod: &Value) -> Vec<Kill> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let message = text("/status/message");
    if text("/status/reason") != "Evicted" || !message.contains("low on resource: memory") {
        return Vec::new();
    }
    // The kubelet sets no time of the eviction; the condition it adds has one, and containers end with it.
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let disrupted = conditions.into_iter().flatten().find_map(|condition| {
        let is = |key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
        (is("type", "DisruptionTarget") && is("status", "True"))
            .then(|| condition.get("lastTransitionTime").and_then(Value::as_str).and_then(time))?
    });
    let Some(nanos) = disrupted.or_else(|| time(text("/status/startTime"))) else { return Vec::new() };
    let named: Vec<Kill> = message
        .split("Container ")
        .skip(1)
        .filter_map(|part| part.split_once(" was using "))
        .map(|(container, _)| Kill { container: container.to_owned(), nanos })
        .collect();
    if !named.is_empty() {
        return named;
    }
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .map(|container| Kill { container: container.to_owned(), nanos })
        .collect()
}

fn time(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(nanos_of)
}
