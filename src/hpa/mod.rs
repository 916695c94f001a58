//! Autoscalers keep their meaning: the rim around `plimsoll_core::hpa`.
//!
//! [`run`] elects the one replica that keeps autoscalers; [`Pods`] is the table of pods that it, and whoever serves
//! metrics, decides by.

pub mod api;
pub mod apiservice;
mod calls;
mod keeper;
mod look;
mod pods;
pub mod run;
mod scale;
mod selector;
mod tell;

pub use self::pods::{Changed, Pods};
