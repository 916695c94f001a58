//! The rim of the server over real TLS on loopback, with a hand-written client.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what helps tests may fail like a test"
)]

#[path = "server/certificates.rs"]
mod certificates;
#[path = "server/connections.rs"]
mod connections;
#[path = "server/drain.rs"]
mod drain;
#[path = "server/http.rs"]
mod http;
#[path = "server/http2.rs"]
mod http2;
#[path = "server/metrics_document.rs"]
mod metrics_document;
#[path = "server/overload.rs"]
mod overload;
#[path = "server/probes.rs"]
mod probes;
#[path = "server/support.rs"]
mod support;
#[path = "common/wait.rs"]
mod wait;
