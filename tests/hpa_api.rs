//! The aggregated API server over TLS, between an API server and a metrics-server that do as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails here says so"
)]

#[path = "hpa_api/apiservice.rs"]
mod apiservice;
#[path = "hpa_api/identity.rs"]
mod identity;
#[path = "hpa_api/own_metrics.rs"]
mod own_metrics;
#[path = "hpa_api/passed_on.rs"]
mod passed_on;
#[path = "hpa_api/scaled.rs"]
mod scaled;
#[path = "sources/support.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod server;
#[path = "hpa_api/support.rs"]
mod support;
#[path = "common/tls.rs"]
mod tls;
#[path = "common/wait.rs"]
mod wait;
