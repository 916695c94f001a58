//! An API server on loopback with what the commands rely on: versions, patches, owners of fields; a webhook of ours that
//! is up or away; and failures when a test wants them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll_core::hpa::{Hpa, apply_to, convert, read_sync};
use plimsoll_core::keys;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A collection has one of these at the end of its path.
const PLURALS: [&str; 16] = [
    "daemonsets",
    "deployments",
    "horizontalpodautoscalers",
    "jobs",
    "leases",
    "limitranges",
    "mutatingwebhookconfigurations",
    "nodes",
    "overcommitprofiles",
    "pods",
    "quotaledgers",
    "recommendations",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "validatingwebhookconfigurations",
];
/// Pages are short, so that several are needed.
const PAGE: usize = 2;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// What happens before a request is answered.
type Meddling = Box<dyn FnMut(&mut Objects, &Seen) -> Option<(u16, Value)> + Send>;

/// Objects by their paths.
#[derive(Default)]
pub(crate) struct Objects {
    version: u64,
    pub(crate) by_path: BTreeMap<String, Value>,
}

struct State {
    objects: Objects,
    /// Whether our webhook is called for autoscalers.
    webhook: bool,
    meddling: VecDeque<Meddling>,
    seen: Vec<Seen>,
}

/// The server. It ends with the test's process.
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    folder: tempfile::TempDir,
}

pub(crate) fn hpa_path(name: &str) -> String {
    format!("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/{name}")
}

impl Api {
    pub(crate) fn start(webhook: bool) -> Self {
        let objects = Objects::default();
        let state = State { objects, webhook, meddling: VecDeque::new(), seen: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, served));
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "shop"}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self { state, folder }
    }

    /// Runs a command against it.
    pub(crate) fn run(&self, arguments: &str) -> crate::Run {
        let kubeconfig: PathBuf = self.folder.path().join("kubeconfig");
        crate::plimsoll(self.folder.path(), &format!("{arguments} --kubeconfig {}", kubeconfig.display()))
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state.lock().unwrap().objects.store(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.state.lock().unwrap().objects.by_path[path].clone()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().unwrap().objects.by_path.remove(path);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The requests that write.
    pub(crate) fn writes(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method != Method::GET).collect()
    }

    /// Before the next requests are answered, this may change objects or answer itself; one for each request.
    pub(crate) fn meddle(
        &self,
        with: impl FnMut(&mut Objects, &Seen) -> Option<(u16, Value)> + Send + 'static,
    ) {
        self.state.lock().unwrap().meddling.push_back(Box::new(with));
    }

    /// Answers the next request as it is.
    pub(crate) fn pass(&self) {
        self.meddle(|_, _| None);
    }

    /// Answers the next request with a failure.
    pub(crate) fn fail(&self, code: u16, reason: &'static str, message: &'static str) {
        self.meddle(move |_, _| Some(status(code, reason, message)));
    }
}

async fn serve(listener: std::net::TcpListener, state: Arc<Mutex<State>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let service = service_fn(move |request: Request<Incoming>| {
            let state = Arc::clone(&state);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let query = parts.uri.query().unwrap_or_default().split('&');
                let query = query.filter_map(|pair| pair.split_once('='));
                let seen = Seen {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let (code, answer) = state.lock().unwrap().answer(&seen);
                if code == 0 {
                    std::future::pending::<()>().await;
                }
                let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"name": "x"},
    });
    (code, status)
}

impl Objects {
    pub(crate) fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.by_path.insert(path.to_owned(), object.clone());
        object
    }
}

impl State {
    fn answer(&mut self, seen: &Seen) -> (u16, Value) {
        self.seen.push(seen.clone());
        if let Some(mut meddling) = self.meddling.pop_front()
            && let Some(answer) = meddling(&mut self.objects, seen)
        {
            return answer;
        }
        match seen.method {
            Method::PATCH if seen.path.ends_with("/scale") => self.scale(seen),
            Method::PATCH => self.patch(seen),
            Method::POST => self.create(seen),
            Method::DELETE => self.delete(seen),
            Method::PUT if self.objects.by_path.contains_key(&seen.path) => {
                (200, self.objects.store(&seen.path, seen.body.clone()))
            }
            _ if self.objects.by_path.contains_key(&seen.path) => {
                (200, self.objects.by_path[&seen.path].clone())
            }
            _ if PLURALS.iter().any(|plural| seen.path.ends_with(&format!("/{plural}"))) => self.list(seen),
            _ => status(404, "NotFound", "not found"),
        }
    }

