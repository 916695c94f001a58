//! Moves pods off the node that is busiest by real load.
//!
//! ```text
//! PlacementState -> plan (plimsoll_core::balance) -> one pod -> noted on the lease -> evicted -> Rounds, events, metrics
//! ```
//!
//! One replica does it, the one that holds the lease `plimsoll-balance`; the same one writes labels and annotations on
//! nodes. What was evicted is noted in an annotation of the lease before it is done, so that the next leader keeps to
//! the pauses and the cap; and because only who holds the lease can write there, nobody evicts who does not lead.

mod answers;
mod claims;
mod controller;
mod memory;
mod plan;
mod refusals;
mod report;
mod rounds;
pub mod run;

pub use self::claims::ClaimReader;
pub use self::controller::{Parts, balance};
pub use self::memory::{MEMO, Memory};
pub use self::plan::{plan_by, settings};
pub use self::report::{CameBack, Candidate, Node, Outcome, Report, SparedPod};
pub use self::rounds::Rounds;

/// Who we are to the API server when pods are evicted.
pub const MANAGER: &str = "plimsoll-balance";
/// The part in the name of the lease.
pub const PART: &str = "balance";
