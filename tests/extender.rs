//! The scheduler extender over TLS, with an engine that does as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails here says so"
)]

#[path = "extender/answers.rs"]
mod answers;
#[path = "extender/clients.rs"]
mod clients;
#[path = "extender/limits.rs"]
mod limits;
#[path = "extender/support.rs"]
mod support;
#[path = "common/tls.rs"]
mod tls;
#[path = "common/wait.rs"]
mod wait;
#[path = "extender/watcher.rs"]
mod watcher;
