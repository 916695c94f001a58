//! From usage samples to recommendations.
//!
//! A [`Histogram`] counts the samples of one resource by value; their weight halves with each half-life. An
//! [`Aggregate`] holds those of a container, or of the same container in all pods of a workload, and decides
//! which samples are taken, with a [`Track`] for what it must remember of each container. A [`Model`] says how:
//! it is a profile's dynamic part. An [`Estimate`] is what comes out, and a [`Checkpoint`] keeps it all over a
//! restart.
//!
//! Times are nanoseconds since 1970 ([`nanos_of`]); there is no clock here.

pub mod buckets;
mod checkpoint;
mod container;
mod decay;
mod histogram;
mod model;
mod occupied;
mod recommend;
mod window;

pub use buckets::Buckets;
pub use checkpoint::{Checkpoint, CheckpointError, HistogramCheckpoint, VERSION};
pub use container::{AHEAD, Aggregate, Dropped, Oom, Reason, Track, Usage};
pub use decay::{DAY, FARTHEST, HalfLife, HalfLifeError, Moment, SECOND, nanos_of, timestamp_of};
pub use histogram::{EPSILON, Histogram, REACH, Refused};
pub use model::{CpuWeight, LEAST_CPU_WEIGHT, Model, ModelError, ResourceModel, Scan, is_amount};
pub use recommend::{Estimate, amount, request, stated};
