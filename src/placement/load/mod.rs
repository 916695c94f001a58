//! How loaded nodes are, read from Prometheus or metrics-server.
//!
//! ```text
//! PrometheusLoad    one question for each metric and window, one for times, one for each total
//! MetricsServerLoad one call; means are made here
//!      |                         samples are checked, mapped to nodes and counted in core
//!      v
//! Loader -> LoadSnapshot, swapped in at each look; nodes that are not fresh are not in it
//! Usage -> Learner -> ContainerUses and LearntWeights
//! ```
//!
//! What fails leaves what was known before in place, until it is older than the greatest age; then it is gone, node by
//! node. Nothing here is waited for by a scheduler.

mod learner;
mod loader;
mod metrics_server;
mod options;
mod prometheus;
pub mod queries;
mod questions;
mod run;
mod running;
mod series;
pub(crate) mod stored;
mod usage;

pub use self::learner::Learner;
pub use self::loader::{Loader, Look, QueryFailure, Source};
pub use self::metrics_server::MetricsServerLoad;
pub use self::options::{LoadOptions, LoadQueries};
pub use self::prometheus::PrometheusLoad;
pub use self::questions::Question;
pub use self::run::{Parts, run};
pub use self::series::read_node_values;
pub use self::usage::{Usage, UsageLook, UsageQueries};
