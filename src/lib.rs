//! Plimsoll.

pub mod metrics;
pub mod server;
pub mod telemetry;
