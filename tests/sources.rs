//! Sources of usage, against small servers that do as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails here says so"
)]

#[path = "sources/file.rs"]
mod file;
#[path = "sources/history.rs"]
mod history;
#[path = "sources/metrics_server.rs"]
mod metrics_server;
#[path = "sources/past.rs"]
mod past;
#[path = "sources/prometheus.rs"]
mod prometheus;
#[path = "sources/support.rs"]
mod support;
#[path = "sources/tls.rs"]
mod tls;
