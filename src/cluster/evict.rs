//! Evictions, by the API that respects `PodDisruptionBudget`s.

use std::time::Duration;

use kube::Client;
use serde_json::json;

use super::{Call, WriteError, send};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What became of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is being deleted; for a dry run: it could be.
    Yes,
    /// There is no such pod any more, or another one of its name.
    Gone,
    /// A `PodDisruptionBudget`, or a webhook, does not allow it now.
    Refused {
        /// As the API server says it.
        message: String,
        /// Whether we have no right to evict; for a dry run then nothing is known of budgets.
        may_not: bool,
    },
    /// Nobody knows whether it could be evicted.
    Failed(WriteError),
}

/// Whether an eviction is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionMode {
    /// Nothing changes.
    DryRun,
    /// The pod goes.
    Real,
}

/// Evicts pods.
#[derive(Clone)]
pub struct Evictor {
    client: Client,
    manager: &'static str,
}

impl std::fmt::Debug for Evictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evictor").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl Evictor {
    /// Nothing is called yet. `manager` is who evicts, for the API server's records.
    pub const fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Evicts exactly the pod with this uid.
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str, mode: EvictionMode) -> Evicted {
        let object = format!("{namespace}/{name}");
        let call = Call {
            verb: "create",
            kind: "Eviction",
            resource: "pods/eviction",
            group: "",
            object: &object,
            bytes: 0,
        };
        let mut options = json!({ "preconditions": { "uid": uid } });
        let mut path =
            format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction?fieldManager={}", self.manager);
        if let (EvictionMode::DryRun, Some(options)) = (mode, options.as_object_mut()) {
            options.insert("dryRun".to_owned(), json!(["All"]));
            path.push_str("&dryRun=All");
        }
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": name },
            "deleteOptions": options,
        });
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(kube::core::request::Error::BuildRequest);
        match send(&self.client, call, request, CALL_TIMEOUT).await {
            Ok(_) => Evicted::Yes,
            Err(
                WriteError::NotFound { .. } | WriteError::Conflict { .. } | WriteError::AlreadyExists { .. },
            ) => Evicted::Gone,
            Err(WriteError::Unavailable { message, .. }) if is_budget(&message) => {
                Evicted::Refused { message, may_not: false }
            }
            // Another webhook, or the API server, says no to this pod; perhaps not to the next one.
            Err(
                error @ (WriteError::Forbidden { .. }
                | WriteError::Refused { .. }
                | WriteError::NamespaceEnds { .. }),
            ) => {
                // Whoever asked tells of it: of a missing right in its status, of the rest in events and metrics.
                tracing::debug!(%error, "an eviction was refused");
                // Webhooks refuse with the same status; these are the words of every authorizer.
                let may_not = matches!(&error, WriteError::Forbidden { message, .. } if message.contains("cannot create resource"));
                Evicted::Refused { message: error.to_string(), may_not }
            }
            Err(error) => Evicted::Failed(error),
        }
    }
}

/// Whether a refusal is that of a `PodDisruptionBudget`, or of there being two; an API server that has too much to do
/// answers with the same status.
fn is_budget(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("disruption budget") || message.contains("poddisruptionbudget")
}