    fn list(&self, seen: &Seen) -> (u16, Value) {
        let (root, plural) = seen.path.rsplit_once('/').unwrap();
        let (group, namespace) = root.split_once("/namespaces/").unwrap_or((root, ""));
        let all: Vec<_> = self
            .objects
            .by_path
            .iter()
            .filter(|(path, object)| {
                path.starts_with(group)
                    && path.contains(&format!("/{plural}/"))
                    && (namespace.is_empty() || object["metadata"]["namespace"] == namespace)
            })
            .map(|(_, object)| {
                // As the API server lists them.
                let mut object = object.clone();
                object.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
                object
            })
            .collect();
        if all.is_empty() && group.contains("metrics.k8s.io") {
            return status(404, "NotFound", "the server could not find the requested resource");
        }
        let from: usize = seen.query.get("continue").map_or(0, |token| token.parse().unwrap());
        let size = if seen.query.contains_key("limit") { PAGE } else { all.len() };
        let page: Vec<_> = all.iter().skip(from).take(size).collect();
        let next =
            if from + page.len() < all.len() { (from + page.len()).to_string() } else { String::new() };
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": page}))
    }

    fn create(&mut self, seen: &Seen) -> (u16, Value) {
        if seen.query.contains_key("dryRun") {
            return (201, seen.body.clone());
        }
        let name = seen.body["metadata"]["name"].as_str().unwrap();
        (201, self.objects.store(&format!("{}/{name}", seen.path), seen.body.clone()))
    }

    /// What has finalizers is only marked.
    fn delete(&mut self, seen: &Seen) -> (u16, Value) {
        let Some(mut object) = self.objects.by_path.remove(&seen.path) else {
            return status(404, "NotFound", "not found");
        };
        if has_finalizers(&object) {
            object["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
            object = self.objects.store(&seen.path, object);
        }
        (200, object)
    }

    /// A Deployment's pods end when it has no replicas, but for those that are stuck.
    fn scale(&mut self, seen: &Seen) -> (u16, Value) {
        let path = seen.path.trim_end_matches("/scale");
        let Some(mut object) = self.objects.by_path.get(path).cloned() else {
            return status(404, "NotFound", "not found");
        };
        json_patch::merge(&mut object, &seen.body);
        let pods = format!("/api/v1/namespaces/{}/pods/", object["metadata"]["namespace"].as_str().unwrap());
        self.objects.by_path.retain(|path, _| !path.starts_with(&pods) || path.ends_with("-stuck"));
        (200, self.objects.store(path, object))
    }

    fn patch(&mut self, seen: &Seen) -> (u16, Value) {
        let Some(before) = self.objects.by_path.get(&seen.path).cloned() else {
            return status(404, "NotFound", "not found");
        };
        let mut object = before.clone();
        if seen.body.is_array() {
            let operations: json_patch::Patch = serde_json::from_value(seen.body.clone()).unwrap();
            if let Err(error) = json_patch::patch(&mut object, &operations) {
                return status(422, "Invalid", &error.to_string());
            }
        } else {
            json_patch::merge(&mut object, &seen.body);
        }
        let wrote_targets = object["spec"] != before["spec"];
        let sync = object["metadata"]["annotations"][keys::HPA_SYNC].as_str().map(str::to_owned);
        if let (Some(sync), true) = (sync, self.webhook) {
            let (new, old) = (Hpa::read(&object).unwrap(), Hpa::read(&before).unwrap());
            let verdict = read_sync(&sync).unwrap();
            object = apply_to(&object, &convert(&new, Some(&old), &verdict));
        }
        let left = object["metadata"]["annotations"][keys::HPA_SYNC].is_string();
        if object["metadata"]["managedFields"] == before["metadata"]["managedFields"] {
            own(&mut object, &seen.query["fieldManager"], wrote_targets, left);
        }
        if object["metadata"]["deletionTimestamp"].is_string() && !has_finalizers(&object) {
            self.objects.by_path.remove(&seen.path);
            return (200, object);
        }
        (200, self.objects.store(&seen.path, object))
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

/// Whoever writes a field owns it, and nobody else does any more.
fn own(object: &mut Value, manager: &str, targets: bool, annotation: bool) {
    if !targets && !annotation {
        return;
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    let entries = metadata.entry("managedFields").or_insert_with(|| json!([]));
    let entries = entries.as_array_mut().unwrap();
    entries.retain(|entry| entry["manager"] != manager);
    if targets {
        for entry in entries.iter_mut() {
            entry["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:metrics");
        }
    }
    let spec = if targets { json!({"f:metrics": {}}) } else { json!({}) };
    entries.push(json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": spec}}));
}
