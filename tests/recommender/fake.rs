//! An API server without a socket, with what the recommender's writers rely on: uids, versions, preconditions, merge
//! patches; and failures when a test wants them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By path.
    objects: BTreeMap<String, Value>,
    seen: Vec<Seen>,
    /// Answers to the next requests, in place of the true ones.
    failures: VecDeque<(u16, Value)>,
    /// The same for the next request with this method.
    failure_at: Option<(String, u16, Value)>,
    /// Clients that get no answer, by name.
    cut_off: Vec<String>,
}

/// The fake. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
}

impl FakeApi {
    pub(crate) fn client(&self) -> kube::Client {
        self.client_of("anybody")
    }

    /// A client that can be cut off by its name.
    pub(crate) fn client_of(&self, name: &str) -> kube::Client {
        let (fake, name) = (self.clone(), name.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (fake, name) = (fake.clone(), name.clone());
            async move {
                fake.connected(&name).await;
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let seen = Seen {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    body,
                };
                let (code, answer) = fake.answer(seen);
                fake.connected(&name).await;
                let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Waits while the client is cut off.
    async fn connected(&self, name: &str) {
        let mut changed = self.changed.subscribe();
        while self.state.lock().unwrap().cut_off.iter().any(|cut| cut == name) {
            changed.changed().await.unwrap();
        }
    }

    /// From now on the client gets no answers; or gets them again.
    pub(crate) fn cut_off(&self, name: &str, cut: bool) {
        let mut state = self.state.lock().unwrap();
        state.cut_off.retain(|other| other != name);
        if cut {
            state.cut_off.push(name.to_owned());
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Answers the next request so, whatever it is.
    pub(crate) fn fail_next(&self, code: u16, reason: &str, message: &str, details: &Value) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason,
            "code": code, "details": details,
        });
        self.state.lock().unwrap().failures.push_back((code, status));
    }

    /// Answers the next request with this method so.
    pub(crate) fn fail_at(&self, method: &str, code: u16, reason: &str, message: &str) {
        self.fail_about(method, code, reason, message, &Value::Null);
    }

    /// The same, with the details of what it is about.
    pub(crate) fn fail_about(&self, method: &str, code: u16, reason: &str, message: &str, details: &Value) {
        let (code, mut status) = status(code, reason, message);
        if !details.is_null() {
            status["details"] = details.clone();
        }
        self.state.lock().unwrap().failure_at = Some((method.to_owned(), code, status));
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Puts an object there as if somebody else had.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let mut state = self.state.lock().unwrap();
        let uid = state.objects.get(path).map(|old| old["metadata"]["uid"].clone());
        state.store(path, object, uid);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().unwrap().objects.remove(path);
    }

    /// As `kubectl delete` does.
    pub(crate) fn delete(&self, path: &str) {
        self.state.lock().unwrap().delete(path);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    fn answer(&self, seen: Seen) -> (u16, Value) {
        let mut state = self.state.lock().unwrap();
        state.seen.push(seen.clone());
        if let Some(failure) = state.failures.pop_front() {
            return failure;
        }
        if state.failure_at.as_ref().is_some_and(|(method, _, _)| *method == seen.method.as_str())
            && let Some((_, code, status)) = state.failure_at.take()
        {
            return (code, status);
        }
        let is_object = state.objects.contains_key(&seen.path);
        match seen.method {
            Method::GET if is_object => (200, state.objects[&seen.path].clone()),
            Method::GET
                if seen.path.contains("/namespaces/") || seen.path.contains("webhookconfigurations/") =>
            {
                not_found(&seen.path)
            }
            Method::GET => (200, state.list(&seen)),
            Method::POST => {
                let path = format!("{}/{}", seen.path, seen.body["metadata"]["name"].as_str().unwrap());
                if state.objects.contains_key(&path) {
                    return status(409, "AlreadyExists", "already exists");
                }
                (201, state.store(&path, seen.body, None))
            }
            Method::PUT => state.replace(&seen),
            Method::PATCH => {
                let path = seen.path.strip_suffix("/status").unwrap_or(&seen.path).to_owned();
                let Some(mut object) = state.objects.get(&path).cloned() else { return not_found(&path) };
                let uid = Some(object["metadata"]["uid"].clone());
                if seen.body.is_array() {
                    let operations: json_patch::Patch = serde_json::from_value(seen.body.clone()).unwrap();
                    if let Err(error) = json_patch::patch(&mut object, &operations) {
                        return status(422, "", &error.to_string());
                    }
                } else {
                    json_patch::merge(&mut object, &seen.body);
                }
                if Some(&object["metadata"]["uid"]) != uid.as_ref() {
                    return status(422, "Invalid", "metadata.uid: field is immutable");
                }
                (200, state.store(&path, object, uid))
            }
            Method::DELETE => {
                let Some(object) = state.objects.get(&seen.path) else { return not_found(&seen.path) };
                let wanted = &seen.body["preconditions"]["uid"];
                if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                    return status(409, "Conflict", "the UID in the precondition does not match");
                }
                state.delete(&seen.path);
                status(200, "", "")
            }
            _ => status(405, "MethodNotAllowed", "no such method"),
        }
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value, uid: Option<Value>) -> Value {
        self.version += 1;
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn replace(&mut self, seen: &Seen) -> (u16, Value) {
        let Some(old) = self.objects.get(&seen.path) else { return not_found(&seen.path) };
        let (old, new) = (&old["metadata"], &seen.body["metadata"]);
        let other_uid = !new["uid"].is_null() && new["uid"] != old["uid"];
        if other_uid || new["resourceVersion"] != old["resourceVersion"] {
            return status(409, "Conflict", "the object has been modified");
        }
        let (uid, deleted) = (old["uid"].clone(), old["deletionTimestamp"].clone());
        let mut object = self.store(&seen.path, seen.body.clone(), Some(uid));
        if !deleted.is_null() {
            object["metadata"]["deletionTimestamp"] = deleted;
            self.objects.insert(seen.path.clone(), object.clone());
            if !has_finalizers(&object) {
                self.objects.remove(&seen.path);
            }
        }
        (200, object)
    }

    /// An object with finalizers stays until they are gone.
    fn delete(&mut self, path: &str) {
        let Some(object) = self.objects.get(path).cloned() else { return };
        if has_finalizers(&object) {
            let mut object = object;
            object["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
            let uid = object["metadata"]["uid"].clone();
            self.store(path, object, Some(uid));
        } else {
            self.objects.remove(path);
        }
    }

    /// The objects of a kind over all namespaces.
    fn list(&self, seen: &Seen) -> Value {
        let query: BTreeMap<&str, &str> =
            seen.query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let limit: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let from: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
        let plural = seen.path.rsplit('/').next().unwrap();
        let all: Vec<_> = self
            .objects
            .iter()
            .filter(|(path, _)| path.contains(&format!("/{plural}/")))
            .map(|(_, o)| o)
            .collect();
        let page: Vec<_> = all.iter().skip(from).take(limit).collect();
        let next = from + page.len();
        let next = if next < all.len() { next.to_string() } else { String::new() };
        json!({"kind": "List", "metadata": {"continue": next}, "items": page})
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "apiVersion": "v1", "message": message, "reason": reason, "code": code}))
}

fn not_found(path: &str) -> (u16, Value) {
    let name = path.rsplit('/').next().unwrap();
    let (code, mut status) = status(404, "NotFound", &format!("\"{name}\" not found"));
    status["details"] = json!({ "name": name });
    (code, status)
}
