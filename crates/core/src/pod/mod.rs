//! What of a pod the decisions read.

mod aggregate;
mod owner;
mod prune;
mod qos;
mod view;

pub use aggregate::{Part, aggregate};
pub(crate) use owner::{controller, group_of};
pub use owner::{Workload, topmost_owner};
pub use prune::{Keep, POD, Prune, Pruned};
pub use qos::is_guaranteed;
pub use view::{Container, Malformed, Place, PodView, Presence, Resources};
