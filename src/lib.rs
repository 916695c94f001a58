//! Plimsoll.

pub mod admission;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod crd;
pub mod input;
pub mod metrics;
pub mod server;
pub mod standalone;
pub mod telemetry;
pub mod yaml;
