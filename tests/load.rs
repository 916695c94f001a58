//! The load of nodes and the usage of containers, from small servers that do as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    reason = "a test that fails here says so"
)]

#[path = "load/bad_input.rs"]
mod bad_input;
#[path = "load/metrics_server.rs"]
mod metrics_server;
#[path = "load/nodes.rs"]
mod nodes;
#[path = "load/usage.rs"]
mod usage;
#[path = "load/world.rs"]
mod world;

#[path = "sources/support.rs"]
#[allow(dead_code, reason = "what other tests need of it")]
mod support;
