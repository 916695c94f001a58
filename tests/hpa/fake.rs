//! An API server without a socket that knows autoscalers, pods and scales, and calls our webhook as the real one does.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use plimsoll::admission::Engine;
use plimsoll::cluster::Snapshots;
use plimsoll::server::{Admission as _, Stage};
use plimsoll_core::objects::{FactKey, FactKind, read_manifest};
use serde_json::{Value, json};
use tokio::sync::watch;

type Answer = http_body_util::combinators::BoxBody<Bytes, Infallible>;

#[derive(Default)]
struct State {
    version: u64,
    pods: BTreeMap<String, Value>,
    /// What watches are sent: the version at which it happened, and the line.
    pod_events: Vec<(u64, String)>,
    /// By namespace and name.
    hpas: BTreeMap<String, Value>,
    /// What answers at a path, whatever is asked.
    others: BTreeMap<String, Value>,
    patches: Vec<Value>,
    gets: usize,
    events: Vec<Value>,
    webhook: Option<Arc<Engine>>,
    /// Answers to the next patches in place of the true ones; whether the patch is done all the same.
    failures: VecDeque<(u16, &'static str, bool)>,
    pods_held: bool,
}

/// The fake. Clones share it.
#[derive(Clone)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
    /// What the watch of autoscalers tells goes in here.
    snapshots: Arc<Snapshots>,
}

impl FakeApi {
    pub(crate) fn new(snapshots: Arc<Snapshots>) -> Self {
        let state = State { version: 1, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default(), snapshots }
    }

