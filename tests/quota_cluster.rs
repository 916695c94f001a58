//! What quota reads from and writes to a cluster, against an API server that does as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test that fails this way says where; and the fake is that of others too"
)]

#[path = "quota/calls.rs"]
mod calls;
#[path = "recommender/fake.rs"]
mod fake;
#[path = "quota/store.rs"]
mod store;
#[path = "quota/webhooks.rs"]
mod webhooks;
