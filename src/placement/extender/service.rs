//! One request, from its head to its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use plimsoll_core::placement::extender::{self, Args, NoLoad, Wanted};

use super::engine::{Engine, Prioritized};
use super::route::{self, Decide, Route};
use super::seldom::Seldom;
use crate::metrics::{ExtenderOutcome, ExtenderVerb, ListenerMetrics, Metrics};
use crate::server::body::{self, NoBody};
use crate::server::limit::{BodyMemory, Limits};
use crate::server::status::{Refusal, json};
use crate::server::{Handler, Peer, ServerOptions, Shutdown};
use crate::telemetry::panic_text;

/// What is longer is not read by the threads that answer connections: admission must not wait for it. The names of some
/// hundred nodes are shorter.
const LONG_BODY: usize = 32 * 1024;
/// How often it is said that whole nodes are sent.
const WHOLE_NODES_TOLD: Duration = Duration::from_secs(600);

/// What all connections share.
struct Shared {
    engine: Arc<dyn Engine>,
    options: ServerOptions,
    metrics: Arc<Metrics>,
    limits: Limits,
    shutdown: Shutdown,
    whole_nodes: Seldom,
}

/// Answers requests; clones share everything.
#[derive(Clone)]
pub(super) struct Service(Arc<Shared>);

/// An answer, and how the request ended.
type Ended<B = Bytes> = (Result<B, Refusal>, ExtenderOutcome);

/// An answer that is counted until its client has taken it.
struct Held {
    body: Vec<u8>,
    _memory: BodyMemory,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Service {
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        options: ServerOptions,
        metrics: Arc<Metrics>,
        shutdown: Shutdown,
    ) -> Self {
        let limits = Limits::new(options.concurrency, options.body_memory);
        let whole_nodes = Seldom::new(WHOLE_NODES_TOLD);
        Self(Arc::new(Shared { engine, options, metrics, limits, shutdown, whole_nodes }))
    }

    async fn decide(&self, decide: Decide, body: Incoming) -> Ended {
        let Shared { options, limits, metrics, .. } = &*self.0;
        let mut memory = limits.memory();
        let body = match body::read(body, options.body_bytes, options.body_timeout, &mut memory).await {
            Ok(body) => body,
            Err(NoBody::Refused(refusal)) => return self.unread(refusal),
            Err(NoBody::Full(_)) => return overload(true),
        };
        let read = Instant::now();
        // Only now: a slow client must not hold a slot.
        let Some(slot) = limits.slot(options.queue_deadline).await else { return overload(false) };
        // Nodes that pass are in the answer once more.
        if decide == Decide::Filter && !memory.grow(body.len()) {
            return overload(false);
        }
        let shared = Arc::clone(&self.0);
        let is_long = body.len() > LONG_BODY;
        let work = move || {
            let (answer, outcome) = shared.answer(decide, &body);
            // What is still at work is counted, even if its client has gone.
            drop(slot);
            (answer.map(|body| Bytes::from_owner(Held { body, _memory: memory })), outcome)
        };
        let ended = if is_long {
            let done = tokio::task::spawn_blocking(work).await;
            // Panics of the engine are caught in there; what is left is the end of the process.
            done.unwrap_or_else(|_| internal())
        } else {
            work()
        };
        metrics.extender_duration(decide.verb(), read.elapsed());
        ended
    }

    /// What is refused before it was looked at.
    fn unread(&self, refusal: Refusal) -> Ended {
        self.0.metrics.extender_listener().http_rejected(refusal.code);
        (Err(refusal), ExtenderOutcome::Refused)
    }

    fn health(&self) -> Ended {
        if self.0.engine.has_load() {
            return (Ok(Bytes::from_static(b"{}")), ExtenderOutcome::Ok);
        }
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, NoLoad::Unknown.to_string());
        (Err(refusal), ExtenderOutcome::Unavailable)
    }

    async fn watcher(&self, host: Option<&str>) -> Ended {
        // The load of 5,000 nodes is more than a megabyte.
        let Some(_slot) = self.0.limits.slot(self.0.options.queue_deadline).await else {
            return overload(false);
        };
        let load = catch_unwind(AssertUnwindSafe(|| self.0.engine.watcher(host)));
        match load {
            Ok(Ok(body)) => (Ok(Bytes::from(body)), ExtenderOutcome::Ok),
            Ok(Err(error)) => {
                let (code, outcome) = match error {
                    NoLoad::Unknown => (StatusCode::SERVICE_UNAVAILABLE, ExtenderOutcome::Unavailable),
                    NoLoad::Node(_) => (StatusCode::NOT_FOUND, ExtenderOutcome::Refused),
                };
                (Err(Refusal::new(code, error.to_string())), outcome)
            }
            Err(panic) => {
                tracing::error!(panic = panic_text(&*panic), "panic while telling the load of nodes");
                internal()
            }
        }
    }
}

