//! Flavors: on which nodes a quota's pods may run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod admission;
mod affinity;
mod properties;
mod support;
