//! Placement by real load: what is read of nodes and pods, and the ways out to schedulers.

pub mod extender;
pub mod load;
