//! Plimsoll.

pub mod crd;
