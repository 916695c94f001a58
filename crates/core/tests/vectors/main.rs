//! The vectors of the specification, one row each, and rows of the same kind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod dynamic;
mod factors;
mod pod_level;
mod records;
mod row;
#[path = "../support/mod.rs"]
mod support;
mod untouched;
