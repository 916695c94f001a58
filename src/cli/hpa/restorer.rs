//! The calls by which autoscalers are put back.

use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams, Patch, PatchParams};
use plimsoll_core::hpa::{Verdict, Why, write_sync};
use plimsoll_core::keys;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::plan::{Plan, Restored, is_marked, plan};
use crate::cluster::backoff::Backoff;
use crate::cluster::{Call, WriteError};

/// Who we are to the API server. Nobody else writes by this name, so what it owns can be given up again.
const MANAGER: &str = "plimsoll-hpa-restore";
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;
/// How often it is tried anew when somebody else writes in between, or the API server does not answer.
const ATTEMPTS: u32 = 6;

/// How it ended for one autoscaler.
#[derive(Debug)]
pub(super) enum Outcome {
    /// There was nothing to do.
    Nothing,
    /// So it would be done.
    Planned(Vec<Restored>),
    /// It was done, by Plimsoll's webhook or without it.
    Restored { targets: Vec<Restored>, by_webhook: bool },
    /// What its targets were is not known any more.
    Unreadable(String),
    /// It is not there any more.
    Gone,
    /// It could not be done.
    Failed(String),
    /// The API server does not take it, and will not next time.
    Refused(String),
}

/// Puts autoscalers back.
#[derive(Clone)]
pub(super) struct Restorer {
    client: Client,
    /// Whether autoscalers are left alone from now on.
    opts_out: bool,
}

impl Restorer {
    pub(super) const fn new(client: Client) -> Self {
        Self { client, opts_out: false }
    }

    /// The same, that says on each autoscaler whether it is to be left alone from now on.
    pub(super) fn opting_out(self, opts_out: bool) -> Self {
        Self { opts_out, ..self }
    }

    /// All autoscalers, of one namespace or of all.
    pub(super) async fn list(&self, namespace: Option<&str>) -> Result<Vec<Value>, WriteError> {
        let path =
            namespace.map_or_else(|| "/apis/autoscaling/v2/horizontalpodautoscalers".to_owned(), collection);
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let call = Self::call("list", "");
            let mut list = persist(|| self.send(call, || Request::new(&path).list(&page))).await?;
            if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
                all.extend(items.into_iter().map(typed));
            }
            match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => page.continue_token = Some(next.to_owned()),
                _ => return Ok(all),
            }
        }
    }

    /// One autoscaler, if it is there.
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, WriteError> {
        let object = format!("{namespace}/{name}");
        let call = Self::call("get", &object);
        let read = || Request::new(collection(namespace)).get(name, &GetParams::default());
        match persist(|| self.send(call, read)).await {
            Ok(found) => Ok(Some(typed(found))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts one back, as it was read.
    pub(super) async fn restore(&self, object: &Value, dry_run: bool) -> Outcome {
        let targets = match plan(object) {
            Plan::Nothing => return Outcome::Nothing,
            Plan::Unreadable(why) => return Outcome::Unreadable(why),
            Plan::Restore { targets, .. } => targets,
        };
        if dry_run {
            return Outcome::Planned(targets);
        }
        // The webhook does it in this request, and nobody becomes an owner of the targets.
        let asked = write_sync(&Verdict::Restore(Why::Asked));
        let mut annotations = json!({keys::HPA_SYNC: asked});
        if let Some(annotations) = annotations.as_object_mut().filter(|_| self.opts_out) {
            annotations.insert(keys::OVERCOMMIT.to_owned(), "disabled".into());
        }
        let asked = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let answer = match persist(|| self.patch(object, &asked)).await {
            Ok(answer) => answer,
            Err(error) => return ended(&error),
        };
        if is_marked(&answer) {
            return self.directly(answer).await;
        }
        // An owner we are of our annotations at most, never of the targets. Another write would be seen by the webhook,
        // which converts again whatever is not opted out.
        if self.opts_out {
            self.disown(answer).await;
        }
        Outcome::Restored { targets, by_webhook: true }
    }

    /// The same without the webhook.
    async fn directly(&self, mut object: Value) -> Outcome {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut last = (String::new(), false);
        for _ in 0..ATTEMPTS {
            let (targets, patch) = match plan(&object) {
                // Somebody was faster.
                Plan::Nothing => return Outcome::Restored { targets: Vec::new(), by_webhook: true },
                Plan::Unreadable(why) => return Outcome::Unreadable(why),
                Plan::Restore { targets, patch } => (targets, patch),
            };
            match self.json_patch(&object, patch).await {
                Ok(answer) if is_marked(&answer) => {
                    return Outcome::Failed(
                        "it was converted again in the same request; stop the server first, or set hpa.mode to Off"
                            .to_owned(),
                    );
                }
                Ok(answer) => {
                    self.disown(answer).await;
                    return Outcome::Restored { targets, by_webhook: false };
                }
                Err(error) if is_passing(&error) => last = (error.to_string(), is_refused(&error)),
                Err(error) => return ended(&error),
            }
            tokio::time::sleep(backoff.pause()).await;
            match self.get(&namespace_of(&object), &name_of(&object)).await {
                Ok(Some(now)) => object = now,
                Ok(None) => return Outcome::Gone,
                Err(error) => return Outcome::Failed(error.to_string()),
            }
        }
        let (last, refused) = last;
        let why = format!("given up after {ATTEMPTS} attempts: {last}");
        if refused { Outcome::Refused(why) } else { Outcome::Failed(why) }
    }

    /// Gives up what our own writes made us the owner of, so that the next server-side apply of the autoscaler's author
    /// meets no conflict. If that fails nothing is lost but this.
    async fn disown(&self, mut object: Value) {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        for _ in 0..ATTEMPTS {
            let Some(patch) = without_our_entries(&object) else { return };
            match self.json_patch(&object, patch).await {
                Ok(_) => return,
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "the ownership of the restored targets could not be given up");
                    return;
                }
            }
            tokio::time::sleep(backoff.pause()).await;
            match self.get(&namespace_of(&object), &name_of(&object)).await {
                Ok(Some(now)) => object = now,
                Ok(None) | Err(_) => return,
            }
        }
    }

    async fn json_patch(&self, object: &Value, patch: Vec<Value>) -> Result<Value, WriteError> {
        let name = format!("{}/{}", namespace_of(object), name_of(object));
        let patch = serde_json::from_value(Value::Array(patch))
            .map_err(|error| Self::call("patch", &name).unavailable(error.to_string()))?;
        self.patch(object, &Patch::Json::<()>(patch)).await
    }

    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        object: &Value,
        patch: &Patch<P>,
    ) -> Result<Value, WriteError> {
        let (namespace, name) = (namespace_of(object), name_of(object));
        let what = format!("{namespace}/{name}");
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let request = || Request::new(collection(&namespace)).patch(&name, &parameters, patch);
        self.send(Self::call("patch", &what), request).await.map(typed)
    }

    const fn call<'a>(verb: &'static str, object: &'a str) -> Call<'a> {
        Call {
            verb,
            kind: "HorizontalPodAutoscaler",
            resource: "horizontalpodautoscalers",
            group: "autoscaling",
            object,
            bytes: 0,
        }
    }

    async fn send(
        &self,
        mut call: Call<'_>,
        request: impl Fn() -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Value, WriteError> {
        let request = request().map_err(|error| call.failed(&kube::Error::BuildRequest(error)))?;
        call.bytes = request.body().len();
        timeout(CALL_TIMEOUT, self.client.request::<Value>(request))
            .await
            .map_err(|_| call.slow(CALL_TIMEOUT))?
            .map_err(|error| call.failed(&error))
    }
}

