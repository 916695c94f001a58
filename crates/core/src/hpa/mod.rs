//! Autoscalers keep their meaning.
//!
//! The controller of a `HorizontalPodAutoscaler` divides usage by what pods request *now*. Whoever wrote "80 %" meant
//! 80 % of what stands in the manifest, or of the limit. That figure, the *base* of a pod, is known: the originals are
//! recorded on the pod. A target of `T` percent is converted to an average value of `A = T/100 * mean(base)`, so that
//! the controller compares the sum of usage with the sum of bases.
//!
//! ```text
//! Hpa, WorkloadFacts, pods' Shapes -> judge -> Verdict -> convert -> Conversion -> patch (or the sync annotation)
//! ```
//!
//! [`judge`] says whether an autoscaler is to be converted and against what; [`convert`] what its metrics become;
//! [`mutate`] is both at admission. The keeper calls the same two.
//! [`controller`] is a model of what the controller then computes.

mod admission;
mod apiservice;
mod base;
pub mod controller;
mod convert;
mod factor;
mod judge;
mod key;
mod patch;
mod pod;
mod read;
mod record;
mod shape;
mod standing;
mod sync;
mod workload;

pub use admission::{HpaDecision, is_hpa, mutate};
pub use apiservice::{
    ApiServiceError, Holder, MetricsGroup, ServiceRef, Step, Wanted, api_service_name, holder, install,
    remove,
};
pub use base::{BaseError, Figure, base, request};
pub use convert::{Change, Conversion, Note, convert};
pub use factor::{NotKnown, Scaling, Unscaled, percent, scaled, scaling};
pub use judge::{Bases, KeyBase, MeanBase, Seen, TargetFacts, Verdict, Why, judge};
pub use key::MetricKey;
pub use patch::{apply_to, operations};
pub use pod::HpaPod;
pub use read::{Hpa, HpaError, Metric, MetricTarget};
pub use record::{Original, Originals, OriginalsError, Written};
pub(crate) use shape::OF_ONE_POD;
pub use shape::Shape;
pub use standing::{Standing, standing};
pub use sync::{SyncError, read_sync, write_sync};
pub use workload::WorkloadFacts;
