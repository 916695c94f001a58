//! An API server that is small enough to do as a test says.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// A request that changes something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<String, Value>,
    /// What watches are sent: the version at which it happened, and the line.
    events: Vec<(u64, String)>,
}

#[derive(Default)]
struct State {
    version: u64,
    collections: BTreeMap<&'static str, Collection>,
    absent: BTreeSet<&'static str>,
    held: BTreeSet<&'static str>,
    forbidden: BTreeSet<&'static str>,
    down: bool,
    writes: Vec<Write>,
    lists: BTreeMap<String, usize>,
    gets: usize,
}

/// The fake, reached through loopback. Clones share it.
#[derive(Clone)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    /// Changes with every change of the state.
    changed: watch::Sender<u64>,
    address: SocketAddr,
}

pub(crate) const PROFILES: &str = "/apis/plimsoll.dev/v1alpha1/overcommitprofiles";
pub(crate) const RECOMMENDATIONS: &str = "/apis/plimsoll.dev/v1alpha1/recommendations";
pub(crate) const LIMIT_RANGES: &str = "/api/v1/limitranges";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
pub(crate) const PODS: &str = "/api/v1/pods";
pub(crate) const JOBS: &str = "/apis/batch/v1/jobs";
pub(crate) const TREES: &str = "/apis/scheduling.sigs.k8s.io/v1beta1/elasticquotatrees";
pub(crate) const FLAVORS: &str = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors";
pub(crate) const OLD_FLAVORS: &str = "/apis/kueue.x-k8s.io/v1beta1/resourceflavors";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const HPAS: &str = "/apis/autoscaling/v2/horizontalpodautoscalers";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/statefulsets";
pub(crate) const CLONE_SETS: &str = "/apis/apps.kruise.io/v1alpha1/clonesets";
pub(crate) const ADVANCED_STATEFUL_SETS: &str = "/apis/apps.kruise.io/v1beta1/statefulsets";

