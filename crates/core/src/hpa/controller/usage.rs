//! What `metrics.k8s.io` says about a pod.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plimsoll_quantity::Quantity;
use serde_json::Value;

use super::Sample;
use crate::resource::Resource;

/// A `PodMetrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// The pod's namespace; empty if it does not say.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// When it was measured, if it says so.
    pub sample: Option<Sample>,
    containers: Vec<(String, Value)>,
}

impl PodUsage {
    /// Reads a `PodMetrics`; nothing if it is none. What is malformed in it counts as absent.
    pub fn read(metrics: &Value) -> Option<Self> {
        let text = |pointer: &str| metrics.pointer(pointer).and_then(Value::as_str);
        let list = metrics.get("containers")?.as_array()?;
        let sample = text("/timestamp").and_then(|time| time.parse::<Timestamp>().ok());
        let window = text("/window").and_then(|window| window.parse::<SignedDuration>().ok());
        let window = window.and_then(|window| Duration::try_from(window).ok()).unwrap_or_default();
        Some(Self {
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            pod: text("/metadata/name")?.to_owned(),
            sample: sample.map(|at| Sample { at, window }),
            containers: list
                .iter()
                .map(|container| {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    (name.to_owned(), container.get("usage").cloned().unwrap_or_default())
                })
                .collect(),
        })
    }

    /// What the pod, or that container of it, uses of a resource, in milli-units. Nothing if one of the containers in
    /// question has no such figure: the controller then takes the whole pod to be without metrics.
    pub fn of(&self, resource: Resource, container: Option<&str>) -> Option<i64> {
        let milli = |usage: &Value| {
            let written = usage.get(resource.name())?;
            let quantity: Quantity = serde_json::from_value(written.clone()).ok()?;
            i64::try_from(quantity.milli_value()).ok()
        };
        if let Some(wanted) = container {
            return self
                .containers
                .iter()
                .find(|(name, _)| name == wanted)
                .and_then(|(_, usage)| milli(usage));
        }
        if self.containers.is_empty() {
            return None;
        }
        self.containers.iter().try_fold(0_i64, |sum, (_, usage)| sum.checked_add(milli(usage)?))
    }
}
