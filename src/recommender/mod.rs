//! From usage to recommendations, in the background.
//!
//! The state is [`plimsoll_core::recommender::Recommender`], which knows neither clock nor network. Here it is fed by
//! [`sources`] and by a watch of pods, and what it says goes to a [`store`].

mod plan;
mod shard;
pub mod sources;
pub mod store;
