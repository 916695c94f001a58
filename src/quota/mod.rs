//! Elastic quota in a cluster: what is read from the API server and written there.
//!
//! What is decided, and why, is in [`plimsoll_core::quota`].

pub mod admission;
mod cluster_store;
pub mod content;
pub mod events;
pub mod evict;
pub mod leader;
mod memory_store;
pub mod owner;
mod pods;
mod publish;
mod room;
pub mod run;
pub mod status;
pub mod store;
pub mod webhooks;

pub use self::cluster_store::{ClusterLedgerStore, FINALIZER};
pub use self::evict::{Evicted, Evictor};
pub use self::memory_store::{Faults, MemoryLedgerStore};
pub(crate) use self::owner::KINDS as RETRIED_KINDS;
pub use self::owner::{OwnerRetry, Retrier};
pub use self::status::{StatusWriter, Written};
pub use self::store::{LedgerStore, LedgerVersion, StoredLedger};
pub use self::webhooks::WebhookKeeper;

use std::time::Duration;

/// Who we are to the API server in the fields that we write.
pub(crate) const MANAGER: &str = "plimsoll-quota";

/// How long one call may take that nobody's pod waits for.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
