//! One request, from its head to its answer: who asks, may they, what is there.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use rustls_pki_types::UnixTime;

use super::answer::{Answer, Refusal};
use super::authority::Known;
use super::identity::Identity;
use super::resources::Resources;
use super::review::{Access, Reviewer};
use super::route::{self, Attributes, Served};
use crate::metrics::{ListenerMetrics, Metrics};
use crate::server::limit::Limits;
use crate::server::{Handler, Peer, ServerOptions, Shutdown};
use crate::telemetry::panic_text;

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: Arc<ServerOptions>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shutdown: Shutdown,
    pub(super) limits: Limits,
    pub(super) front_proxy: Arc<ArcSwap<Known>>,
    pub(super) reviewer: Reviewer,
    pub(super) served: Served,
    pub(super) resources: Resources,
}

/// Answers requests; clones share everything.
#[derive(Clone)]
pub(super) struct Service(pub(super) Arc<Shared>);

impl Handler for Service {
    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let group = route::group(head.uri.path());
        // What a panic leaves half-done is dropped with the future; nothing of it is seen afterwards.
        let caught = AssertUnwindSafe(self.decide(&head, peer)).catch_unwind().await;
        let answer = caught.unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(&*panic), "panic while answering a request for metrics");
            Err(Refusal::internal())
        });
        let answer = answer.unwrap_or_else(Answer::from);
        self.0.metrics.hpa_api_request(group, answer.outcome);
        let mut response = answer.into_response();
        // Bodies are not read, so nothing can follow one on this connection.
        if !body.is_end_stream() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn options(&self) -> &ServerOptions {
        &self.0.options
    }

    fn counts(&self) -> &ListenerMetrics {
        self.0.metrics.hpa_api_listener()
    }

    fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    fn name(&self) -> &'static str {
        "aggregated API"
    }
}

impl Service {
    async fn decide(&self, head: &Parts, peer: &Peer) -> Result<Answer, Refusal> {
        let Shared { limits, options, reviewer, served, resources, .. } = &*self.0;
        // What is not there is not there for anybody.
        let (route, right) = route::route(&head.method, &head.uri, *served)?;
        // Which resources there are does not wait behind those who wait for metrics-server: while it is not answered the
        // API server takes the whole group for dead, and no namespace can be deleted.
        let deadline: Duration = options.queue_deadline;
        let _slot = match right {
            Attributes::Path(_) => None,
            Attributes::Resource { .. } => Some(limits.slot(deadline).await.ok_or_else(Refusal::overload)?),
        };
        let who = self.who(&head.headers, peer).await?;
        let access = reviewer.access(&who, &right).await;
        match access.map_err(|error| Refusal::unavailable(error.to_string()))? {
            Access::Allowed => resources.answer(&route, head, &who).await,
            Access::Denied(reason) => Err(Refusal::forbidden(&who, &right, &reason)),
        }
    }

    /// Whose request it is: by the front proxy's word, else by a token.
    async fn who(&self, headers: &HeaderMap, peer: &Peer) -> Result<Identity, Refusal> {
        let known = self.0.front_proxy.load();
        if let Known::Proxy(proxy) = &**known
            && let Some(identity) = proxy.identity(&peer.certificates, headers, UnixTime::now())
        {
            return Ok(identity);
        }
        if let Some(token) = bearer(headers) {
            let who = self.0.reviewer.token(token).await;
            let who = who.map_err(|error| Refusal::unavailable(error.to_string()))?;
            return who.ok_or_else(Refusal::unauthorized);
        }
        if matches!(**known, Known::Nothing) && !peer.certificates.is_empty() {
            let message = "it is not known yet whose client certificates may speak for others; try again";
            return Err(Refusal::unavailable(message));
        }
        Err(Refusal::unauthorized())
    }
}

/// The token, if there is one and only one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        for (rule, values, expected) in [
            ("a token", &["Bearer abc"][..], Some("abc")),
            ("letter case, blanks", &["bearer  abc "], Some("abc")),
            ("another scheme", &["Basic abc"], None),
            ("no token", &["Bearer "], None),
            ("nothing", &[], None),
            ("two", &["Bearer abc", "Bearer def"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(bearer(&headers), expected, "{rule}");
        }
    }
}
