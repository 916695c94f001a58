//! Autoscalers keep their meaning: the rim around `plimsoll_core::hpa`.

pub mod api;