/// Asks again while the API server does not answer.
async fn persist<F: Future<Output = Result<Value, WriteError>>>(
    ask: impl Fn() -> F,
) -> Result<Value, WriteError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(WriteError::Unavailable { .. }) => tokio::time::sleep(backoff.pause()).await,
            ended => return ended,
        }
    }
    ask().await
}

/// Whether the same may work with the object as it is now. A JSON patch whose test fails is refused as invalid.
fn is_passing(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Conflict { .. } | WriteError::Unavailable { .. } | WriteError::Refused { code: 422, .. }
    )
}

fn ended(error: &WriteError) -> Outcome {
    match error {
        error if error.is_not_found() => Outcome::Gone,
        error if is_refused(error) => Outcome::Refused(error.to_string()),
        error => Outcome::Failed(error.to_string()),
    }
}

const fn is_refused(error: &WriteError) -> bool {
    matches!(error, WriteError::Refused { .. })
}

/// A JSON patch that takes our entries out of `metadata.managedFields`; nothing if there is none.
fn without_our_entries(object: &Value) -> Option<Vec<Value>> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    let is_ours = |entry: &Value| entry.get("manager").and_then(Value::as_str) == Some(MANAGER);
    let ours = entries.iter().enumerate().rev().filter(|(_, entry)| is_ours(entry));
    let ours: Vec<_> = ours.map(|(index, _)| format!("/metadata/managedFields/{index}")).collect();
    if ours.is_empty() {
        return None;
    }
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let mut patch = vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
    if ours.len() == entries.len() {
        // An empty list means "leave them"; one empty entry means "none".
        patch.push(json!({"op": "replace", "path": "/metadata/managedFields", "value": [{}]}));
    } else {
        patch.extend(ours.iter().map(|path| json!({"op": "remove", "path": path})));
    }
    Some(patch)
}

/// Items of lists come without their type.
fn typed(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        for (key, value) in [("apiVersion", "autoscaling/v2"), ("kind", "HorizontalPodAutoscaler")] {
            map.entry(key).or_insert_with(|| value.into());
        }
    }
    object
}

fn collection(namespace: &str) -> String {
    format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
}

pub(super) fn namespace_of(object: &Value) -> String {
    text(object, "/metadata/namespace")
}

pub(super) fn name_of(object: &Value) -> String {
    text(object, "/metadata/name")
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
