//! From what pods use to what should be recommended, for a whole cluster or a part of it.
//!
//! A [`Recommender`] holds the state: the pods that run, the usage of their workloads, what was loaded from
//! checkpoints. Whoever runs it tells it of pods and samples, and asks each scan what should stand in the
//! cluster: [`Recommender::desired`] and [`Recommender::checkpoints_due`]. [`must_write`] says whether what
//! stands there is near enough. Nothing here waits, has a clock, or calls anybody.

mod assign;
mod changes;
mod checkpoint;
mod desired;
mod fold;
mod json;
mod models;
mod past;
mod pods;
mod shard;
mod state;
mod strangers;
mod subject;

pub use changes::{is_garbage, must_write};
pub use checkpoint::{Parked, ParkedContainer, SetAside, Stored};
pub use desired::{Condition, ConditionType, ContainerStatus, Desired, ResourceStatus, SourceHealth, Status};
pub use json::status_json;
pub use past::{PastPods, workload_of_pod_name};
pub use pods::{ContainerShape, Kill, PodFacts, PodShape, RequestShape, read_pod};
pub use shard::shard_of;
pub use state::{Counts, Key, Options, Recommender, Sample};