impl Shared {
    fn answer(&self, decide: Decide, body: &[u8]) -> Ended<Vec<u8>> {
        let wanted = match decide {
            Decide::Prioritize => Wanted::Names,
            Decide::Filter => Wanted::Objects,
        };
        let args = match extender::read(body, wanted) {
            Ok(args) => args,
            Err(error) => {
                let refusal = Refusal::new(StatusCode::BAD_REQUEST, error.to_string());
                return (Err(refusal), ExtenderOutcome::Refused);
            }
        };
        self.metrics.extender_nodes(decide.verb(), args.nodes.len(), args.is_whole());
        if args.is_whole() && self.whole_nodes.now(Instant::now()) {
            tracing::warn!(
                nodes = args.nodes.len(),
                bytes = body.len(),
                "the scheduler sends whole nodes, which costs it and us much more than names; set nodeCacheCapable: \
                 true for this extender (`plimsoll manifests scheduler` prints how)"
            );
        }
        // What a panic leaves half-done is dropped; nothing of it is seen afterwards.
        let (body, outcome) = match decide {
            Decide::Prioritize => self.prioritize(&args),
            Decide::Filter => self.filter(&args),
        };
        (Ok(body), outcome)
    }

    fn prioritize(&self, args: &Args<'_>) -> (Vec<u8>, ExtenderOutcome) {
        let names = args.names();
        let decided = catch_unwind(AssertUnwindSafe(|| self.engine.prioritize(args.pod.as_ref(), &names)));
        let (Prioritized { points, weights_from }, outcome) = match decided {
            Ok(decided) => (decided, ExtenderOutcome::Ok),
            Err(panic) => {
                tracing::error!(panic = panic_text(&*panic), "panic while nodes were scored; all are equal");
                (Prioritized::default(), ExtenderOutcome::Equal)
            }
        };
        if let Some(from) = weights_from {
            self.metrics.extender_weights(from);
        }
        (extender::priorities(&names, &points), outcome)
    }

    fn filter(&self, args: &Args<'_>) -> (Vec<u8>, ExtenderOutcome) {
        let names = args.names();
        let decided = catch_unwind(AssertUnwindSafe(|| self.engine.filter(args.pod.as_ref(), &names)));
        let (refused, outcome) = match decided {
            Ok(refused) => (refused, ExtenderOutcome::Ok),
            Err(panic) => {
                tracing::error!(panic = panic_text(&*panic), "panic while nodes were judged; all pass");
                (Vec::new(), ExtenderOutcome::Equal)
            }
        };
        self.metrics.extender_refused(refused.iter().filter(|reason| reason.is_some()).count());
        (extender::filter_result(args, &refused), outcome)
    }
}

impl Handler for Service {
    async fn answer(&self, request: Request<Incoming>, _: &Peer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let (result, outcome) = match route::route(&head) {
            Ok(Route::Decide(decide)) => self.decide(decide, body).await,
            Ok(Route::Watcher(host)) => self.watcher(host.as_deref()).await,
            Ok(Route::Health) => self.health(),
            // The rest of the request is not read, so nothing can follow it on this connection.
            Err(refusal) => self.unread(Refusal { close: has_body, ..refusal }),
        };
        self.0.metrics.extender_request(route::verb(head.uri.path()), outcome);
        match result {
            Ok(body) => json(StatusCode::OK, body),
            Err(refusal) => refuse(&head, refusal),
        }
    }

    fn options(&self) -> &ServerOptions {
        &self.0.options
    }

    fn counts(&self) -> &ListenerMetrics {
        self.0.metrics.extender_listener()
    }

    fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    fn name(&self) -> &'static str {
        "extender"
    }
}

fn refuse(head: &http::request::Parts, refusal: Refusal) -> Response<Full<Bytes>> {
    let code = refusal.code;
    tracing::debug!(code = code.as_u16(), message = refusal.message, "request refused");
    let mut response = refusal.into_response();
    if code == StatusCode::METHOD_NOT_ALLOWED {
        let right = match route::verb(head.uri.path()) {
            ExtenderVerb::Prioritize | ExtenderVerb::Filter => "POST",
            ExtenderVerb::Watcher | ExtenderVerb::Health | ExtenderVerb::Other => "GET",
        };
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(right));
    }
    response
}

fn overload(close: bool) -> Ended {
    let message = "too many requests of schedulers at the same time; try again";
    let refusal = Refusal { close, ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, message) };
    (Err(refusal), ExtenderOutcome::Shed)
}

fn internal() -> Ended {
    let message = "internal error: the request could not be answered; see the server's log";
    (Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)), ExtenderOutcome::Error)
}
