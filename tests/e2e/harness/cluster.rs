//! The API server as scenarios see it: objects are JSON, refusals are messages.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::{Stream, StreamExt as _};
use http::Request;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::tools::Kubectl;

#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    /// Never asks again by itself, whatever the API server answers.
    once: Client,
    pub(crate) kubectl: Kubectl,
}

/// How long to wait for what is behind the API server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kinds without a namespace among those the scenarios use.
const CLUSTER_SCOPED: [&str; 13] = [
    "APIService",
    "Namespace",
    "Node",
    "OvercommitProfile",
    "PersistentVolume",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "PriorityClass",
    "ResourceFlavor",
    "RuntimeClass",
];

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path, kubectl: Kubectl) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config.clone())?;
        config.default_retry = false;
        Ok(Self { client, once: Client::try_from(config)?, kubectl })
    }

    /// Whether the API server calls itself ready.
    pub(crate) async fn ready(&self) -> Result<()> {
        let request = Request::get("/readyz").body(Vec::new())?;
        let answer = self.client.request_text(request).await?;
        if answer == "ok" { Ok(()) } else { bail!("readyz says {answer}") }
    }

    /// `GET path`, for what is no object, such as usage.
    pub(crate) async fn get_path(&self, path: &str) -> Result<Value> {
        let request = self.client.request::<Value>(Request::get(path).body(Vec::new())?);
        // The client asks again and again where the API server says that something behind it is not available.
        let answer =
            timeout(PATIENCE, request).await.with_context(|| format!("get {path}: no good answer"))?;
        answer.map_err(|error| refusal(&format!("get {path}"), error))
    }

    pub(crate) async fn create(&self, object: &Value) -> Result<Value> {
        self.post(object, false).await
    }

    /// What would be stored, without storing it.
    pub(crate) async fn create_dry(&self, object: &Value) -> Result<Value> {
        self.post(object, true).await
    }

    async fn post(&self, object: &Value, dry_run: bool) -> Result<Value> {
        let target = Target::of(object)?;
        let params = PostParams { dry_run, ..PostParams::default() };
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let created = self.api(&target).create(&params, &object).await;
        value(created.map_err(|error| refusal(&format!("create {target}"), error))?)
    }

    /// Creates it in one attempt; the inner error is the API server's "no".
    pub(crate) async fn attempt(&self, object: &Value) -> Result<Result<Value, Refused>> {
        let target = Target::of(object)?;
        let api = target.api(&self.once);
        match api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await {
            Ok(created) => Ok(Ok(value(created)?)),
            Err(error) => refusal(&format!("create {target}"), error).downcast::<Refused>().map(Err),
        }
    }

    /// The message with which the API server refuses to create `object`.
    pub(crate) async fn create_refused(&self, object: &Value) -> Result<String> {
        match self.create(object).await {
            Ok(_) => bail!("{} was accepted", Target::of(object)?),
            Err(error) => Ok(error.downcast::<Refused>()?.message),
        }
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value> {
        let params = PatchParams::apply("plimsoll-e2e").force();
        self.patch(object, &params, &Patch::Apply(object)).await
    }

    /// Server-side apply by this field manager, in one attempt and without force; the inner error is the API server's
    /// "no", such as a conflict.
    pub(crate) async fn apply_as(&self, manager: &str, object: &Value) -> Result<Result<Value, Refused>> {
        self.patch_once(object, &PatchParams::apply(manager), &Patch::Apply(object)).await
    }

    /// [`Cluster::merge`] by this field manager, in one attempt.
    pub(crate) async fn merge_as(
        &self,
        manager: &str,
        object: &Value,
        change: &Value,
    ) -> Result<Result<Value, Refused>> {
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        self.patch_once(object, &params, &Patch::Merge(change)).await
    }

    async fn patch_once(
        &self,
        object: &Value,
        params: &PatchParams,
        patch: &Patch<&Value>,
    ) -> Result<Result<Value, Refused>> {
        let target = Target::of(object)?;
        match target.api(&self.once).patch(target.name()?, params, patch).await {
            Ok(patched) => Ok(Ok(value(patched)?)),
            Err(error) => refusal(&format!("patch {target}"), error).downcast::<Refused>().map(Err),
        }
    }

    /// Merges `change` into the object that `object` names.
    pub(crate) async fn merge(&self, object: &Value, change: &Value) -> Result<Value> {
        self.patch(object, &PatchParams::default(), &Patch::Merge(change)).await
    }

    /// Merges `change` into the status of the object that `object` names, as its controller or kubelet would.
    pub(crate) async fn merge_status(&self, object: &Value, change: &Value) -> Result<Value> {
        let target = Target::of(object)?;
        let change = Patch::Merge(json!({"status": change}));
        let patched = self.api(&target).patch_status(target.name()?, &PatchParams::default(), &change).await;
        value(patched.map_err(|error| refusal(&format!("patch the status of {target}"), error))?)
    }

    /// Merges `change` into the pod as `kubectl patch --subresource=resize` does, in one attempt.
    pub(crate) async fn resize(&self, pod: &Value, change: &Value) -> Result<Result<Value, Refused>> {
        let target = Target::of(pod)?;
        let patch = Patch::Strategic(change);
        let api = target.api(&self.once);
        match api.patch_subresource("resize", target.name()?, &PatchParams::default(), &patch).await {
            Ok(resized) => Ok(Ok(value(resized)?)),
            Err(error) => refusal(&format!("resize {target}"), error).downcast::<Refused>().map(Err),
        }
    }

    /// All objects of a kind and, from then on, what happens to them, in the order in which it happens.
    pub(crate) async fn follow(&self, version: &str, kind: &str) -> Result<(Vec<Value>, Happenings)> {
        let api = self.api(&Target::new(version, kind, None, None));
        let list = api.list(&ListParams::default()).await?;
        let from = list.metadata.resource_version.context("the list has no version")?;
        let params = WatchParams::default().timeout(290);
        let events = api.watch(&params, &from).await?.map(|event| match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Happening::Is(value(object)?)),
            WatchEvent::Deleted(object) => Ok(Happening::Gone(value(object)?)),
            WatchEvent::Bookmark(_) => Ok(Happening::Nothing),
            WatchEvent::Error(status) => Err(anyhow!("the watch ended: {}", status.message)),
        });
        Ok((list.items.into_iter().map(value).collect::<Result<_>>()?, Box::pin(events)))
    }

    async fn patch(&self, object: &Value, params: &PatchParams, patch: &Patch<&Value>) -> Result<Value> {
        let target = Target::of(object)?;
        let patched = self.api(&target).patch(target.name()?, params, patch).await;
        value(patched.map_err(|error| refusal(&format!("patch {target}"), error))?)
    }

    /// The stored state of the object that `object` names.
    pub(crate) async fn get(&self, object: &Value) -> Result<Value> {
        self.get_opt(object).await?.with_context(|| format!("{object} does not exist"))
    }

    pub(crate) async fn get_opt(&self, object: &Value) -> Result<Option<Value>> {
        let target = Target::of(object)?;
        self.api(&target).get_opt(target.name()?).await?.map(value).transpose()
    }

    /// Objects of a kind, in a namespace or everywhere, by label selector ("" for all).
    pub(crate) async fn list(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>> {
        let target = Target::new(version, kind, namespace, None);
        let list = self.api(&target).list(&ListParams::default().labels(selector)).await?;
        list.items.into_iter().map(value).collect()
    }

    /// Deletes at once and in the background; an absent object is no error.
    pub(crate) async fn delete(&self, object: &Value) -> Result<()> {
        let target = Target::of(object)?;
        match self.api(&target).delete(target.name()?, &DeleteParams::background().grace_period(0)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(refusal(&format!("delete {target}"), error)),
        }
    }

    /// A token of a service account that lives as long as this pod of it, as a kubelet asks for one.
    pub(crate) async fn token(&self, pod: &Value) -> Result<String> {
        let (metadata, account) = (&pod["metadata"], &pod["spec"]["serviceAccountName"]);
        let [namespace, account] =
            [&metadata["namespace"], account].map(|text| text.as_str().unwrap_or_default());
        let wanted = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"],
            }},
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = Request::post(&path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&wanted)?)?;
        let answer: Value = self.client.request(request).await.map_err(|error| refusal(&path, error))?;
        Ok(answer["status"]["token"].as_str().context("no token in the answer")?.to_owned())
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        target.api(&self.client)
    }
}

