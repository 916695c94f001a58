//! Autoscalers keep their meaning: the rim around `plimsoll_core::hpa`.

pub mod api;
pub mod apiservice;
mod pods;
mod shapes;

pub use self::pods::{Changed, Pods};
