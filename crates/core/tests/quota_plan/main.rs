//! Quota: what pods count, whether they fit, and who makes room for them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

mod admission;
mod charges;
mod model;
mod random;
mod reclaim;
mod support;
mod walk;
