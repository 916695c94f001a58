//! Placement by real load. Each scenario has nodes and a scheduler of its own while it runs.

pub(super) mod wire;
