//! The configuration: what is refused and how it is said, which source beats which, and what a reload does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "helpers of tests and long tables; a panic is how a test fails"
)]

mod documented;
mod hpa;
mod placement;
mod quota;
mod recommender;
mod reload;
mod sources;
mod support;
mod values;
