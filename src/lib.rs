//! The Plimsoll server and its commands.
//!
//! Decisions are in `plimsoll-core`; here is everything around them: sockets, files, the cluster.

pub mod admission;
pub mod api;
pub mod balance;
pub mod certificates;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod crd;
pub mod dashboard;
pub mod decisions;
pub mod explained;
mod files;
pub mod hpa;
pub mod input;
mod kinds;
pub mod metrics;
pub mod offline;
pub mod placement;
pub mod profiles;
pub mod quota;
pub mod recommender;
pub mod server;
mod shapes;
pub mod standalone;
pub mod status;
pub mod survey;
pub mod telemetry;
pub mod template;
pub mod usage;
mod visible;
pub mod yaml;
