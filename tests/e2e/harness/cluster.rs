//! The API server as scenarios see it: objects are JSON, refusals are messages.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http::Request;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::tools::Kubectl;

#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    pub(crate) kubectl: Kubectl,
}

/// How long to wait for what is behind the API server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kinds without a namespace among those the scenarios use.
const CLUSTER_SCOPED: [&str; 10] = [
    "APIService",
    "Namespace",
    "Node",
    "OvercommitProfile",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "PriorityClass",
];

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path, kubectl: Kubectl) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self { client: Client::try_from(config)?, kubectl })
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

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        match &target.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &target.resource),
            None => Api::all_with(self.client.clone(), &target.resource),
        }
    }
}

/// The API server's "no".
#[derive(Debug, thiserror::Error)]
#[error("{action}: {code}: {message}")]
pub(crate) struct Refused {
    action: String,
    pub(crate) code: u16,
    pub(crate) message: String,
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
