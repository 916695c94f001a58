//! Quota in one process: what every replica does, and what the one that leads does.

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::admission::{self, Queue};
use super::leader::{self, Parts};
use super::{ClusterLedgerStore, leader::ledger_store};
use crate::cluster::{Leadership, LeadershipOptions, Snapshots};
use crate::server::Readiness;

/// What admission needs: where pods wait, and where the ledger is read when the tree is changed.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where pods wait.
    pub queue: Queue,
    /// Where the ledger is.
    pub store: ClusterLedgerStore,
    /// Whether borrowers are evicted for whoever is refused what it owns.
    pub reclaims: bool,
    /// Whether the tree is known.
    pub snapshots: Arc<Snapshots>,
}

/// Opens the door, and decides about who comes through it until nobody holds it any more.
pub fn open(client: &Client, parts: &Parts) -> (Door, impl Future<Output = ()> + Send + use<>) {
    let budget = parts.config.admission_budget;
    let store = ledger_store(client.clone(), parts, budget);
    let (queue, decider) = admission::queue(
        store.clone(),
        parts.snapshots.current(),
        Arc::clone(&parts.metrics),
        Arc::clone(&parts.latest),
        budget,
    );
    let snapshots = Arc::clone(&parts.snapshots);
    (Door { queue, store, reclaims: parts.config.reclaim.enabled, snapshots }, decider.run())
}

/// Waits for the lease, and leads while it is held, until `cancelled`.
pub async fn lead(client: Client, parts: Parts, readiness: Readiness, cancelled: CancellationToken) {
    let config = &parts.config;
    let options = LeadershipOptions::undivided(
        "quota",
        parts.own_namespace.clone(),
        config.lease_duration,
        config.renew_interval,
    );
    let leadership = Leadership::new(client.clone(), options, Arc::clone(&parts.metrics));
    let work = |token| leader::lead(client.clone(), parts.clone(), token);
    let snapshots = Arc::clone(&parts.snapshots);
    // Without the tree nothing is known to be bound; who led then would let everything out.
    let is_ready = || readiness.holds("snapshots") && snapshots.knows_quota_tree();
    leadership.run_when(is_ready, cancelled, work).await;
}