/// What happens to an object.
pub(crate) enum Happening {
    Is(Value),
    Gone(Value),
    Nothing,
}

pub(crate) type Happenings = Pin<Box<dyn Stream<Item = Result<Happening>> + Send>>;

/// The API server's "no".
#[derive(Debug, thiserror::Error)]
#[error("{action}: {code}: {message}")]
pub(crate) struct Refused {
    action: String,
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Refused {
    /// Whether a webhook did not answer in time, so that nothing was decided.
    pub(crate) fn is_late(&self) -> bool {
        let late = ["context deadline exceeded", "Client.Timeout exceeded"];
        self.code == 500 && late.iter().any(|words| self.message.contains(words))
    }
}

fn refusal(action: &str, error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => {
            Refused { action: action.into(), code: status.code, message: status.message }.into()
        }
        other => anyhow!(other).context(action.to_owned()),
    }
}

/// Which object a JSON text speaks of.
struct Target {
    resource: ApiResource,
    namespace: Option<String>,
    name: Option<String>,
}

impl Target {
    fn new(version: &str, kind: &str, namespace: Option<&str>, name: Option<&str>) -> Self {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Self { resource, namespace: namespace.map(Into::into), name: name.map(Into::into) }
    }

    fn of(object: &Value) -> Result<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").with_context(|| format!("no apiVersion in {object}"))?;
        let kind = text("/kind").with_context(|| format!("no kind in {object}"))?;
        let namespace = text("/metadata/namespace");
        if namespace.is_none() && !CLUSTER_SCOPED.contains(&kind) {
            bail!("no namespace in {object}");
        }
        Ok(Self::new(version, kind, namespace, text("/metadata/name")))
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    fn name(&self) -> Result<&str> {
        self.name.as_deref().context("the object has no name")
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let namespace =
            self.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        write!(f, "{} {namespace}{}", self.resource.kind, self.name.as_deref().unwrap_or("(generated name)"))
    }
}

fn value(object: DynamicObject) -> Result<Value> {
    Ok(serde_json::to_value(object)?)
}
