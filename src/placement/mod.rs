//! Placement by real load: what is known of nodes and pods, and the ways out to schedulers.

pub mod extender;
pub mod load;
mod nodes_lost;
mod pods;
pub mod publish;
pub mod run;
mod state;

pub use self::pods::PlacedPods;
pub use self::state::PlacementState;

/// The clock, in nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
