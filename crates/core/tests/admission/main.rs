//! The envelope, which pods are skipped, and what `/validate` says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod envelope;
mod matched;
mod review;
mod skipped;
#[path = "../support/mod.rs"]
mod support;
mod validate;
mod would_be;
