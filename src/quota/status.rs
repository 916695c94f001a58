//! The status of the tree, for people and tools.

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use plimsoll_core::nesting;
use plimsoll_core::quota::{TREE_NAMESPACE, Tree};
use serde_json::{Value, json};

use super::{CALL_TIMEOUT, MANAGER};
use crate::cluster::{Call, WriteError, send};

const GROUP: &str = "scheduling.sigs.k8s.io";
const PLURAL: &str = "elasticquotatrees";

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there.
    Yes,
    /// The tree is not there any more, or another one of its name.
    Gone,
    /// The installed CRD has no status subresource: there is nowhere to write it.
    NoSubresource,
}

/// Writes the status of trees.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
}

impl std::fmt::Debug for StatusWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusWriter").finish_non_exhaustive()
    }
}

impl StatusWriter {
    /// Nothing is called yet.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Puts `status` in the place of the whole status of exactly this tree.
    ///
    /// # Errors
    /// See [`WriteError::next`]. [`WriteError::Refused`] if the installed CRD does not take such a status.
    pub async fn write(&self, tree: &Tree, status: &Value) -> Result<Written, WriteError> {
        let request = Request::new(format!("/apis/{GROUP}/v1beta1/namespaces/{TREE_NAMESPACE}/{PLURAL}"));
        let object = format!("{TREE_NAMESPACE}/{}", tree.name);
        let mut call = Call {
            verb: "patch",
            kind: "ElasticQuotaTree",
            resource: "elasticquotatrees/status",
            group: GROUP,
            object: &object,
            bytes: 0,
        };
        // A merge would keep resources that are counted no more.
        let patch: json_patch::Patch = serde_json::from_value(json!([
            { "op": "test", "path": "/metadata/uid", "value": tree.uid },
            { "op": "add", "path": "/status", "value": status },
        ]))
        .map_err(|error| call.unavailable(format!("no patch could be made: {error}")))?;
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = request.patch_subresource("status", &tree.name, &parameters, &Patch::<()>::Json(patch));
        let refused = match send(&self.client, call, patch, CALL_TIMEOUT).await {
            Ok(_) => return Ok(Written::Yes),
            // Either the test failed, or what would come of it is not taken. The answer does not tell which.
            Err(WriteError::Refused { what, message, code: code @ 422 }) => {
                let right = "the status of the installed CRD elasticquotatrees.scheduling.sigs.k8s.io has another schema than \
                             that of `plimsoll manifests crds`, which takes it";
                Some(WriteError::Refused { what, message: format!("{message}; {right}"), code })
            }
            // The API server says the same of a tree and of a subresource that are not there.
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => None,
            Err(error) => return Err(error),
        };
        (call.verb, call.resource) = ("get", PLURAL);
        match send(&self.client, call, request.get(&tree.name, &GetParams::default()), CALL_TIMEOUT).await {
            Ok(text) => match refused {
                None => Ok(Written::NoSubresource),
                Some(_) if uid(&text).as_deref() != Some(&*tree.uid) => Ok(Written::Gone),
                Some(error) => Err(error),
            },
            Err(WriteError::NotFound { .. }) => Ok(Written::Gone),
            Err(error) => Err(error),
        }
    }
}

/// Which of all trees of its name, over time, this is.
fn uid(text: &str) -> Option<String> {
    let object: Value = nesting::from_str(text, nesting::Deeper::Cut).ok()?;
    object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned)
}
