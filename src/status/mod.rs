//! How every part of a replica is: what people and scripts are told who ask whether it works.
//!
//! Parts tell [`Health`] what fails and what works again, beside their log. [`StatusSources`] puts that together with
//! the readiness conditions and the leases, and `judge` makes a [`Status`] of it. It never says that
//! all is well while anything is not, or is not known.

mod health;
mod judge;
mod model;
mod sources;

pub(crate) use self::health::of_shard;
pub use self::health::{Failure, Health, LeaseSeen};
pub use self::model::{LastError, Part, PartStatus, State, Status};
pub use self::sources::StatusSources;
