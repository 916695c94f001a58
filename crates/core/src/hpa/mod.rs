//! Horizontal pod autoscalers.

pub mod controller;
