//! Plimsoll.

pub mod cli;
pub mod config;
pub mod input;
pub mod yaml;
