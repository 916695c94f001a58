//! `UsageCheckpoint`s as they are read and written: each write says which state it replaces, so that a leader that does
//! not know yet that it is none any more cannot overwrite what the next one wrote.

use std::sync::Arc;

use kube::Client;
use serde_json::{Value, json};

use super::collection::Collection;
use super::{Owner, Version};
use crate::cluster::Limiter;
use crate::cluster::WriteError;
use crate::metrics::Metrics;

/// The `UsageCheckpoint`s of the cluster. Clones share the limiter.
#[derive(Clone, Debug)]
pub struct Checkpoints(Collection);

impl Checkpoints {
    /// Written within the rate of `limiter`.
    pub fn new(client: Client, limiter: Arc<Limiter>, metrics: Arc<Metrics>) -> Self {
        Self(Collection {
            client,
            limiter,
            metrics,
            kind: "UsageCheckpoint",
            plural: "usagecheckpoints",
            status: "",
            // Each may be a megabyte.
            page_size: 50,
        })
    }

    /// Gives all of them to `each`, page by page, as the API server has them.
    ///
    /// # Errors
    /// A part of them was given then: they must be listed anew before anything is made of them.
    pub async fn list(&self, each: &mut (dyn FnMut(Value) + Send)) -> Result<(), WriteError> {
        self.0.list(each).await
    }

    /// One, as the API server has it.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, WriteError> {
        self.0.get(namespace, name).await
    }

    /// Creates one. `spec` is as [`crate::crd::UsageCheckpointSpec`]; what the columns of `kubectl get` need is added.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn create(
        &self,
        namespace: &str,
        name: &str,
        owner: Option<&Owner>,
        spec: Value,
    ) -> Result<Version, WriteError> {
        self.0.create(namespace, name, owner, &with_columns(spec)).await
    }

    /// Puts this one in the place of the one that was read, or written, as `version`.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] when it is no longer that one; else see [`WriteError::next`].
    pub async fn replace(
        &self,
        namespace: &str,
        name: &str,
        version: &Version,
        owner: Option<&Owner>,
        spec: Value,
    ) -> Result<Version, WriteError> {
        self.0.replace(namespace, name, version, owner, &with_columns(spec)).await
    }

    /// Deletes it if it is still the one with this uid. One that is not there is no error.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), WriteError> {
        self.0.delete(namespace, name, uid).await
    }
}

/// The spec with the number of its containers and the time of their newest sample.
fn with_columns(mut spec: Value) -> Value {
    let containers = spec.get("containers").and_then(Value::as_array);
    let count = containers.map_or(0, Vec::len);
    let newest = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("lastSample")?.as_str()?.parse::<jiff::Timestamp>().ok())
        .max();
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("containerCount".to_owned(), json!(count));
        fields.extend(newest.map(|newest| ("lastSample".to_owned(), json!(newest.to_string()))));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_filled_in() {
        let spec = json!({"containers": [
            {"name": "a", "lastSample": "2026-03-01T10:00:00Z"},
            {"name": "b", "lastSample": "2026-03-01T10:00:00.5Z"},
            {"name": "c"},
        ]});
        let filled = with_columns(spec);
        assert_eq!(filled["containerCount"], 3);
        assert_eq!(filled["lastSample"], "2026-03-01T10:00:00.5Z");
        let filled = with_columns(json!({}));
        assert_eq!(filled, json!({"containerCount": 0}));
    }
}
