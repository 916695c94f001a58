//! What usage is divided by: by the controller, and as it was meant.

use std::fmt;

use thiserror::Error;

use crate::hpa::{MetricKey, Shape};
use crate::keys;
use crate::overcommit::{Amount, Record, Target};
use crate::pod::{Container, Malformed, Members, Part, PodView, Resources, aggregate};
use crate::profile::Basis;
use crate::resource::Resource;

/// A request or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The request.
    Request,
    /// The limit.
    Limit,
}

/// Why a pod has no base for a metric. The controller has no ratio for such a pod either: it reports an error, and so
/// does whoever reads this. To convert the target all the same would hide that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BaseError {
    /// A container that counts has no such figure.
    #[error("container {container} has no {resource} {figure}; set it in the pod template")]
    NoFigure {
        /// The container.
        container: String,
        /// Of which resource.
        resource: Resource,
        /// What is missing.
        figure: Figure,
    },
    /// The metric names a container that the pod does not have.
    #[error("the pod has no container {container}; the metric should name one that is there")]
    NoContainer {
        /// The name.
        container: String,
    },
    /// A figure is no quantity.
    #[error("container {container}: {text:?} is no quantity of {resource}")]
    Unreadable {
        /// The container; `pod` for the pod-level figure.
        container: String,
        /// Of which resource.
        resource: Resource,
        /// What stands there.
        text: String,
    },
    /// Figures beyond all quantities.
    #[error("the {0} figures of the containers are beyond all quantities")]
    TooLarge(Resource),
    /// The pod is not of the form that Kubernetes gives it.
    #[error("the pod cannot be read: {0}")]
    Malformed(#[from] Malformed),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Limit => "limit",
        })
    }
}

impl From<Basis> for Figure {
    fn from(basis: Basis) -> Self {
        match basis {
            Basis::Request => Self::Request,
            Basis::Limit => Self::Limit,
        }
    }
}

/// What the controller divides the usage of such a pod by, in nano-units: the pod-level request if the pod has
/// pod-level requests and the metric is one of the whole pod, else the sum over app containers and sidecars.
///
/// # Errors
/// A container that counts has no request.
pub fn request(shape: &Shape, key: &MetricKey) -> Result<i128, BaseError> {
    let pod = shape.view()?;
    figure(&pod, key, Figure::Request, |_, amount, _| amount.nanos)
}

/// What the usage of such a pod was meant to be divided by, in nano-units: the same of the requests that the pod's
/// author wrote, as far as the pod's record is believed, or of the limits.
///
/// # Errors
/// A container that counts has no such figure.
pub fn base(shape: &Shape, key: &MetricKey, basis: Basis) -> Result<i128, BaseError> {
    let pod = shape.view()?;
    match basis {
        Basis::Limit => figure(&pod, key, Figure::Limit, |_, amount, _| amount.nanos),
        Basis::Request => {
            let record = Record::read(pod.annotation(keys::ORIGINAL_RESOURCES));
            figure(&pod, key, Figure::Request, |target, amount, limit| {
                record
                    .original(target, key.resource, amount, limit)
                    .map_or(amount.nanos, |original| original.nanos)
            })
        }
    }
}

/// Sums a figure as the controller does. `value` makes of each one, and the limit beside it, what is summed.
fn figure(
    pod: &PodView<'_>,
    key: &MetricKey,
    figure: Figure,
    value: impl Fn(&Target, &Amount, Option<&Amount>) -> i128,
) -> Result<i128, BaseError> {
    let resource = key.resource;
    let too_large = || BaseError::TooLarge(resource);
    let of = |container: &Container<'_>| -> Result<Option<i128>, BaseError> {
        let read = read(&container.resources, resource, container.name)?;
        let amount = match figure {
            Figure::Request => read.request,
            Figure::Limit => read.limit.clone(),
        };
        Ok(amount.map(|amount| value(&Target::of(container), &amount, read.limit.as_ref())))
    };
    let missing = |container: &Container<'_>| BaseError::NoFigure {
        container: container.name.to_owned(),
        resource,
        figure,
    };
    let counted = || pod.containers.iter().filter(|container| container.part() != Part::Init);
    if let Some(name) = &key.container {
        let container = counted()
            .find(|container| container.name == name)
            .ok_or_else(|| BaseError::NoContainer { container: name.clone() })?;
        return of(container)?.ok_or_else(|| missing(container));
    }
    let pod_level = read(&pod.pod_level, resource, "pod")?;
    let whole = match figure {
        Figure::Request => pod_level.request,
        Figure::Limit => pod_level.limit.clone(),
    };
    if let Some(amount) = whole {
        let value = value(&Target::Pod, &amount, pod_level.limit.as_ref());
        return if figure == Figure::Request {
            value.checked_add(overhead(pod, resource)).ok_or_else(too_large)
        } else {
            Ok(value)
        };
    }
    if figure == Figure::Request && has_pod_level_requests(pod) {
        // The pod has pod-level requests, but of another resource: the controller takes what the scheduler takes.
        let mut parts = Vec::with_capacity(pod.containers.len());
        for container in &pod.containers {
            parts.push((container.part(), of(container)?.unwrap_or(0)));
        }
        let sum = aggregate(parts).and_then(|sum| sum.checked_add(overhead(pod, resource)));
        return sum.ok_or_else(too_large);
    }
    let mut sum = 0_i128;
    for container in counted() {
        let amount = of(container)?.ok_or_else(|| missing(container))?;
        sum = sum.checked_add(amount).ok_or_else(too_large)?;
    }
    Ok(sum)
}

struct Amounts {
    request: Option<Amount>,
    limit: Option<Amount>,
}

fn read(resources: &Resources<'_>, resource: Resource, container: &str) -> Result<Amounts, BaseError> {
    let amount = |list: Option<&Members<'_>>| {
        Amount::read(list, resource.name()).transpose().map_err(|text| BaseError::Unreadable {
            container: container.to_owned(),
            resource,
            text,
        })
    };
    Ok(Amounts { request: amount(resources.requests)?, limit: amount(resources.limits)? })
}

fn has_pod_level_requests(pod: &PodView<'_>) -> bool {
    pod.pod_level.requests.is_some_and(|requests| {
        requests.iter().any(|(name, value)| {
            !value.is_null() && (name == "cpu" || name == "memory" || name.starts_with("hugepages-"))
        })
    })
}

/// What the pod's sandbox uses; the controller adds it where it takes pod-level requests.
fn overhead(pod: &PodView<'_>, resource: Resource) -> i128 {
    Amount::read(pod.overhead, resource.name()).and_then(Result::ok).map_or(0, |amount| amount.nanos)
}
