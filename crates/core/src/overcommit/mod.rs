//! What the requests of a pod become under a profile.
//!
//! [`plan`] takes the pod, the profile, the namespace's `LimitRange`s and the recommendations, and
//! gives one [`Line`] for each container and resource it considered: the original, the result, and the
//! rule that led there. The patch, the annotations and `explain` are all made from these lines.

mod amount;
mod applied;
mod bounds;
mod dynamic;
mod effective;
mod lower;
mod plan;
mod pod_level;
mod reason;
mod record;
mod restore;
mod vpa;

pub use amount::Amount;
pub use bounds::PodBounds;
pub use dynamic::{Lookup, Recommended};
pub use effective::Effective;
pub(crate) use lower::{Wanted, rounded};
pub(crate) use plan::resources;
pub use plan::{Inputs, Line, Plan, Requested, Target, plan};
pub use reason::{Held, Kept, Rule};
pub use record::{Record, write as write_record};
pub(crate) use restore::Originals;
pub use restore::restored;
pub use vpa::final_resources;
