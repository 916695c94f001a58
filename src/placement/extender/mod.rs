//! The scheduler extender: an HTTPS listener of its own, because it trusts other clients than the others do.
//!
//! ```text
//! POST /scheduler/prioritize, POST /scheduler/filter: kube-scheduler       GET /watcher, GET /watcher/health: Trimaran
//! request -> body, within limits -> pod and names of nodes -> Engine -> whole points, or who is refused and why
//! ```
//!
//! A scheduler places one pod after the other and waits for each answer, so nothing here waits for anybody: no call to
//! an API server, no lock over an await. A request that cannot be served at once is turned away; the scheduler then goes
//! on without us, if the extender is `ignorable`.

mod engine;
mod live;
mod route;
mod seldom;
mod service;

use std::sync::Arc;

use tokio::net::TcpListener;

pub use self::engine::{Engine, Prioritized};
use self::service::Service;
use crate::metrics::Metrics;
use crate::server::{self, CertificateStore, ServerError, ServerOptions, Shutdown};

/// Answers until `shutdown` has drained and everything in flight is answered.
///
/// # Errors
/// When the options cannot be used.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<CertificateStore>,
    options: ServerOptions,
    engine: Arc<dyn Engine>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
) -> Result<(), ServerError> {
    let service = Service::new(engine, options, metrics, shutdown);
    server::serve_with(listener, certificates, service).await
}
