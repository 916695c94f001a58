//! Evictions for owners of guaranteed room.

use std::sync::Arc;

use kube::Client;

use super::MANAGER;
use crate::cluster;
pub use crate::cluster::{Evicted, EvictionMode as Mode};
use crate::metrics::{EvictionResult, Metrics};

/// Evicts pods.
#[derive(Clone, Debug)]
pub struct Evictor {
    calls: cluster::Evictor,
    metrics: Arc<Metrics>,
}

impl Evictor {
    /// Nothing is called yet.
    pub const fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { calls: cluster::Evictor::new(client, MANAGER), metrics }
    }

    /// Evicts exactly the pod with this uid. Only what is not a dry run is counted.
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str, mode: Mode) -> Evicted {
        let evicted = self.calls.evict(namespace, name, uid, mode).await;
        if mode == Mode::Real {
            self.metrics.quota_eviction(match evicted {
                Evicted::Yes => EvictionResult::Evicted,
                Evicted::Gone => EvictionResult::Gone,
                Evicted::Refused { .. } => EvictionResult::Refused,
                Evicted::Failed(_) => EvictionResult::Failed,
            });
        }
        evicted
    }
}
