//! Autoscalers keep their meaning: bases, verdicts, conversion, the review.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod admission;
mod apiservice;
mod bases;
mod conversion;
mod factor;
mod properties;
#[path = "../support/mod.rs"]
mod support;
mod texts;
mod verdicts;
mod world;
