//! One request, from its head to its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};

use super::Answered;
use super::body::{self, NoBody};
use super::handler::{Handler, Peer};
use super::limit::{Limits, queue_deadline};
use super::status::{Refusal, json};
use super::{Admission, ServerOptions, Shutdown, Stage, request};
use crate::metrics::{ListenerMetrics, Metrics};
use crate::telemetry::panic_text;

/// What all connections share.
#[derive(Debug)]
struct Shared<A> {
    admission: Arc<A>,
    options: Arc<ServerOptions>,
    metrics: Arc<Metrics>,
    limits: Limits,
    shutdown: Shutdown,
}

/// Answers requests; clones share everything.
#[derive(Debug)]
pub(super) struct Service<A>(Arc<Shared<A>>);

impl<A> Clone for Service<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Admission> Service<A> {
    pub(super) fn new(
        admission: Arc<A>,
        options: Arc<ServerOptions>,
        metrics: Arc<Metrics>,
        shutdown: Shutdown,
    ) -> Self {
        let limits = Limits::new(options.concurrency, options.body_memory);
        Self(Arc::new(Shared { admission, options, metrics, limits, shutdown }))
    }

    async fn review(&self, stage: Stage, head: &Parts, body: Incoming) -> Response<Full<Bytes>> {
        let Shared { admission, options, metrics, limits, .. } = &*self.0;
        let mut memory = limits.memory();
        let body = match body::read(body, options.body_bytes, options.body_timeout, &mut memory).await {
            Ok(body) => body,
            Err(NoBody::Refused(refusal)) => return self.refuse(refusal),
            Err(NoBody::Full(beginning)) => {
                let mut response = self.turn_away(stage, &beginning).await;
                // The rest of the request is not read.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                return response;
            }
        };
        let read = Instant::now();
        let deadline = queue_deadline(options.queue_deadline, request::timeout(head));
        // Only now: a slow client must not hold a slot.
        let Some(slot) = limits.slot(deadline).await else {
            return self.turn_away(stage, &body).await;
        };
        let in_flight = metrics.admission_in_flight();
        let mut reply = self.caught(async { admission.begin(stage, body).await }).await;
        drop(slot);
        if let Ok(Answered::Later(later)) = reply {
            reply = self.caught(later).await.map(Answered::Now);
        }
        drop((in_flight, memory));
        metrics.admission_duration(stage, read.elapsed());
        match reply {
            Ok(Answered::Now(reply)) => json(reply.status, reply.body),
            Ok(Answered::Later(_)) => overload().into_response(),
            Err(panicked) => panicked,
        }
    }

    /// The answer when the server is full.
    async fn turn_away(&self, stage: Stage, beginning: &Bytes) -> Response<Full<Bytes>> {
        let Shared { admission, metrics, .. } = &*self.0;
        metrics.admission_shed(stage);
        match self.caught(async { admission.overloaded(stage, beginning) }).await {
            Ok(Some(reply)) => json(reply.status, reply.body),
            Ok(None) => overload().into_response(),
            Err(panicked) => panicked,
        }
    }

    /// Waits for `future`; a panic in it becomes an answer instead of a lost connection.
    async fn caught<T>(&self, future: impl Future<Output = T>) -> Result<T, Response<Full<Bytes>>> {
        // What a panic leaves half-done is dropped with the future; nothing of it is seen afterwards.
        AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| {
            self.0.metrics.admission_panic();
            tracing::error!(panic = panic_text(&*panic), "panic while answering an admission request");
            let message = "internal error: the request could not be answered; see the server's log";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        })
    }

    fn refuse(&self, refusal: Refusal) -> Response<Full<Bytes>> {
        self.0.metrics.listener().http_rejected(refusal.code);
        tracing::debug!(code = refusal.code.as_u16(), message = refusal.message, "request refused");
        refusal.into_response()
    }
}

impl<A: Admission> Handler for Service<A> {
    async fn answer(&self, request: Request<Incoming>, _: &Peer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        match request::stage(&head) {
            Ok(stage) => self.review(stage, &head, body).await,
            // The rest of the request is not read, so nothing can follow it on this connection.
            Err(refusal) => self.refuse(Refusal { close: has_body, ..refusal }),
        }
    }

    fn options(&self) -> &ServerOptions {
        &self.0.options
    }

    fn counts(&self) -> &ListenerMetrics {
        self.0.metrics.listener()
    }

    fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    fn name(&self) -> &'static str {
        "admission"
    }
}

fn overload() -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many admission requests at the same time; try again")
}
