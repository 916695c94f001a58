//! Which pod leaves the busiest node, and why all others stay.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::too_many_lines,
    reason = "a test that fails this way says where"
)]

mod excluded;
mod fitting;
mod quota;
mod returns;
mod rounds;
mod simulated;
mod support;
mod uses;
mod vectors;
