//! Controllers are told to try again: after some refusals they wait for minutes.

use kube::Client;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use plimsoll_core::keys;
use plimsoll_core::pod::Owner;
use serde_json::json;

use super::{CALL_TIMEOUT, MANAGER};
use crate::cluster::{Call, WriteError, send};

/// What can be told to try again: group, kind and resource.
pub(crate) const KINDS: [(&str, &str, &str); 5] = [
    ("", "ReplicationController", "replicationcontrollers"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "ReplicaSet", "replicasets"),
    ("apps", "StatefulSet", "statefulsets"),
    ("batch", "Job", "jobs"),
];

/// What became of telling an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRetry {
    /// It tries again.
    Told,
    /// It is not there any more.
    Gone,
    /// It is of a kind that cannot be told; it tries again at its own pace.
    Unpatchable,
}

fn resource(owner: &Owner) -> Option<(&'static str, &'static str, &'static str)> {
    let of = |(group, kind, _): &&(&str, &str, &str)| {
        owner.workload.group == *group && owner.workload.kind == *kind
    };
    KINDS.iter().find(of).copied()
}

/// Whether an owner is of a kind that can be told.
pub fn can_be_told(owner: &Owner) -> bool {
    resource(owner).is_some()
}

/// Tells owners to try again.
#[derive(Clone)]
pub struct Retrier {
    client: Client,
}

impl std::fmt::Debug for Retrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retrier").finish_non_exhaustive()
    }
}

impl Retrier {
    /// Nothing is called yet.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sets the annotation of exactly the owner with its uid. `value` must be another one each time.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub async fn tell(&self, namespace: &str, owner: &Owner, value: &str) -> Result<OwnerRetry, WriteError> {
        let Some((group, kind, plural)) = resource(owner) else { return Ok(OwnerRetry::Unpatchable) };
        let root =
            if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", owner.api_version) };
        let name = &owner.workload.name;
        let object = format!("{namespace}/{name}");
        let call = Call { verb: "patch", kind, resource: plural, group, object: &object, bytes: 0 };
        // An object with another uid refuses to get this one.
        let body = json!({ "metadata": { "uid": owner.uid, "annotations": { keys::QUOTA_RETRY: value } } });
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(format!("{root}/namespaces/{namespace}/{plural}")).patch(
            name,
            &parameters,
            &Patch::Merge(body),
        );
        match send(&self.client, call, request, CALL_TIMEOUT).await {
            Ok(_) => Ok(OwnerRetry::Told),
            Err(
                WriteError::NotFound { .. }
                | WriteError::Conflict { .. }
                | WriteError::Refused { code: 422, .. },
            ) => Ok(OwnerRetry::Gone),
            Err(error) => Err(error),
        }
    }
}
