//! The loop that keeps the snapshot of the load.

use plimsoll_core::placement::{Dropped, KnownNodes, LoadSnapshot, Settings};

use super::prometheus::PrometheusLoad;

/// What became of one look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// All that is known by now; `None`: nothing was ever answered.
    pub snapshot: Option<LoadSnapshot>,
    /// Samples that are not used.
    pub dropped: Dropped,
    /// How many questions were asked.
    pub asked: usize,
    /// How many of them were answered.
    pub answered: usize,
    /// What could not be asked or understood.
    pub failures: Vec<QueryFailure>,
}

/// A question that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryFailure {
    /// The name of its setting, or `nodes` of metrics-server.
    pub query: &'static str,
    /// What failed and what can be done about it.
    pub message: String,
}

/// Where load comes from.
#[derive(Debug)]
pub enum Source {
    /// Prometheus, or what speaks its API.
    Prometheus(PrometheusLoad),
}

impl Source {
    /// Asks what is due at `now`, in nanoseconds since 1970.
    pub async fn look(&mut self, now: i64, nodes: &KnownNodes, settings: &Settings) -> Look {
        match self {
            Self::Prometheus(source) => source.look(now, nodes, settings).await,
        }
    }
}

/// x
#[derive(Debug)]
pub struct Loader;
