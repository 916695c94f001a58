//! The limits of the listener.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The limits of one listener. [`Default`] gives the values that ship.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Where to listen. The listener is bound by the caller; this is for the caller's use.
    pub address: SocketAddr,
    /// The most streams one HTTP/2 connection may have open.
    pub http2_streams: u32,
    /// How many reviews are answered at the same time, both stages together.
    pub concurrency: usize,
    /// The longest a request waits for its turn. It waits no longer than half of the `timeout` in its query.
    pub queue_deadline: Duration,
    /// How many connections are open at the same time; at the limit no more are accepted until one closes.
    pub max_connections: usize,
    /// The most bytes a request's head may have.
    pub header_bytes: usize,
    /// The most headers a request may have.
    pub headers: usize,
    /// How long a client may take to send a request's head, counted from its first byte.
    pub header_timeout: Duration,
    /// The most bytes a body may have.
    pub body_bytes: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// The most bytes that all bodies in memory may have together; a request beyond it is turned away as overload.
    pub body_memory: usize,
    /// How long a connection may be open without a request. Longer than the 90 s after which the API server
    /// itself closes an idle connection, so that the server is never the one who closes first.
    pub idle_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long the server goes on serving after it was told to stop, so that the endpoints are updated first.
    pub drain_delay: Duration,
    /// How long requests in flight may take after that.
    pub shutdown_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8443)),
            http2_streams: 100,
            concurrency: cores.saturating_mul(4),
            queue_deadline: Duration::from_secs(1),
            max_connections: 1024,
            header_bytes: 16 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(5),
            body_bytes: 7 * 1024 * 1024,
            body_timeout: Duration::from_secs(10),
            body_memory: 128 * 1024 * 1024,
            idle_timeout: Duration::from_secs(120),
            handshake_timeout: Duration::from_secs(10),
            drain_delay: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}
