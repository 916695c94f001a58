//! The Secret in the cluster: read by every replica, written by the one that leads.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use serde_json::Value;

use crate::cluster::{Call, WriteError, send};

/// How long a call may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Who writes.
pub(super) const MANAGER: &str = "plimsoll-certs";

/// Why the Secret was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is none. It is not made here: the right to create Secrets cannot be given for one name only.
    #[error(
        "Secret {name} is not there in namespace {namespace}; the manifests ship it empty: apply them again, or \
         kubectl -n {namespace} create secret generic {name}"
    )]
    Absent {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The call failed.
    #[error(transparent)]
    Call(#[from] WriteError),
}

/// One Secret.
#[derive(Clone)]
pub struct SecretStore {
    client: Client,
    namespace: String,
    name: String,
}

impl std::fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretStore")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SecretStore {
    /// That of a name.
    #[must_use]
    pub fn new(client: Client, namespace: String, name: String) -> Self {
        Self { client, namespace, name }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The newest state there is; never one from a cache.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub async fn read(&self) -> Result<Value, StoreError> {
        let request = self.request().get(&self.name, &GetParams::default());
        self.send("get", request).await
    }

    /// Replaces exactly the state that was read: `secret` carries its version.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] if somebody wrote it since.
    pub async fn replace(&self, secret: &Value) -> Result<(), StoreError> {
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let request = self.request().replace(&self.name, &parameters, secret.to_string().into_bytes());
        self.send("update", request).await.map(|_| ())
    }

    fn request(&self) -> Request {
        Request::new(format!("/api/v1/namespaces/{}/secrets", self.namespace))
    }

    async fn send(
        &self,
        verb: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Value, StoreError> {
        let object = format!("{}/{}", self.namespace, self.name);
        let call = Call { verb, kind: "Secret", resource: "secrets", group: "", object: &object, bytes: 0 };
        match send(&self.client, call, request, CALL_TIMEOUT).await {
            Ok(text) => serde_json::from_str(&text)
                // The text may hold keys, so that nothing of it is said.
                .map_err(|_| call.unavailable("the answer is no object".to_owned()).into()),
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => {
                Err(StoreError::Absent { namespace: self.namespace.clone(), name: self.name.clone() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
