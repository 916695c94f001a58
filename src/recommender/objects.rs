//! `Recommendation`s as they are read and written.

use std::sync::Arc;

use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::collection::{Collection, Part};
use crate::cluster::Limiter;
use crate::cluster::WriteError;
use crate::metrics::Metrics;

/// What an object is owned by, so that it goes when its owner goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// As in `apps/v1`.
    pub api_version: String,
    /// As in `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Owner {
    /// Neither the controller, which the object has none of, nor a reason to hold up its deletion.
    pub(super) fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": false,
            "blockOwnerDeletion": false,
        })
    }
}

/// Which object of a name it is, and which state of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    /// The object's uid.
    pub uid: String,
    /// The version of its state.
    pub resource_version: String,
}

impl Version {
    /// Those of an object; nothing if it has none.
    pub fn of(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Self { uid: text("uid")?.to_owned(), resource_version: text("resourceVersion")?.to_owned() })
    }
}

/// The fields of a status that a new one without them removes.
const STATUS_FIELDS: [&str; 2] = ["containers", "conditions"];

/// The `Recommendation`s of the cluster. Clones share the limiter.
#[derive(Clone, Debug)]
pub struct Recommendations(Collection);

impl Recommendations {
    /// Written within the rate of `limiter`.
    pub fn new(client: Client, limiter: Arc<Limiter>, metrics: Arc<Metrics>) -> Self {
        Self(Collection {
            client,
            limiter,
            metrics,
            kind: "Recommendation",
            plural: "recommendations",
            status: "recommendations/status",
            page_size: 500,
        })
    }

    /// Gives all of them to `each`, page by page, as the API server has them.
    ///
    /// # Errors
    /// A part of them was given then.
    pub async fn list(&self, each: &mut (dyn FnMut(Value) + Send)) -> Result<(), WriteError> {
        self.0.list(each).await
    }

    /// Creates one without a status. `spec` is `{targetRef, profile, podName?}`.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn create(
        &self,
        namespace: &str,
        name: &str,
        owner: Option<&Owner>,
        spec: &Value,
    ) -> Result<Version, WriteError> {
        self.0.create(namespace, name, owner, spec).await
    }

    /// Puts another spec, and another owner, in the place of those it has.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn update(
        &self,
        namespace: &str,
        name: &str,
        owner: Option<&Owner>,
        spec: &Value,
    ) -> Result<Version, WriteError> {
        let owners: Vec<_> = owner.map(Owner::reference).into_iter().collect();
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            // The other fields are always there.
            fields.entry("podName").or_insert(Value::Null);
        }
        let body = json!({ "metadata": { "ownerReferences": owners }, "spec": spec });
        self.0.patch(namespace, name, Part::Object, &body).await
    }

    /// Puts this status in the place of the one it has, whole: what is not in it is gone.
    ///
    /// A merge patch replaces lists as a whole, and every field of the status is a list. Server-side apply would do the
    /// same, but keeps a record of every figure's owner in each object.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn put_status(
        &self,
        namespace: &str,
        name: &str,
        status: &Value,
    ) -> Result<Version, WriteError> {
        let mut status = status.clone();
        if let Some(fields) = status.as_object_mut() {
            for field in STATUS_FIELDS {
                fields.entry(field).or_insert(Value::Null);
            }
        }
        self.0.patch(namespace, name, Part::Status, &json!({ "status": status })).await
    }

    /// Deletes it if it is still the one with this uid. One that is not there is no error.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] when there is another one of that name by now, which stays; else see
    /// [`WriteError::next`].
    pub async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), WriteError> {
        self.0.delete(namespace, name, uid).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_field_of_a_status_is_replaced() {
        let definitions = crate::crd::definitions().unwrap();
        let schema =
            &definitions[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let fields = schema["properties"].as_object().unwrap();
        let known: BTreeSet<_> = fields.keys().map(String::as_str).collect();
        assert_eq!(known, STATUS_FIELDS.into_iter().collect());
        assert!(fields.values().all(|field| field["type"] == "array"), "a merge patch replaces lists only");
    }

    #[test]
    fn versions_of_objects() {
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
        assert_eq!(Version::of(&object).unwrap(), Version { uid: "u".into(), resource_version: "7".into() });
        for object in [
            json!({}),
            json!({"metadata": {"uid": "u"}}),
            json!({"metadata": {"uid": "", "resourceVersion": "7"}}),
        ] {
            assert_eq!(Version::of(&object), None, "{object}");
        }
    }
}
