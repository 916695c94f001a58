//! One row of a table: a pod, what is known beside it, and the requests that are expected.

use serde_json::{Value, json};

use crate::support::{after, app, merged, objects, profile, vector_spec};

pub(crate) struct Row {
    pub(crate) rule: &'static str,
    pub(crate) spec: Value,
    pub(crate) others: Vec<Value>,
    pub(crate) pod: Value,
    /// JSON pointer below `/spec` and the expected text there.
    pub(crate) expected: Vec<(&'static str, Value)>,
}

pub(crate) fn row(rule: &'static str, pod: Value, expected: &[(&'static str, Value)]) -> Row {
    Row { rule, spec: vector_spec(), others: vec![], pod, expected: expected.to_vec() }
}

impl Row {
    pub(crate) fn spec(mut self, over: &Value) -> Self {
        self.spec = merged(&self.spec, over);
        self
    }

    pub(crate) fn with(mut self, other: Value) -> Self {
        self.others.push(other);
        self
    }

    pub(crate) fn check(self) {
        let mut manifests = vec![profile(&self.spec)];
        manifests.extend(self.others);
        let (patched, _) = after(self.rule, &self.pod, &objects(&manifests));
        for (pointer, expected) in self.expected {
            let found = patched["spec"].pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, &expected, "{}: {pointer} in {patched:#}", self.rule);
        }
    }
}
pub(crate) const CPU: &str = "/containers/0/resources/requests/cpu";
pub(crate) const MEMORY: &str = "/containers/0/resources/requests/memory";
pub(crate) const CPU_1: &str = "/containers/1/resources/requests/cpu";
pub(crate) const INIT_CPU: &str = "/initContainers/0/resources/requests/cpu";
pub(crate) const POD_CPU: &str = "/resources/requests/cpu";
pub(crate) const POD_MEMORY: &str = "/resources/requests/memory";

pub(crate) fn cpu(request: &str) -> Value {
    app(&json!({"cpu": request}), &Value::Null)
}

pub(crate) fn memory(request: &str) -> Value {
    app(&json!({"memory": request}), &Value::Null)
}
