//! Sources of usage, against small servers that do as a test says.

#[path = "sources/file.rs"]
mod file;
#[path = "sources/history.rs"]
mod history;
#[path = "sources/metrics_server.rs"]
mod metrics_server;
#[path = "sources/prometheus.rs"]
mod prometheus;
#[path = "sources/support.rs"]
mod support;
#[path = "sources/tls.rs"]
mod tls;
