//! Single objects, read from the API server while somebody waits for a page.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use serde_json::Value;

use crate::cluster::{Call, WriteError, send};

/// How long a page waits for one object.
const LIMIT: Duration = Duration::from_secs(2);

/// How the API server is reached.
#[derive(Clone)]
pub struct Cluster(Client);

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cluster")
    }
}

impl Cluster {
    /// Reached by this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// A `UsageCheckpoint`; `None` if there is none.
    pub(super) async fn checkpoint(&self, namespace: &str, name: &str) -> Result<Option<Value>, WriteError> {
        let object = format!("{namespace}/{name}");
        let call = Call {
            verb: "get",
            kind: "UsageCheckpoint",
            resource: "usagecheckpoints",
            group: "plimsoll.dev",
            object: &object,
            bytes: 0,
        };
        let path = format!("/apis/plimsoll.dev/v1alpha1/namespaces/{namespace}/usagecheckpoints");
        let request = Request::new(path).get(name, &GetParams::default());
        match send(&self.0, call, request, LIMIT).await {
            Ok(text) => read(&text, &call).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A pod; `None` if it is gone. As a list of one: the right to list pods is there anyway.
    pub(super) async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Value>, WriteError> {
        let object = format!("{namespace}/{name}");
        let call = Call { verb: "list", kind: "Pod", resource: "pods", group: "", object: &object, bytes: 0 };
        let parameters = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods")).list(&parameters);
        let text = send(&self.0, call, request, LIMIT).await?;
        let mut list = read(&text, &call)?;
        let items =
            list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let is_it = |pod: &Value| pod.pointer("/metadata/name").and_then(Value::as_str) == Some(name);
        Ok(items.into_iter().find(is_it))
    }
}

fn read(text: &str, call: &Call<'_>) -> Result<Value, WriteError> {
    serde_json::from_str(text).map_err(|error| call.unavailable(format!("the answer is no object: {error}")))
}
