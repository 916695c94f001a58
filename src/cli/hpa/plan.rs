//! What has to be written to put an autoscaler back.

use plimsoll_core::admission::patch_to_json;
use plimsoll_core::hpa::{Change, Hpa, Metric, MetricTarget, Originals, Verdict, Why, convert, operations};
use plimsoll_core::keys;
use serde::Serialize;
use serde_json::{Value, json};

/// A target that is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Restored {
    pub(super) metric: String,
    /// What stands there.
    pub(super) from: String,
    /// What its author wrote; nothing where that stands beside it and only ours goes.
    pub(super) to: Option<String>,
}

/// What is to be done to one autoscaler.
#[derive(Debug)]
pub(super) enum Plan {
    /// It carries nothing of ours.
    Nothing,
    /// These targets, and our annotations.
    Restore {
        targets: Vec<Restored>,
        /// A JSON patch that applies to this version of the object only.
        patch: Vec<Value>,
    },
    /// What its targets were is not known any more.
    Unreadable(String),
}

/// Whether something of ours is on the autoscaler.
pub(super) fn is_marked(hpa: &Value) -> bool {
    let annotations = hpa.pointer("/metadata/annotations");
    let has = |key: &str| annotations.is_some_and(|annotations| annotations.get(key).is_some());
    has(keys::HPA_ORIGINAL) || has(keys::HPA_SYNC)
}

/// What is to be done to an autoscaler of `autoscaling/v2`.
pub(super) fn plan(object: &Value) -> Plan {
    if !is_marked(object) {
        return Plan::Nothing;
    }
    let hpa = match Hpa::read(object) {
        Ok(hpa) => hpa,
        Err(error) => return Plan::Unreadable(error.to_string()),
    };
    if let Some(Err(error)) = hpa.original.as_deref().map(Originals::read) {
        return Plan::Unreadable(format!(
            "annotation {} cannot be read: {error}; write the utilizations back into spec.metrics, and remove it",
            keys::HPA_ORIGINAL
        ));
    }
    let conversion = convert(&hpa, None, &Verdict::Restore(Why::Asked));
    let targets = conversion.changes.iter().map(|change| restored(change, &hpa.metrics));
    let targets = targets.collect();
    let ours = patch_to_json(&operations(object, &conversion));
    let ours: Vec<Value> = serde_json::from_slice(&ours).unwrap_or_default();
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let mut patch = vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
    patch.extend(ours);
    Plan::Restore { targets, patch }
}

fn restored(change: &Change, metrics: &[Metric]) -> Restored {
    let metric = metrics.get(change.index());
    let from = metric.map(|metric| target_text(&metric.target)).unwrap_or_default();
    let metric = metric.and_then(|metric| metric.key.as_ref()).map(ToString::to_string).unwrap_or_default();
    let to = match change {
        Change::Utilization { percent, .. } => Some(format!("{percent} %")),
        Change::AverageValue { value, .. } => Some(value.clone()),
        Change::Remove { .. } => None,
    };
    Restored { metric, from, to }
}

/// A target, as people say it.
pub(super) fn target_text(target: &MetricTarget) -> String {
    match target {
        MetricTarget::Utilization(percent) => format!("{percent} %"),
        MetricTarget::AverageValue(value) => value.text.clone(),
        MetricTarget::Other => "none that is known here".to_owned(),
    }
}
