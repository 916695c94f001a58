//! The recommender around its pure part in core: who leads, and what is read from and written to the cluster.

pub mod checkpoints;
mod collection;
mod error;
mod leadership;
mod lease;
mod limiter;
pub mod names;
pub mod objects;

pub use self::checkpoints::Checkpoints;
pub use self::error::{Next, WriteError};
pub use self::leadership::{Leadership, LeadershipOptions, identity, lease_name};
pub use self::limiter::Limiter;
pub use self::names::object_name;
pub use self::objects::{Owner, Recommendations, Version};

/// Who we are to the API server in the fields that we write.
const MANAGER: &str = "plimsoll-recommender";
