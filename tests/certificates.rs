//! Self-managed certificates: in a simulated world, and against an API server without a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test that fails this way says where; and the fake is that of others too"
)]

#[path = "certificates/simulation.rs"]
mod simulation;
