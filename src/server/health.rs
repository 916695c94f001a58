//! Probes and metrics over plain HTTP: `/livez`, `/readyz`, `/startupz`, `/metrics`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::{Shutdown, plain};
use crate::metrics::{self, Metrics};

/// The state of one named condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionState {
    /// It holds.
    Ready,
    /// It holds, yet something is not as it should be: why.
    Degraded(String),
    /// It does not hold: why.
    Missing(String),
    /// It does not hold, and no restart would change that: why.
    Stuck(String),
}

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

enum Source {
    Set(Mutex<ConditionState>),
    Asked(Check),
}

struct Entry {
    name: String,
    source: Source,
}

impl Entry {
    fn state(&self) -> ConditionState {
        match &self.source {
            Source::Set(state) => state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Source::Asked(check) => check().map_or_else(ConditionState::Missing, |()| ConditionState::Ready),
        }
    }
}

#[derive(Default)]
struct Inner {
    entries: Mutex<Vec<Arc<Entry>>>,
    started: AtomicBool,
    broken: OnceLock<String>,
    shutdown: Shutdown,
}

/// What must hold before the server is ready: a list of named conditions. Clones share it.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Inner>);

/// One named condition of a [`Readiness`], set by the part of the program it speaks of.
#[derive(Clone)]
pub struct Condition(Arc<Entry>);

impl Condition {
    fn set(&self, state: ConditionState) {
        if let Source::Set(current) = &self.0.source {
            *current.lock().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }

    /// The condition holds.
    pub fn ready(&self) {
        self.set(ConditionState::Ready);
    }

    /// The server can do its work, yet something is not as it should be; `why` is shown by `/readyz`.
    pub fn degraded(&self, why: impl Into<String>) {
        self.set(ConditionState::Degraded(why.into()));
    }

    /// The condition does not hold, and will not before a person does something: a right is missing. `why` is shown by
    /// `/readyz`. It does not count for `/startupz`, since a restart, by the kubelet's patience with the start, would mend
    /// nothing.
    pub fn stuck(&self, why: impl Into<String>) {
        self.set(ConditionState::Stuck(why.into()));
    }

    /// The condition does not hold; `why` is shown by `/readyz`.
    pub fn missing(&self, why: impl Into<String>) {
        self.set(ConditionState::Missing(why.into()));
    }
}

impl Readiness {
    /// No conditions yet; not ready as soon as `shutdown` drains.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Self {
        Self(Arc::new(Inner { shutdown, ..Inner::default() }))
    }

    /// Adds a condition that does not hold until somebody says so.
    #[must_use]
    pub fn condition(&self, name: impl Into<String>) -> Condition {
        let state = Mutex::new(ConditionState::Missing("not there yet".to_owned()));
        Condition(self.add(name.into(), Source::Set(state)))
    }

    /// Adds a condition that is asked at each probe. The check must be quick and must not block.
    ///
    /// It does not count for `/startupz`: what may lapse at any time, as a certificate does, may also come late, and a
    /// restart, by the kubelet's patience with the start, would bring it no sooner.
    pub fn check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add(name.into(), Source::Asked(Box::new(check)));
    }

    fn add(&self, name: String, source: Source) -> Arc<Entry> {
        let entry = Arc::new(Entry { name, source });
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&entry));
        entry
    }

    /// Whether the condition of this name holds, whatever the others do.
    #[must_use]
    pub fn holds(&self, condition: &str) -> bool {
        self.missing().iter().all(|(name, _)| name != condition)
    }

    /// The names of the conditions that do not hold, with the reason. Empty when ready.
    #[must_use]
    pub fn missing(&self) -> Vec<(String, String)> {
        let mut missing = Vec::new();
        let mut started = true;
        for entry in self.entries() {
            match entry.state() {
                ConditionState::Ready | ConditionState::Degraded(_) => {}
                ConditionState::Missing(why) => {
                    started &= matches!(entry.source, Source::Asked(_));
                    missing.push((entry.name.clone(), why));
                }
                ConditionState::Stuck(why) => missing.push((entry.name.clone(), why)),
            }
        }
        if started {
            self.0.started.store(true, Ordering::Relaxed);
        }
        if self.0.shutdown.is_draining() {
            missing.push(("shutdown".to_owned(), "draining".to_owned()));
        }
        missing
    }

    /// Whether all conditions hold now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.missing().is_empty()
    }

    /// Says that a part of the process has died, so that only a restart helps: `/livez` fails from now on.
    pub fn break_down(&self, why: impl Into<String>) {
        // The first one is the cause, the others may be its consequences.
        let _ = self.0.broken.set(why.into());
    }

    /// Why `/livez` fails, if it does.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.0.broken.get().map(String::as_str)
    }

    /// Whether all conditions but those that are asked at each probe, or are stuck, held at the same time at least once.
    #[must_use]
    pub fn has_started(&self) -> bool {
        let _ = self.missing();
        self.0.started.load(Ordering::Relaxed)
    }

    /// Every condition as it is now, in the order in which they were added.
    #[must_use]
    pub fn conditions(&self) -> Vec<(String, ConditionState)> {
        self.entries().iter().map(|entry| (entry.name.clone(), entry.state())).collect()
    }

    /// Cloned out so that no check runs under the lock.
    fn entries(&self) -> Vec<Arc<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One line per condition: `[+]` holds, `[~]` degraded, `[-]` missing.
    fn report(&self) -> (bool, String) {
        let missing = self.missing();
        let mut text = String::new();
        for (name, state) in self.conditions() {
            // Writing to a `String` does not fail.
            let _ = match state {
                ConditionState::Ready => writeln!(text, "[+] {name}: ok"),
                ConditionState::Degraded(why) => writeln!(text, "[~] {name}: degraded: {why}"),
                ConditionState::Missing(why) | ConditionState::Stuck(why) => {
                    writeln!(text, "[-] {name}: {why}")
                }
            };
        }
        if self.0.shutdown.is_draining() {
            text.push_str("[-] shutdown: draining\n");
        }
        text.push_str(if missing.is_empty() { "ready\n" } else { "not ready\n" });
        (missing.is_empty(), text)
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.conditions()).finish()
    }
}

