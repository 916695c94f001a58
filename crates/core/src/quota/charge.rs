//! What a pod counts, as the scheduler counts it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_quantity::Quantity;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::overcommit::Originals;
use crate::pod::{Json, Malformed, Members, PodView, Pruned, aggregate};
use crate::quota::Amounts;
use crate::resource::Resource;

/// The resource of which every pod counts one.
pub const PODS: &str = "pods";

/// Why it cannot be said what a pod counts. The API server refuses such a pod.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChargeError {
    /// A part of it is of another type.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A request is no quantity.
    #[error("{path}.{resource}: {value} is not a quantity; write one such as 500m or 1Gi")]
    NotAQuantity {
        /// The list it stands in.
        path: String,
        /// The resource.
        resource: String,
        /// What stands there.
        value: String,
    },
}

/// What a pod counts when it is created, by resource: the greater of (the sum of its app containers and sidecars) and,
/// for each ordinary init container, (itself and the sidecars before it); replaced by the pod-level request where it
/// has one; and its overhead. One of [`PODS`]. Negative requests count as 0, and so does what is not requested.
///
/// # Errors
/// A request is no quantity.
pub fn charge(pod: &PodView<'_>) -> Result<Amounts, ChargeError> {
    charge_of(pod, &|_, _| None, &|_| None)
}

/// What a pod that exists counts: as [`charge`], but of each container the greatest of what it requests, what its node
/// has allocated to it and what it actually has, so that a resize that is under way counts in both directions.
///
/// # Errors
/// The pod cannot be read, or a request is no quantity.
pub fn counted(pod: &Value) -> Result<Amounts, ChargeError> {
    let pruned = Pruned::of(pod);
    let view = PodView::read(&pruned)?;
    let status = pod.get("status");
    let statuses: Vec<&Value> = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .filter_map(|key| status?.get(key)?.as_array())
        .flatten()
        .collect();
    let of_container = |name: &str, resource: &str| {
        let named = |status: &&&Value| status.get("name").and_then(Value::as_str) == Some(name);
        given(statuses.iter().find(named)?, resource)
    };
    charge_of(&view, &of_container, &|resource| given(status?, resource))
}

/// What a pod that exists would count if its requests had never been lowered: as [`charge`], with the originals that the
/// pod's record says where they can be believed.
///
/// # Errors
/// The pod cannot be read, or a request is no quantity.
pub fn as_written(pod: &Value) -> Result<Amounts, ChargeError> {
    let pruned = Pruned::of(pod);
    let view = PodView::read(&pruned)?;
    let originals = Originals::of(&view);
    let of_container = |name: &str, resource: &str| {
        let container = view.containers.iter().find(|container| container.name == name)?;
        Some(originals.of_container(container, Resource::from_name(resource)?)?.original.nanos)
    };
    let of_pod = |name: &str| Some(originals.of_pod(Resource::from_name(name)?)?.nanos);
    charge_of(&view, &of_container, &of_pod)
}

/// The greater of what is allocated and what is in force, as a container's or a pod's status says it.
fn given(status: &Value, resource: &str) -> Option<i128> {
    let quantity = |list: Option<&Map<String, Value>>| {
        Quantity::parse(list?.get(resource)?.as_str()?).ok().map(|quantity| quantity.nanos())
    };
    let allocated = quantity(status.get("allocatedResources").and_then(Value::as_object));
    let actual = quantity(status.pointer("/resources/requests").and_then(Value::as_object));
    allocated.max(actual)
}

type OfContainer<'f> = &'f dyn Fn(&str, &str) -> Option<i128>;
type OfPod<'f> = &'f dyn Fn(&str) -> Option<i128>;

fn charge_of(
    pod: &PodView<'_>,
    of_container: OfContainer<'_>,
    of_pod: OfPod<'_>,
) -> Result<Amounts, ChargeError> {
    let lists = pod.containers.iter().map(|container| container.resources.requests);
    let names: BTreeSet<&str> = lists
        .chain([pod.pod_level.requests, pod.overhead])
        .flatten()
        .flat_map(|list| list.iter().map(|(name, _)| name))
        .collect();
    let mut charge = Amounts::new();
    for name in names {
        let mut parts = Vec::with_capacity(pod.containers.len());
        for container in &pod.containers {
            let requested = quantity(container.resources.requests, name, || {
                format!("container {:?} resources.requests", container.name)
            })?;
            let value = requested.max(of_container(container.name, name)).unwrap_or(0);
            parts.push((container.part(), value.max(0)));
        }
        let mut sum = aggregate(parts).unwrap_or(i128::MAX);
        let pod_level = quantity(pod.pod_level.requests, name, || "spec.resources.requests".to_owned())?;
        if let Some(value) = pod_level
            && (matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"))
        {
            sum = Some(value).max(of_pod(name)).unwrap_or(0).max(0);
        }
        let overhead = quantity(pod.overhead, name, || "spec.overhead".to_owned())?;
        sum = sum.saturating_add(overhead.unwrap_or(0).max(0));
        if sum > 0 {
            charge.set(name, sum.min(MOST));
        }
    }
    charge.set(Arc::from(PODS), ONE_POD);
    Ok(charge)
}

/// More than any cluster has, and so little that many of them can be added up.
const MOST: i128 = i128::MAX >> 24;
const ONE_POD: i128 = crate::resource::UNIT;

fn quantity(
    list: Option<&Members<'_>>,
    resource: &str,
    path: impl Fn() -> String,
) -> Result<Option<i128>, ChargeError> {
    let value = match list.and_then(|list| list.get(resource)) {
        None | Some(Json::Null) => return Ok(None),
        Some(value) => value,
    };
    let parsed = match value {
        Json::Text(text) => Quantity::parse(text).ok(),
        Json::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    };
    parsed.map(|quantity| Some(quantity.nanos())).ok_or_else(|| ChargeError::NotAQuantity {
        path: path(),
        resource: resource.to_owned(),
        value: value.to_string().chars().take(80).collect(),
    })
}
