//! What the recommender reads from and writes to a cluster, against an API server that does as a test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test that fails this way says where; and long tables"
)]

#[allow(dead_code, reason = "the tests of quota use the rest")]
#[path = "recommender/fake.rs"]
mod fake;
#[path = "recommender/lease.rs"]
mod lease;
#[path = "recommender/objects.rs"]
mod objects;
