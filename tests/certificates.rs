//! Self-managed certificates: in a simulated world, and against an API server without a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test that fails this way says where; and the fakes are those of others too"
)]

#[path = "certificates/cluster.rs"]
mod cluster;
#[path = "recommender/fake.rs"]
mod fake;
#[path = "certificates/inspect.rs"]
mod inspect;
#[path = "certificates/simulation.rs"]
mod simulation;
#[path = "server/support.rs"]
mod support;
#[path = "common/wait.rs"]
mod wait;
#[path = "certificates/world.rs"]
mod world;
