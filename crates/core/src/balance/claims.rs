//! Where the volumes of claims can be used.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::pod::{Json, Pruned};

/// What is known of claims, by namespace and name.
pub type Claims = HashMap<(Arc<str>, Box<str>), Claim>;

/// Where a claim's volume can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// Everywhere.
    Everywhere,
    /// On the nodes that these `nodeSelectorTerms` allow.
    On(Pruned<'static>),
    /// On the node where it is.
    Here,
    /// Nobody knows, and why.
    Unknown(String),
}

/// Labels of volumes that say to which zone or region they belong; several are joined by `__`.
const TOPOLOGY: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

impl Claim {
    /// Where a `PersistentVolume` can be used.
    pub fn of_volume(volume: &Value) -> Self {
        let is_there = |pointer: &str| volume.pointer(pointer).is_some_and(|value| !value.is_null());
        if is_there("/spec/local") || is_there("/spec/hostPath") {
            return Self::Here;
        }
        let zones: Vec<Value> = TOPOLOGY
            .iter()
            .filter_map(|key| {
                let labels = volume.pointer("/metadata/labels")?;
                let values: Vec<&str> = labels.get(key)?.as_str()?.split("__").collect();
                Some(json!({"key": key, "operator": "In", "values": values}))
            })
            .collect();
        let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms").and_then(Value::as_array);
        let mut terms = match terms {
            None if zones.is_empty() => return Self::Everywhere,
            None => vec![json!({})],
            Some(terms) => terms.clone(),
        };
        for term in terms.iter_mut().filter_map(Value::as_object_mut) {
            let expressions = term.entry("matchExpressions").or_insert_with(|| json!([]));
            if let Some(expressions) = expressions.as_array_mut() {
                expressions.extend(zones.iter().cloned());
            }
        }
        Self::On(Pruned(Json::from(json!({"nodeSelectorTerms": terms}))))
    }
}
