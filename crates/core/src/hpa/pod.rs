//! A pod as autoscaling sees it.

use std::sync::Arc;

use serde_json::Value;

use crate::hpa::Shape;

/// A pod of the cluster. There may be a hundred thousand of them, and far fewer shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpaPod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Which of all pods of that name, over time.
    pub uid: Arc<str>,
    /// Whether it is neither terminating nor finished: only such pods have a say in what their autoscaler means.
    pub counts: bool,
    /// What it has in common with the other pods of its template.
    pub shape: Arc<Shape>,
}

impl HpaPod {
    /// Reads a pod as the API server has it. `None` for what has no name or no namespace.
    pub fn read(pod: &Value) -> Option<Self> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        if namespace.is_empty() || name.is_empty() {
            return None;
        }
        let is_terminating = pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
        let is_finished = matches!(text("/status/phase"), "Succeeded" | "Failed");
        Some(Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: text("/metadata/uid").into(),
            counts: !is_terminating && !is_finished,
            shape: Arc::new(Shape::of_pod(pod)),
        })
    }
}
