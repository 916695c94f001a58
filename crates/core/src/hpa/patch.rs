//! The JSON Patch of an autoscaler: `add` and `remove` only, on targets and on our own annotations.

use serde_json::{Map, Value};

use crate::admission::Operation;
use crate::hpa::convert::{Change, Conversion};
use crate::keys;

const METRICS: &str = "/spec/metrics";

/// The operations that make of an autoscaler of `autoscaling/v2` what a conversion says. The annotation of the keeper
/// is taken off in any case.
pub fn operations(object: &Value, conversion: &Conversion) -> Vec<Operation> {
    let mut operations = Vec::new();
    // From the end of the list, so that no place moves before it is changed.
    for change in &conversion.changes {
        let target = |member: &str| format!("{METRICS}/{}/{member}/target", change.index());
        match change {
            Change::Remove { index } => {
                operations.push(Operation::Remove { path: format!("{METRICS}/{index}") });
            }
            Change::AverageValue { index, member, value } => retarget(
                &mut operations,
                object.pointer(&format!("{METRICS}/{index}/{member}/target")),
                &target(member),
                ("AverageValue", "averageValue", Value::String(value.clone())),
                "averageUtilization",
            ),
            Change::Utilization { index, member, percent } => retarget(
                &mut operations,
                object.pointer(&format!("{METRICS}/{index}/{member}/target")),
                &target(member),
                ("Utilization", "averageUtilization", Value::from(*percent)),
                "averageValue",
            ),
        }
    }
    annotate(&mut operations, object, conversion);
    operations
}

fn retarget(
    operations: &mut Vec<Operation>,
    present: Option<&Value>,
    path: &str,
    (type_name, member, value): (&str, &str, Value),
    other: &str,
) {
    operations.push(Operation::Add { path: format!("{path}/{member}"), value });
    if present.is_some_and(|target| target.get(other).is_some()) {
        operations.push(Operation::Remove { path: format!("{path}/{other}") });
    }
    operations.push(Operation::Add { path: format!("{path}/type"), value: type_name.into() });
}

fn annotate(operations: &mut Vec<Operation>, object: &Value, conversion: &Conversion) {
    let present = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let get = |key: &str| present.and_then(|map| map.get(key));
    let path = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    if let Some(record) = &conversion.record {
        match (record.write(), get(keys::HPA_ORIGINAL)) {
            (Some(text), found) if found.and_then(Value::as_str) != Some(&text) => {
                if present.is_none() {
                    let map = Map::from_iter([(keys::HPA_ORIGINAL.to_owned(), Value::String(text))]);
                    operations
                        .push(Operation::Add { path: "/metadata/annotations".to_owned(), value: map.into() });
                } else {
                    operations.push(Operation::Add { path: path(keys::HPA_ORIGINAL), value: text.into() });
                }
            }
            (None, Some(_)) => operations.push(Operation::Remove { path: path(keys::HPA_ORIGINAL) }),
            _ => {}
        }
    }
    if get(keys::HPA_SYNC).is_some() {
        operations.push(Operation::Remove { path: path(keys::HPA_SYNC) });
    }
}

/// The autoscaler as a conversion makes it. It is made without the operations, which are checked against it.
pub fn apply_to(object: &Value, conversion: &Conversion) -> Value {
    let mut after = object.clone();
    if let Some(metrics) = after.pointer_mut(METRICS).and_then(Value::as_array_mut) {
        for change in &conversion.changes {
            let (member, type_name, key, value) = match change {
                Change::Remove { index } => {
                    if *index < metrics.len() {
                        metrics.remove(*index);
                    }
                    continue;
                }
                Change::AverageValue { member, value, .. } => {
                    (member, "AverageValue", "averageValue", Value::from(value.as_str()))
                }
                Change::Utilization { member, percent, .. } => {
                    (member, "Utilization", "averageUtilization", Value::from(*percent))
                }
            };
            let target = metrics
                .get_mut(change.index())
                .and_then(|metric| metric.get_mut(*member))
                .and_then(|source| source.get_mut("target"))
                .and_then(Value::as_object_mut);
            if let Some(target) = target {
                target.retain(|key, _| key != "averageValue" && key != "averageUtilization");
                target.insert("type".to_owned(), type_name.into());
                target.insert(key.to_owned(), value);
            }
        }
    }
    let record = conversion.record.as_ref().map(super::Originals::write);
    let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) else { return after };
    if let Some(Some(text)) = &record {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if annotations.is_null() {
            *annotations = Value::Object(Map::new());
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(keys::HPA_ORIGINAL.to_owned(), text.as_str().into());
        }
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(keys::HPA_SYNC);
        if record == Some(None) {
            annotations.remove(keys::HPA_ORIGINAL);
        }
    }
    after
}
