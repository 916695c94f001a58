//! Calls of commands that change objects of a cluster, or try to.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::Value;

use crate::cluster::backoff::Backoff;
use crate::cluster::{Call, WriteError, send};

/// Who we are to the API server.
const MANAGER: &str = "plimsoll-cli";
/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How often it is tried anew while the API server does not answer.
const ATTEMPTS: u32 = 4;
const PAGE: u32 = 500;

/// A kind of objects, and where they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection<'a> {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// Empty for objects of the cluster.
    pub(super) namespace: &'a str,
}

impl Collection<'_> {
    fn request(&self) -> Request {
        let Self { group, version, plural, namespace, .. } = self;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        Request::new(if namespace.is_empty() {
            format!("{root}/{plural}")
        } else {
            format!("{root}/namespaces/{namespace}/{plural}")
        })
    }

    fn call<'a>(&self, verb: &'static str, object: &'a str) -> Call<'a> {
        Call { verb, kind: self.kind, resource: self.plural, group: self.group, object, bytes: 0 }
    }

    /// As it is told.
    pub(super) fn object(&self, name: &str) -> String {
        let Self { kind, namespace, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

/// Asks the API server.
pub(super) struct Calls {
    client: Client,
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl Calls {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// An object, if it is there.
    pub(super) async fn get(&self, kind: Collection<'_>, name: &str) -> Result<Option<Value>, WriteError> {
        let build = || kind.request().get(name, &GetParams::default());
        found(self.send(kind.call("get", name), build).await)
    }

    /// All objects with a label, or of the namespace; of those of the cluster only their metadata.
    pub(super) async fn list(
        &self,
        kind: Collection<'_>,
        labels: Option<&str>,
    ) -> Result<Vec<Value>, WriteError> {
        self.pages(kind, labels, !kind.namespace.is_empty()).await
    }

    /// All objects of the cluster, with what they say.
    pub(super) async fn list_whole(&self, kind: Collection<'_>) -> Result<Vec<Value>, WriteError> {
        self.pages(kind, None, true).await
    }

    async fn pages(
        &self,
        kind: Collection<'_>,
        labels: Option<&str>,
        whole: bool,
    ) -> Result<Vec<Value>, WriteError> {
        let mut page =
            ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() }.limit(PAGE);
        let mut all = Vec::new();
        loop {
            let build = || {
                if whole { kind.request().list(&page) } else { kind.request().list_metadata(&page) }
            };
            let mut list = self.send(kind.call("list", ""), build).await?;
            if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
                all.extend(items);
            }
            match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => page.continue_token = Some(next.to_owned()),
                _ => return Ok(all),
            }
        }
    }

    /// Deletes this object, not another one that has its name by now. Whether it was there.
    pub(super) async fn delete(&self, kind: Collection<'_>, object: &Value) -> Result<bool, WriteError> {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
        let name = name_of(object);
        let build = || kind.request().delete(name, &parameters);
        found(self.send(kind.call("delete", name), build).await).map(|gone| gone.is_some())
    }

    /// What an object would become if it were created.
    pub(super) async fn create_dry(&self, kind: Collection<'_>, object: &Value) -> Result<Value, WriteError> {
        let parameters = PostParams { dry_run: true, field_manager: Some(MANAGER.to_owned()) };
        let body = object.to_string().into_bytes();
        let build = || kind.request().create(&parameters, body.clone());
        self.send(kind.call("create", name_of(object)), build).await
    }

    /// Merges into an object, or into a subresource of it. Whether it was there.
    pub(super) async fn merge(
        &self,
        kind: Collection<'_>,
        subresource: Option<&'static str>,
        name: &str,
        patch: &Value,
    ) -> Result<bool, WriteError> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let build = || match subresource {
            Some(subresource) => kind.request().patch_subresource(subresource, name, &parameters, &patch),
            None => kind.request().patch(name, &parameters, &patch),
        };
        let mut call = kind.call("patch", name);
        if subresource == Some("scale") {
            call.resource = "deployments/scale";
        }
        found(self.send(call, build).await).map(|patched| patched.is_some())
    }

    async fn send(&self, call: Call<'_>, build: impl Fn() -> Built) -> Result<Value, WriteError> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        let mut tries = ATTEMPTS;
        loop {
            tries -= 1;
            match send(&self.client, call, build(), LIMIT).await {
                Ok(text) => {
                    let answer = serde_json::from_str(&text);
                    return answer.map_err(|error| call.unavailable(error.to_string()));
                }
                Err(WriteError::Unavailable { .. }) if tries > 0 => tokio::time::sleep(backoff.pause()).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Without what is not there, be it the object or its kind.
fn found(answer: Result<Value, WriteError>) -> Result<Option<Value>, WriteError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Whether it carries the label that all manifests of ours put on their objects.
pub(super) fn is_ours(object: &Value) -> bool {
    let label = object.pointer("/metadata/labels/app.kubernetes.io~1name");
    label.and_then(Value::as_str) == Some("plimsoll")
}