/// Serves the probes and the metrics until `shutdown` is finished: they must answer while the server drains.
pub async fn serve(listener: TcpListener, readiness: Readiness, metrics: Arc<Metrics>, shutdown: Shutdown) {
    let answer = move |request: Request<Incoming>| {
        std::future::ready(answer(request.method(), request.uri().path(), &readiness, &metrics))
    };
    plain::serve(listener, "probes", shutdown, answer).await;
}

fn answer(method: &Method, path: &str, readiness: &Readiness, metrics: &Metrics) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let probe = |ok: bool, text: String| {
        let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        response(status, TEXT, text)
    };
    let known = matches!(path, "/livez" | "/readyz" | "/startupz" | "/metrics");
    if known && method != Method::GET && method != Method::HEAD {
        let mut response = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n".to_owned());
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/livez" => match readiness.broken() {
            Some(why) => probe(false, format!("{why}\n")),
            None => probe(true, "ok\n".to_owned()),
        },
        "/readyz" => {
            let (ready, text) = readiness.report();
            probe(ready, text)
        }
        "/startupz" => {
            let (_, text) = readiness.report();
            if readiness.has_started() { probe(true, "started\n".to_owned()) } else { probe(false, text) }
        }
        "/metrics" => response(StatusCode::OK, metrics::CONTENT_TYPE, metrics.encode()),
        _ => response(
            StatusCode::NOT_FOUND,
            TEXT,
            "not found; there are /livez, /readyz, /startupz and /metrics\n".to_owned(),
        ),
    }
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_once_every_condition_holds() {
        let shutdown = Shutdown::new();
        let readiness = Readiness::new(shutdown.clone());
        let snapshots = readiness.condition("snapshots");
        let expired = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&expired);
        readiness.check("certificate", move || {
            if flag.load(Ordering::Relaxed) { Err("expired".to_owned()) } else { Ok(()) }
        });

        assert!(!readiness.has_started());
        snapshots.stuck("a right is missing");
        assert!(readiness.has_started() && !readiness.holds("snapshots"), "a restart brings no right");
        assert!(readiness.report().1.contains("[-] snapshots: a right is missing"));
        snapshots.degraded("CRD ElasticQuotaTree is absent");
        assert!(readiness.has_started() && !readiness.is_ready(), "a start waits for no certificate");
        expired.store(false, Ordering::Relaxed);
        assert!(readiness.is_ready());
        assert!(readiness.report().1.contains("[~] snapshots: degraded: CRD ElasticQuotaTree is absent"));

        expired.store(true, Ordering::Relaxed);
        assert_eq!(readiness.missing(), [("certificate".to_owned(), "expired".to_owned())]);
        assert!(readiness.has_started(), "started is not taken back");

        expired.store(false, Ordering::Relaxed);
        shutdown.drain();
        assert_eq!(readiness.missing(), [("shutdown".to_owned(), "draining".to_owned())]);
    }

    #[test]
    fn paths_and_methods() {
        let readiness = Readiness::default();
        let metrics = Metrics::new("test");
        let rows = [
            ("livez", Method::GET, "/livez", 200),
            ("head", Method::HEAD, "/livez", 200),
            ("ready without conditions", Method::GET, "/readyz", 200),
            ("startup", Method::GET, "/startupz", 200),
            ("metrics", Method::GET, "/metrics", 200),
            ("wrong method", Method::POST, "/readyz", 405),
            ("unknown path", Method::GET, "/", 404),
        ];
        for (rule, method, path, status) in rows {
            assert_eq!(answer(&method, path, &readiness, &metrics).status(), status, "{rule}");
        }
        let _waiting = readiness.condition("snapshots");
        assert_eq!(answer(&Method::GET, "/readyz", &readiness, &metrics).status(), 503);
        readiness.break_down("a task died");
        assert_eq!(answer(&Method::GET, "/livez", &readiness, &metrics).status(), 503);
    }
}
