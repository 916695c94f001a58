//! What the publisher asks the API server.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use plimsoll_core::objects::Node;
use serde_json::{Map, Value, json};

use crate::cluster::{Call, WriteError, send};

/// Who we are to the API server in the fields that we write.
pub(crate) const MANAGER: &str = "plimsoll-placement";

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls about nodes.
pub(super) struct Calls {
    client: Client,
}

impl Calls {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Patches the metadata of exactly this node.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub(super) async fn patch(&self, node: &Node, metadata: &Map<String, Value>) -> Result<(), WriteError> {
        let mut metadata = metadata.clone();
        // An object with another uid refuses to get this one.
        if !node.uid.is_empty() {
            metadata.insert("uid".to_owned(), node.uid.as_str().into());
        }
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let body = Patch::Merge(json!({ "metadata": metadata }));
        let request = Request::new("/api/v1/nodes").patch(&node.name, &parameters, &body);
        let call =
            Call { verb: "patch", kind: "Node", resource: "nodes", group: "", object: &node.name, bytes: 0 };
        send(&self.client, call, request, CALL_TIMEOUT).await.map(drop)
    }
}