    pub(crate) fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let query = parts.uri.query().unwrap_or_default().to_owned();
                Ok::<_, Infallible>(fake.answer(&parts.method, parts.uri.path(), &query, body).await)
            }
        });
        kube::Client::new(service, "default")
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    pub(crate) fn set_webhook(&self, webhook: Option<Arc<Engine>>) {
        self.change(|state| state.webhook = webhook);
    }

    pub(crate) fn put_pod(&self, mut pod: Value) {
        self.change(|state| {
            state.version += 1;
            pod["metadata"]["resourceVersion"] = json!(state.version.to_string());
            let known = state.pods.insert(pod["metadata"]["name"].to_string(), pod.clone()).is_some();
            let kind = if known { "MODIFIED" } else { "ADDED" };
            state.pod_events.push((state.version, format!(r#"{{"type":"{kind}","object":{pod}}}"#)));
        });
    }

    pub(crate) fn delete_pod(&self, name: &str) {
        self.change(|state| {
            state.version += 1;
            let mut pod = state.pods.remove(&json!(name).to_string()).unwrap();
            pod["metadata"]["resourceVersion"] = json!(state.version.to_string());
            state.pod_events.push((state.version, format!(r#"{{"type":"DELETED","object":{pod}}}"#)));
        });
    }

    /// Holds back the list of pods.
    pub(crate) fn hold_pods(&self, held: bool) {
        self.change(|state| state.pods_held = held);
    }

    /// What somebody creates or changes, through the webhook.
    pub(crate) async fn apply(&self, hpa: Value) -> Value {
        let key = key_of(&hpa);
        let old = self.state.lock().unwrap().hpas.get(&key).cloned();
        self.store(key, old, hpa).await
    }

    /// What somebody created when the webhook was not there yet.
    pub(crate) fn put_hpa(&self, hpa: Value) {
        self.tell(&hpa);
        self.change(|state| state.hpas.insert(key_of(&hpa), hpa));
    }

    /// An autoscaler is gone; the watch may not have told so yet.
    pub(crate) fn delete_hpa(&self, namespace: &str, name: &str, told: bool) {
        self.change(|state| state.hpas.remove(&format!("{namespace}/{name}")).unwrap());
        if told {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            self.snapshots
                .update(|objects| objects.remove(&FactKey { kind: FactKind::Hpa, namespace, name }));
        }
    }

    pub(crate) fn hpa(&self, key: &str) -> Value {
        self.state.lock().unwrap().hpas.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn put_other(&self, path: &str, value: Value) {
        self.change(|state| state.others.insert(path.to_owned(), value));
    }

    /// The next patch is answered so; `done`: it is done all the same, and only the answer is lost.
    pub(crate) fn fail_next(&self, code: u16, reason: &'static str, done: bool) {
        self.change(|state| state.failures.push_back((code, reason, done)));
    }

    /// The bodies of the patches of autoscalers.
    pub(crate) fn patches(&self) -> Vec<Value> {
        self.state.lock().unwrap().patches.clone()
    }

    pub(crate) fn gets(&self) -> usize {
        self.state.lock().unwrap().gets
    }

    /// The reasons of the events, and their notes.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let state = self.state.lock().unwrap();
        state.events.iter().map(|event| (text(event, "reason"), text(event, "note"))).collect()
    }

    fn tell(&self, hpa: &Value) {
        self.snapshots.update(|objects| objects.put(read_manifest(hpa).unwrap().unwrap()));
    }

    async fn answer(&self, method: &Method, path: &str, query: &str, body: Value) -> Response<Answer> {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        if let Some(other) = self.state.lock().unwrap().others.get(path) {
            return answer(StatusCode::OK, other);
        }
        match (method, parts.as_slice()) {
            (&Method::GET, ["api", "v1", "pods"]) if query.contains("watch") => self.watch_pods(query),
            (&Method::GET, ["api", "v1", "pods"]) => self.list_pods().await,
            (&Method::GET, ["apis", "autoscaling", "v2", "namespaces", namespace, _, name]) => {
                self.change(|state| state.gets += 1);
                match self.hpa(&format!("{namespace}/{name}")) {
                    Value::Null => status(404, "NotFound", name),
                    hpa => answer(StatusCode::OK, &hpa),
                }
            }
            (&Method::PATCH, ["apis", "autoscaling", "v2", "namespaces", namespace, _, name]) => {
                assert!(query.contains("fieldManager=plimsoll-hpa"), "{query}");
                self.patch(&format!("{namespace}/{name}"), body).await
            }
            (&Method::POST | &Method::PATCH, [.., "events"] | [.., "events", _]) => {
                self.change(|state| state.events.push(body.clone()));
                answer(StatusCode::OK, &body)
            }
            _ => status(404, "NotFound", ""),
        }
    }

    async fn patch(&self, key: &str, body: Value) -> Response<Answer> {
        let (old, failure) = self.change(|state| (state.hpas.get(key).cloned(), state.failures.pop_front()));
        self.change(|state| state.patches.push(body.clone()));
        if let Some((code, reason, false)) = failure {
            return status(code, reason, key);
        }
        let Some(old) = old else { return status(404, "NotFound", key) };
        if body["metadata"]["uid"] != old["metadata"]["uid"] {
            return status(422, "Invalid", key);
        }
        let annotations_only =
            body["metadata"].as_object().unwrap().keys().all(|key| key == "annotations" || key == "uid");
        assert!(annotations_only && body.as_object().unwrap().len() == 1, "nothing else is owned: {body}");
        let mut new = old.clone();
        json_patch::merge(&mut new, &body);
        let stored = self.store(key.to_owned(), Some(old), new).await;
        match failure {
            Some((code, reason, _)) => status(code, reason, key),
            None => answer(StatusCode::OK, &stored),
        }
    }

    /// Admits, stores, and tells the watch.
    async fn store(&self, key: String, old: Option<Value>, mut new: Value) -> Value {
        let webhook = self.state.lock().unwrap().webhook.clone();
        if let Some(webhook) = webhook {
            let kind = json!({"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"});
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "kind": kind, "namespace": new["metadata"]["namespace"], "name": new["metadata"]["name"],
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "object": new, "oldObject": old,
            }});
            let reply = webhook.review(Stage::Mutate, review.to_string().into()).await;
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            if let Some(patch) = answer["response"]["patch"].as_str() {
                let patch: json_patch::Patch =
                    serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap();
                json_patch::patch(&mut new, &patch).unwrap();
            }
        }
        self.change(|state| state.hpas.insert(key, new.clone()));
        self.tell(&new);
        new
    }

    async fn list_pods(&self) -> Response<Answer> {
        let mut changed = self.changed.subscribe();
        while self.state.lock().unwrap().pods_held {
            changed.changed().await.unwrap();
        }
        let state = self.state.lock().unwrap();
        let items: Vec<_> = state.pods.values().cloned().collect();
        let metadata = json!({ "resourceVersion": state.version.to_string() });
        answer(
            StatusCode::OK,
            &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
        )
    }

    fn watch_pods(&self, query: &str) -> Response<Answer> {
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let from: u64 = from.unwrap().parse().unwrap();
        let stream = futures_util::stream::unfold(
            (self.clone(), self.changed.subscribe(), from),
            |(fake, mut changed, from)| async move {
                loop {
                    let next = {
                        let state = fake.state.lock().unwrap();
                        state.pod_events.iter().find(|(version, _)| *version > from).cloned()
                    };
                    if let Some((version, line)) = next {
                        return Some((Ok(Frame::data(Bytes::from(line + "\n"))), (fake, changed, version)));
                    }
                    changed.changed().await.ok()?;
                }
            },
        );
        Response::new(StreamBody::new(stream).boxed())
    }
}

fn key_of(hpa: &Value) -> String {
    let text = |key: &str| hpa["metadata"][key].as_str().unwrap().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

fn answer(code: StatusCode, body: &Value) -> Response<Answer> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = code;
    response
}

fn status(code: u16, reason: &str, name: &str) -> Response<Answer> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": format!("{reason} on purpose"),
        "reason": reason, "code": code, "details": {"name": name},
    });
    answer(StatusCode::from_u16(code).unwrap(), &body)
}
