//! Plimsoll.

pub mod cli;
pub mod cluster;
pub mod config;
pub mod crd;
pub mod input;
pub mod metrics;
pub mod server;
pub mod telemetry;
pub mod yaml;
