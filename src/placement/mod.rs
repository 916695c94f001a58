//! Placement by real load.

pub mod load;
