//! What of a pod the decisions read.

mod aggregate;
mod defaults;
mod json;
mod owner;
mod prune;
mod qos;
mod view;

pub use aggregate::{Part, aggregate};
pub use defaults::{default_from_limit_ranges, default_requests, defaulted};
pub use json::{Json, Members};
pub use owner::{Owner, Workload, topmost_controller, topmost_owner};
pub(crate) use owner::{controller, group_of};
pub(crate) use prune::Key;
pub use prune::{Keep, POD, Prune, Pruned};
pub use qos::is_guaranteed;
pub use view::{Container, Malformed, Place, PodView, Presence, Resources, requests_any};
