//! The commands that look at a live cluster, as a user runs them, against an API server that has what a test gives it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test that fails this way says where; and long tables"
)]

#[path = "plugin/api.rs"]
mod api;
#[path = "plugin/exits.rs"]
mod exits;
#[path = "plugin/krew.rs"]
mod krew;
#[path = "plugin/status.rs"]
mod status;
#[path = "plugin/tables.rs"]
mod tables;
#[path = "plugin/watch.rs"]
mod watch;
