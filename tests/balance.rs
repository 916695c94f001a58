//! The balance controller against an API server that does as a test says, and `plimsoll balance plan` as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test that fails this way says where; and the fake is that of others too"
)]

#[path = "balance/command.rs"]
mod command;
#[path = "balance/controller.rs"]
mod controller;
#[path = "recommender/fake.rs"]
mod fake;
#[path = "balance/leaders.rs"]
mod leaders;
#[path = "balance/support.rs"]
mod support;
