//! Autoscalers keep their meaning: the rim around `plimsoll_core::hpa`.

mod pods;
mod shapes;

pub use self::pods::{Changed, Pods};
