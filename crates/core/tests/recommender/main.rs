//! The recommender's state, from pods and samples to what should stand in the cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::unreadable_literal,
    reason = "a test that fails this way says where; the figures stand as they were given"
)]

mod aggregation;
mod checkpoints;
mod collection;
mod conditions;
mod effective;
mod hostile;
mod kills;
mod past;
mod pods;
mod random;
mod reference;
mod samples;
mod support;
mod writes;
