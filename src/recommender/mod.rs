//! From usage to recommendations, in the background.
//!
//! The state is [`plimsoll_core::recommender::Recommender`], which knows neither clock nor network. A `shard`'s loop
//! feeds it from [`sources`] and from a watch of pods, and what it says goes to a [`store`], while this replica has
//! the [`Leadership`](crate::cluster::Leadership).

pub mod checkpoints;
mod cluster_store;
mod collection;
mod memory_store;
pub mod names;
pub mod objects;
mod plan;
mod run;
mod shard;
pub mod sources;
pub mod store;

pub use self::checkpoints::Checkpoints;
pub use self::names::object_name;
pub use self::objects::{Owner, Recommendations, Version};
pub use self::run::{Parts, past_of_usage, run, source};
pub use crate::cluster::{Next, WriteError};

/// Who we are to the API server in the fields that we write.
const MANAGER: &str = "plimsoll-recommender";
