//! The calls for one kind of our objects, raw JSON in and out: whole objects as types would cost more than they say.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::MANAGER;
use super::objects::{Owner, Version};
use crate::cluster::{Call, Limiter, Page, WriteError};
use crate::crd::{GROUP, VERSION};
use crate::metrics::{Metrics, WriteResult};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

type HttpRequest = http::Request<Vec<u8>>;

/// The objects of one kind, of all namespaces.
#[derive(Clone)]
pub(super) struct Collection {
    pub(super) client: Client,
    pub(super) limiter: Arc<Limiter>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) kind: &'static str,
    /// As in `recommendations`.
    pub(super) plural: &'static str,
    /// As in `recommendations/status`.
    pub(super) status: &'static str,
    /// How many objects a page of a list holds.
    pub(super) page_size: u32,
}

impl std::fmt::Debug for Collection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What is read of the answer to a write.
#[derive(Deserialize)]
struct Written {
    metadata: Version,
}

impl Collection {
    fn path(&self, namespace: &str) -> String {
        if namespace.is_empty() {
            return format!("/apis/{GROUP}/{VERSION}/{}", self.plural);
        }
        format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{}", self.plural)
    }

    fn call<'a>(&self, verb: &'static str, object: &'a str) -> Call<'a> {
        Call { verb, kind: self.kind, resource: self.plural, group: GROUP, object, bytes: 0 }
    }

    async fn send(
        &self,
        mut call: Call<'_>,
        request: Result<HttpRequest, kube::core::request::Error>,
    ) -> Result<String, WriteError> {
        let request = request.map_err(|error| call.failed(&kube::Error::BuildRequest(error)))?;
        call.bytes = request.body().len();
        timeout(CALL_TIMEOUT, self.client.request_text(request))
            .await
            .map_err(|_| call.slow(CALL_TIMEOUT))?
            .map_err(|error| call.failed(&error))
    }

    /// A call that changes something: it waits for its turn, and is counted.
    async fn write(
        &self,
        call: Call<'_>,
        request: Result<HttpRequest, kube::core::request::Error>,
    ) -> Result<Version, WriteError> {
        self.limiter.turn().await;
        let answer = self.send(call, request).await;
        let result = match &answer {
            Ok(_) => WriteResult::Success,
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => WriteResult::Conflict,
            Err(_) => WriteResult::Failure,
        };
        self.metrics.object_written(self.kind, result);
        let written: Result<Written, _> = serde_json::from_str(&answer?);
        written
            .map(|written| written.metadata)
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))
    }

    /// Gives each object to `each`, page by page. After an error a part of them was given.
    pub(super) async fn list(&self, each: &mut (dyn FnMut(Value) + Send)) -> Result<(), WriteError> {
        let call = self.call("list", "");
        let request = Request::new(self.path(""));
        let mut parameters = ListParams::default().limit(self.page_size);
        loop {
            let text = self.send(call, request.list(&parameters)).await?;
            let broken =
                |error: serde_json::Error| call.unavailable(format!("the answer is no list: {error}"));
            let page: Page<'_> = serde_json::from_str(&text).map_err(broken)?;
            for object in page.items() {
                each(serde_json::from_str(object.get()).map_err(broken)?);
            }
            let Some(next) = page.next() else { return Ok(()) };
            parameters = parameters.continue_token(next);
        }
    }

    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, WriteError> {
        let object = format!("{namespace}/{name}");
        let call = self.call("get", &object);
        let request = Request::new(self.path(namespace)).get(name, &GetParams::default());
        match self.send(call, request).await {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| call.unavailable(format!("the answer is no object: {error}"))),
            Err(WriteError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(
        &self,
        namespace: &str,
        name: &str,
        owner: Option<&Owner>,
        spec: &Value,
    ) -> Result<Version, WriteError> {
        let object = format!("{namespace}/{name}");
        let body = self.body(namespace, name, owner, None, spec);
        let request =
            Request::new(self.path(namespace)).create(&post_parameters(), body.to_string().into_bytes());
        self.write(self.call("create", &object), request).await
    }

    /// Puts this object in the place of the one that was read as `version`.
    pub(super) async fn replace(
        &self,
        namespace: &str,
        name: &str,
        version: &Version,
        owner: Option<&Owner>,
        spec: &Value,
    ) -> Result<Version, WriteError> {
        let object = format!("{namespace}/{name}");
        let body = self.body(namespace, name, owner, Some(version), spec);
        let request = Request::new(self.path(namespace)).replace(
            name,
            &post_parameters(),
            body.to_string().into_bytes(),
        );
        self.write(self.call("update", &object), request).await
    }

    /// A JSON merge patch of the object, or of its status.
    pub(super) async fn patch(
        &self,
        namespace: &str,
        name: &str,
        part: Part,
        body: &Value,
    ) -> Result<Version, WriteError> {
        let object = format!("{namespace}/{name}");
        let request = Request::new(self.path(namespace));
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(body);
        let mut call = self.call("patch", &object);
        let request = match part {
            Part::Object => request.patch(name, &parameters, &patch),
            Part::Status => {
                call.resource = self.status;
                request.patch_subresource("status", name, &parameters, &patch)
            }
        };
        self.write(call, request).await
    }

    /// Deletes the object if it is still the one with this uid. One that is not there is no error.
    pub(super) async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), WriteError> {
        let object = format!("{namespace}/{name}");
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::background()
        };
        self.limiter.turn().await;
        let request = Request::new(self.path(namespace)).delete(name, &parameters);
        let answer = self.send(self.call("delete", &object), request).await;
        let gone = matches!(answer, Ok(_) | Err(WriteError::NotFound { .. }));
        self.metrics
            .object_written(self.kind, if gone { WriteResult::Success } else { WriteResult::Failure });
        if gone { Ok(()) } else { answer.map(drop) }
    }

    fn body(
        &self,
        namespace: &str,
        name: &str,
        owner: Option<&Owner>,
        version: Option<&Version>,
        spec: &Value,
    ) -> Value {
        let mut metadata = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("namespace".to_owned(), json!(namespace)),
            ("labels".to_owned(), json!({ "app.kubernetes.io/managed-by": "plimsoll" })),
        ]);
        if let Some(owner) = owner {
            metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        }
        if let Some(version) = version {
            metadata.insert("uid".to_owned(), json!(version.uid));
            metadata.insert("resourceVersion".to_owned(), json!(version.resource_version));
        }
        json!({ "apiVersion": format!("{GROUP}/{VERSION}"), "kind": self.kind, "metadata": metadata, "spec": spec })
    }
}

/// What a patch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Object,
    Status,
}

fn post_parameters() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
