//! The aggregated API server: `metrics.k8s.io` in front of metrics-server, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`.
//!
//! ```text
//! request -> who asks (front proxy, else token) -> what for -> may they -> true, scaled or own metrics
//! ```
//!
//! Everybody is told the true usage, byte for byte as metrics-server tells it, but for the controller of
//! autoscalers: what it is told is multiplied by one factor, so that the ratio that it computes is the one that was meant
//! (see `plimsoll_core::hpa::scaling`). What cannot be known is an error; it is never 0, and never the true usage in
//! place of the scaled.

mod answer;
mod authority;
mod cache;
mod discovery;
mod front_proxy;
mod identity;
mod percent;
mod percent_metric;
mod percents;
mod resources;
mod review;
mod route;
mod service;
mod upstream;
mod usage;
mod world;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::authority::Known;
use self::resources::Resources;
pub use self::resources::{Tell, Unkept};
use self::review::Reviewer;
pub use self::route::Served;
use self::service::{Service, Shared};
use self::upstream::Upstream;
pub use self::upstream::UpstreamOptions;
pub use self::world::{PodTable, World};
use crate::metrics::Metrics;
use crate::server::health::Condition;
use crate::server::limit::Limits;
use crate::server::{self, CertificateStore, ServerError, ServerOptions, Shutdown};

/// The least of what a request's head may take: the front proxy sends a header for each group of whoever asks, and there
/// may be thousands.
const HEADERS: usize = 4096;
const HEADER_BYTES: usize = 256 * 1024;

/// What the server is made of.
pub struct Parts {
    /// Which groups it answers for.
    pub served: Served,
    /// The limits of its listener; heads may be large whatever they say.
    pub options: ServerOptions,
    /// Its certificate, with [`ClientAuth::Unjudged`](crate::server::ClientAuth::Unjudged).
    pub certificates: Arc<CertificateStore>,
    /// The API server, which knows whose tokens are and who has which right.
    pub client: Client,
    /// With which credentials metrics-server is asked.
    pub credentials: Config,
    /// Where metrics-server is.
    pub upstream: UpstreamOptions,
    /// The users who are told scaled usage.
    pub identities: Vec<String>,
    /// How often it is looked whose client certificates may speak for others.
    pub front_proxy_interval: Duration,
    /// What is known of the cluster.
    pub world: World,
    /// Is told of autoscalers that are told usage as it is though their pods are lowered.
    pub tell: Tell,
    /// Says when the front proxy's authority was looked for.
    pub readiness: Condition,
    /// Where is counted.
    pub metrics: Arc<Metrics>,
}

/// Answers until `shutdown` has drained and everything in flight is answered.
///
/// # Errors
/// When the options cannot be used.
pub async fn serve(listener: TcpListener, mut parts: Parts, shutdown: Shutdown) -> Result<(), ServerError> {
    parts.options.headers = parts.options.headers.max(HEADERS);
    parts.options.header_bytes = parts.options.header_bytes.max(HEADER_BYTES);
    let front_proxy = Arc::new(ArcSwap::from_pointee(Known::default()));
    let limits = Limits::new(parts.options.concurrency, parts.options.body_memory);
    let resources = Resources {
        upstream: Upstream::new(
            parts.upstream,
            parts.credentials,
            limits.clone(),
            Arc::clone(&parts.metrics),
        ),
        world: parts.world,
        identities: parts.identities.into_iter().collect(),
        tell: parts.tell,
        metrics: Arc::clone(&parts.metrics),
        turns: resources::turns(),
    };
    let service = Service(Arc::new(Shared {
        options: Arc::new(parts.options),
        metrics: Arc::clone(&parts.metrics),
        shutdown,
        limits,
        front_proxy: Arc::clone(&front_proxy),
        reviewer: Reviewer::new(parts.client.clone(), Arc::clone(&parts.metrics)),
        served: parts.served,
        resources,
    }));
    let served = CancellationToken::new();
    let following = authority::follow(
        parts.client,
        front_proxy,
        parts.front_proxy_interval,
        parts.metrics,
        parts.readiness,
        served.clone(),
    );
    let serving = async {
        let result = server::serve_with(listener, parts.certificates, service).await;
        served.cancel();
        result
    };
    let (result, ()) = tokio::join!(serving, following);
    result
}
