//! Autoscalers keep their meaning: the rim around `plimsoll_core::hpa`.

pub mod api;
mod pods;
mod shapes;

pub use self::pods::{Changed, Pods};
