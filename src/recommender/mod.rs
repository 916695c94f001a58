//! From usage to recommendations.

pub mod sources;
