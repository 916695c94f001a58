//! What the keeper asks the API server.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use plimsoll_core::hpa::Hpa;
use plimsoll_core::keys;
use serde_json::{Value, json};

use crate::cluster::{Call, WriteError, send};

/// Who we are to the API server in the fields that we write.
pub(super) const MANAGER: &str = "plimsoll-hpa";

/// How long one call may take: longer than the webhooks in it may.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// The same for what an autoscaler scales: the others wait meanwhile.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

const GROUP: &str = "autoscaling";
const KIND: &str = "HorizontalPodAutoscaler";
const PLURAL: &str = "horizontalpodautoscalers";

/// How the API server has a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// In this version.
    pub(super) api_version: String,
    /// Under this name.
    pub(super) plural: String,
}

/// Calls about autoscalers and what they scale.
#[derive(Clone)]
pub(super) struct Calls {
    client: Client,
}

impl Calls {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sets the keeper's annotation of exactly this autoscaler, or takes it off. The autoscaler as it is then.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub(super) async fn patch(&self, hpa: &Hpa, sync: Option<&str>) -> Result<Hpa, WriteError> {
        let mut metadata = json!({ "annotations": { keys::HPA_SYNC: sync } });
        // An object with another uid refuses to get this one.
        if let Some(metadata) = metadata.as_object_mut()
            && !hpa.uid.is_empty()
        {
            metadata.insert("uid".to_owned(), hpa.uid.as_str().into());
        }
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let body = Patch::Merge(json!({ "metadata": metadata }));
        let request = Request::new(collection(&hpa.namespace)).patch(&hpa.name, &parameters, &body);
        self.autoscaler("patch", &hpa.namespace, &hpa.name, request).await
    }

    /// An autoscaler as it is, not from a cache.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Hpa, WriteError> {
        let request = Request::new(collection(namespace)).get(name, &GetParams::default());
        self.autoscaler("get", namespace, name, request).await
    }

    async fn autoscaler(
        &self,
        verb: &'static str,
        namespace: &str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Hpa, WriteError> {
        let object = format!("{namespace}/{name}");
        let call = Call { verb, kind: KIND, resource: PLURAL, group: GROUP, object: &object, bytes: 0 };
        let text = send(&self.client, call, request, CALL_TIMEOUT).await?;
        let answer: Value = serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))?;
        Hpa::read(&answer).map_err(|error| call.unavailable(format!("the answer is no autoscaler: {error}")))
    }

    /// In which version the API server has a kind, and how it calls the objects; `None` if it does not know the kind. The
    /// controller of autoscalers goes by group and kind too: the version in an autoscaler may be one that is gone.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub(super) async fn served(&self, api_version: &str, kind: &str) -> Result<Option<Served>, WriteError> {
        if let Some(plural) = self.plural(api_version, kind).await? {
            return Ok(Some(Served { api_version: api_version.to_owned(), plural }));
        }
        let Some((group, _)) = api_version.split_once('/') else { return Ok(None) };
        let Some(about) = self.discover(&format!("/apis/{group}")).await? else { return Ok(None) };
        let preferred = about.pointer("/preferredVersion/groupVersion").and_then(Value::as_str);
        let Some(preferred) = preferred.filter(|preferred| *preferred != api_version) else {
            return Ok(None);
        };
        let plural = self.plural(preferred, kind).await?;
        Ok(plural.map(|plural| Served { api_version: preferred.to_owned(), plural }))
    }

    async fn plural(&self, api_version: &str, kind: &str) -> Result<Option<String>, WriteError> {
        let Some(answer) = self.discover(&root(api_version)).await? else { return Ok(None) };
        let resources = answer.get("resources").and_then(Value::as_array).into_iter().flatten();
        let text = |resource: &Value, key: &str| {
            resource.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let found = resources.filter(|resource| text(resource, "kind") == kind);
        Ok(found.map(|resource| text(resource, "name")).find(|name| !name.is_empty() && !name.contains('/')))
    }

    async fn discover(&self, path: &str) -> Result<Option<Value>, WriteError> {
        let call =
            Call { verb: "get", kind: "APIResourceList", resource: "", group: "", object: path, bytes: 0 };
        let request = Request::new(path).list(&kube::core::params::ListParams::default());
        let text = match send(&self.client, call, request, LOOK_TIMEOUT).await {
            Ok(text) => text,
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let answer = serde_json::from_str(&text);
        answer.map(Some).map_err(|error| call.unavailable(format!("the answer is no JSON: {error}")))
    }

    /// The selector that the scale of an object tells; `None` if there is no such object, or it tells none.
    ///
    /// # Errors
    /// See [`WriteError::next`].
    pub(super) async fn scale_selector(
        &self,
        namespace: &str,
        served: &Served,
        name: &str,
    ) -> Result<Option<String>, WriteError> {
        let object = format!("{namespace}/{name}");
        let call =
            Call { verb: "get", kind: "Scale", resource: "*/scale", group: "*", object: &object, bytes: 0 };
        let path = format!("{}/namespaces/{namespace}/{}", root(&served.api_version), served.plural);
        let request = Request::new(path).get_subresource("scale", name);
        match send(&self.client, call, request, LOOK_TIMEOUT).await {
            Ok(text) => {
                let answer: Value = serde_json::from_str(&text)
                    .map_err(|error| call.unavailable(format!("the answer is no scale: {error}")))?;
                Ok(answer.pointer("/status/selector").and_then(Value::as_str).map(str::to_owned))
            }
            Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn collection(namespace: &str) -> String {
    format!("/apis/{GROUP}/v2/namespaces/{namespace}/{PLURAL}")
}

fn root(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}