/// Every collection there may be.
const ALL: [&str; 16] = [
    PROFILES,
    RECOMMENDATIONS,
    LIMIT_RANGES,
    NAMESPACES,
    REPLICA_SETS,
    JOBS,
    PODS,
    TREES,
    FLAVORS,
    OLD_FLAVORS,
    NODES,
    HPAS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    CLONE_SETS,
    ADVANCED_STATEFUL_SETS,
];

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            // As lists of nothing say it: what happens next comes after it.
            state: Arc::new(Mutex::new(State { version: 1, ..State::default() })),
            changed: watch::Sender::new(0),
            address: listener.local_addr().unwrap(),
        };
        let served = fake.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let served = served.clone();
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request| {
                        let served = served.clone();
                        async move { Ok::<_, Infallible>(served.answer(request).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        fake
    }

    pub(crate) fn client(&self) -> kube::Client {
        let uri = format!("http://{}", self.address).parse().unwrap();
        plimsoll::cluster::client(kube::Config::new(uri)).unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    /// Adds or replaces an object, and tells the watches.
    pub(crate) fn put(&self, path: &'static str, object: Value) {
        self.change(|state| state.put(path, object));
    }

    /// Changes an object without telling anybody, as if the event was lost.
    pub(crate) fn put_silently(&self, path: &'static str, mut object: Value) {
        self.change(|state| {
            state.version += 1;
            object["metadata"]["resourceVersion"] = json!(state.version.to_string());
            let name = name_of(&object);
            state.collections.entry(path).or_default().objects.insert(name, object);
        });
    }

    pub(crate) fn delete(&self, path: &'static str, name: &str) {
        self.change(|state| {
            state.version += 1;
            let version = state.version;
            let collection = state.collections.entry(path).or_default();
            let mut object = collection.objects.remove(name).unwrap();
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            collection.events.push((version, event("DELETED", &object)));
        });
    }

    /// Sends this line to the watches of a collection.
    pub(crate) fn send_line(&self, path: &'static str, line: &str) {
        self.change(|state| {
            state.version += 1;
            let version = state.version;
            state.collections.entry(path).or_default().events.push((version, line.to_owned()));
        });
    }

    /// Ends the watches of a collection with 410, and forgets the events so that nobody can go on from them.
    pub(crate) fn expire(&self, path: &'static str) {
        let gone = json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old resource version",
            "reason": "Expired", "code": 410,
        }});
        self.send_line(path, &gone.to_string());
    }

    pub(crate) fn set_absent(&self, path: &'static str, absent: bool) {
        self.change(|state| if absent { state.absent.insert(path) } else { state.absent.remove(path) });
    }

    /// Answers lists and watches of a collection with 403.
    pub(crate) fn forbid(&self, path: &'static str, forbidden: bool) {
        self.change(
            |state| {
                if forbidden { state.forbidden.insert(path) } else { state.forbidden.remove(path) }
            },
        );
    }

    /// Holds back the answers of lists and reads of a collection.
    pub(crate) fn hold(&self, path: &'static str, held: bool) {
        self.change(|state| if held { state.held.insert(path) } else { state.held.remove(path) });
    }

    /// Answers everything with 503, and ends the watches.
    pub(crate) fn set_down(&self, down: bool) {
        self.change(|state| state.down = down);
    }

    pub(crate) fn writes(&self, path_part: &str) -> Vec<Write> {
        let state = self.state.lock().unwrap();
        state.writes.iter().filter(|write| write.path.contains(path_part)).cloned().collect()
    }

    pub(crate) fn lists(&self, path: &str) -> usize {
        self.state.lock().unwrap().lists.get(path).copied().unwrap_or_default()
    }

    pub(crate) fn gets(&self) -> usize {
        self.state.lock().unwrap().gets
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let query = query(request.uri().query().unwrap_or_default());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if self.state.lock().unwrap().down {
            return status(StatusCode::SERVICE_UNAVAILABLE, "down on purpose");
        }
        let known = ALL.into_iter().find(|known| {
            path == *known || path.strip_prefix(known).is_some_and(|rest| rest.starts_with('/'))
        });
        match (method, known) {
            (Method::GET, Some(known)) if self.state.lock().unwrap().forbidden.contains(known) => {
                status(StatusCode::FORBIDDEN, "the service account cannot list resource at the cluster scope")
            }
            (Method::GET, Some(known)) if self.state.lock().unwrap().absent.contains(known) => {
                status(StatusCode::NOT_FOUND, "the server could not find the requested resource")
            }
            (Method::GET, Some(known)) if path != known => self.get(known, &path).await,
            (Method::GET, Some(known)) if query.contains_key("watch") => self.watch(known, &query),
            (Method::GET, Some(known)) => self.list(known, &query).await,
            (method @ (Method::PATCH | Method::POST), known) => {
                self.write(Write { method, path, body: serde_json::from_slice(&body).unwrap() }, known)
            }
            _ => status(StatusCode::NOT_FOUND, "unknown path"),
        }
    }

    async fn released(&self, path: &'static str) {
        let mut changed = self.changed.subscribe();
        while self.state.lock().unwrap().held.contains(path) {
            changed.changed().await.unwrap();
        }
    }

    async fn get(&self, path: &'static str, full: &str) -> Response<Body> {
        self.change(|state| state.gets += 1);
        self.released(path).await;
        let name = full.rsplit('/').next().unwrap();
        match self.state.lock().unwrap().collections.get(path).and_then(|all| all.objects.get(name)) {
            Some(object) => answer(StatusCode::OK, object),
            None => status(StatusCode::NOT_FOUND, "not found"),
        }
    }

    async fn list(&self, path: &'static str, query: &BTreeMap<String, String>) -> Response<Body> {
        self.released(path).await;
        self.change(|state| *state.lists.entry(path.to_owned()).or_default() += 1);
        let state = self.state.lock().unwrap();
        let all: Vec<_> =
            state.collections.get(path).into_iter().flat_map(|all| all.objects.values()).cloned().collect();
        let limit: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let from: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
        let page: Vec<_> = all.iter().skip(from).take(limit).cloned().collect();
        let rest = from + page.len() < all.len();
        let mut metadata = json!({ "resourceVersion": state.version.max(1).to_string() });
        if rest {
            metadata["continue"] = json!((from + page.len()).to_string());
        }
        // As the real one does, items of a list come without kind and version.
        answer(
            StatusCode::OK,
            &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page}),
        )
    }

    fn watch(&self, path: &'static str, query: &BTreeMap<String, String>) -> Response<Body> {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        let stream = futures_util::stream::unfold(
            (self.clone(), self.changed.subscribe(), from),
            move |(fake, mut changed, from)| async move {
                loop {
                    {
                        let state = fake.state.lock().unwrap();
                        if state.down || state.absent.contains(path) {
                            return None;
                        }
                        let next = state
                            .collections
                            .get(path)
                            .and_then(|all| all.events.iter().find(|(version, _)| *version > from));
                        if let Some((version, line)) = next {
                            let frame = Frame::data(Bytes::from(format!("{line}\n")));
                            let version = *version;
                            drop(state);
                            return Some((Ok(frame), (fake, changed, version)));
                        }
                    }
                    changed.changed().await.ok()?;
                }
            },
        );
        Response::new(StreamBody::new(stream).boxed())
    }

    fn write(&self, write: Write, known: Option<&'static str>) -> Response<Body> {
        let answered = write.body.clone();
        let name =
            write.path.strip_suffix("/status").and_then(|path| path.rsplit('/').next()).map(str::to_owned);
        let taken = self.change(|state| {
            if let (Some(name), Some(known)) = (name, known) {
                let stored = state.collections.get(known).and_then(|all| all.objects.get(&name));
                let Some(mut object) = stored.cloned() else { return false };
                object["status"] = write.body["status"].clone();
                state.put(known, object);
            }
            state.writes.push(write);
            true
        });
        if taken { answer(StatusCode::OK, &answered) } else { status(StatusCode::NOT_FOUND, "not found") }
    }
}

impl State {
    fn put(&mut self, path: &'static str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let collection = self.collections.entry(path).or_default();
        let known = collection.objects.insert(name_of(&object), object.clone()).is_some();
        let line = event(if known { "MODIFIED" } else { "ADDED" }, &object);
        collection.events.push((self.version, line));
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn event(kind: &str, object: &Value) -> String {
    // The type comes first, as API servers write it.
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn query(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = code;
    response
}

fn status(code: StatusCode, message: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code.as_u16(),
    });
    answer(code, &body)
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "never came true: {what}");
}
