//! What of a pod the decisions read.

mod aggregate;
mod defaults;
mod owner;
mod prune;
mod qos;
mod view;

pub use aggregate::{Part, aggregate};
pub use defaults::{default_from_limit_ranges, default_requests, defaulted};
pub use owner::{Workload, topmost_owner};
pub(crate) use owner::{controller, group_of};
pub use prune::{Keep, POD, Prune, Pruned};
pub(crate) use prune::{Key, RESOURCES};
pub use qos::is_guaranteed;
pub use view::{Container, Malformed, Place, PodView, Presence, Resources, requests_any};
