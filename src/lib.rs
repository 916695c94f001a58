//! Plimsoll.

pub mod cluster;
pub mod crd;
pub mod metrics;
pub mod server;
pub mod telemetry;
