//! Installed as people install it, on a control plane for that alone: see [`crate::harness::playground`].

pub(super) mod overlays;
