//! Learnt weights as they stand in a workload's `UsageCheckpoint`.

use plimsoll_core::placement::{ByResource, NodeResource, Weights, WorkloadKey};
use plimsoll_core::pod::Workload;
use serde_json::{Map, Value, json};

/// The field of the checkpoint's spec.
pub(crate) const FIELD: &str = "weights";

/// Weights as they are stored: texts, so that nobody rounds them.
pub(crate) fn written(weights: &Weights) -> Value {
    let texts =
        weights.iter().map(|(resource, weight)| (resource.name().to_owned(), json!(weight.to_string())));
    Value::Object(texts.collect::<Map<_, _>>())
}

/// Whose weights a checkpoint holds, and which; `None`: it holds none that can be used.
pub(crate) fn read(checkpoint: &Value) -> Option<(WorkloadKey, ByResource<f64>)> {
    let namespace = checkpoint.pointer("/metadata/namespace")?.as_str()?;
    let spec = checkpoint.get("spec")?;
    let workload = Workload::from_reference(spec.get("targetRef")?)?;
    let stored = spec.get(FIELD)?.as_object()?;
    let mut weights = ByResource::default();
    for resource in NodeResource::ALL {
        if let Some(text) = stored.get(resource.name()) {
            weights.set(resource, text.as_str()?.parse().ok()?);
        }
    }
    Some((WorkloadKey { namespace: namespace.into(), workload: workload.into() }, weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(weights: &Value) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "x"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "weights": weights,
            },
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let mut weights = Weights::default();
        for (resource, weight) in NodeResource::ALL.into_iter().zip([0.3, 0.03, 0.65, 1e-9]) {
            weights.set(resource, weight);
        }
        let (key, found) = read(&checkpoint(&written(&weights))).unwrap();
        assert_eq!((key.to_string().as_str(), found), ("shop/Deployment/web", weights));
        assert_eq!(key.workload.group, "apps");
    }

    #[test]
    fn what_is_no_weight_is_none() {
        let mut half = Weights::default();
        half.set(NodeResource::Cpu, 0.5);
        for (rule, weights, expected) in [
            ("absent", Value::Null, None),
            ("a part", json!({"cpu": "0.5"}), Some(half)),
            ("others are passed over", json!({"cpu": "0.5", "gpu": "7"}), Some(half)),
            ("a number", json!({"cpu": 0.5}), None),
            ("no number", json!({"cpu": "much"}), None),
            ("a list", json!([]), None),
        ] {
            assert_eq!(read(&checkpoint(&weights)).map(|(_, weights)| weights), expected, "{rule}");
        }
        assert_eq!(
            read(&json!({"metadata": {"namespace": "a"}, "spec": {"weights": {}}})),
            None,
            "no target"
        );
    }
}
