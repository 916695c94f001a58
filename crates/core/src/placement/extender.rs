//! The wire format of scheduler extenders, version v1: what kube-scheduler asks, and how it is answered.
//!
//! ```text
//! POST prioritize: ExtenderArgs -> HostPriorityList        POST filter: ExtenderArgs -> ExtenderFilterResult
//! ```
//!
//! The scheduler sends either the names of nodes (`nodeCacheCapable: true`) or whole nodes, which may be tens of
//! megabytes. Everything is borrowed from the request; of whole nodes only names are read, and to give them back their
//! text is copied as it was sent. Scores are whole numbers: one float makes the scheduler drop the whole answer. What is
//! returned was sent, and no name is returned twice: the scheduler would count its score twice.

mod answer;
mod args;
mod watcher;

pub use self::answer::{EQUAL, MOST, filter_result, priorities};
pub use self::args::{Args, ArgsError, Offered, Wanted, read};
pub use self::watcher::{NoLoad, has_load, watcher_metrics};
