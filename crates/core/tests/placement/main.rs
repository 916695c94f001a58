//! Placement: scores by load, by learnt weights and by risk, hot spots, points, refusals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    clippy::type_complexity,
    clippy::option_option,
    reason = "a table is long; a test that fails this way says where"
)]

mod answered;
mod estimates;
mod hot_spots;
mod load;
mod load_class;
mod load_file;
mod placed;
mod points;
mod properties;
mod refusals;
mod risk;
mod weights;
mod world;
