//! From usage samples to recommendations.
//!
//! A [`Histogram`] counts the samples of one resource by value; their weight halves with each half-life.
//! Times are nanoseconds since 1970 ([`nanos_of`]); there is no clock here.

pub mod buckets;
mod decay;
mod histogram;

pub use buckets::Buckets;
pub use decay::{DAY, FARTHEST, HalfLife, HalfLifeError, Moment, SECOND, nanos_of, timestamp_of};
pub use histogram::{EPSILON, Histogram, REACH, Refused};
