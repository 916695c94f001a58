//! Quota in one process: what every replica does, and what the one that leads does.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::admission::{self, Queue};
use super::leader::{self, Parts};
use super::{ClusterLedgerStore, leader::ledger_store};
use crate::cluster::{Leadership, LeadershipOptions, identity};
use crate::server::Readiness;

/// How often it is looked whether the snapshots are complete.
const READY_POLL: Duration = Duration::from_millis(50);

/// What admission needs: where pods wait, and where the ledger is read when the tree is changed.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where pods wait.
    pub queue: Queue,
    /// Where the ledger is.
    pub store: ClusterLedgerStore,
    /// Whether borrowers are evicted for whoever is refused what it owns.
    pub reclaims: bool,
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
    (Door { queue, store, reclaims: parts.config.reclaim.enabled }, decider.run())
}

/// Waits for the lease, and leads while it is held, until `cancelled`.
pub async fn lead(client: Client, parts: Parts, readiness: Readiness, cancelled: CancellationToken) {
    let complete = async {
        // The conditions of others are no concern of ours.
        while readiness.missing().iter().any(|(name, _)| name == "snapshots") {
            sleep(READY_POLL).await;
        }
    };
    tokio::select! {
        () = complete => {}
        () = cancelled.cancelled() => return,
    }
    let environment: Vec<_> = std::env::vars().collect();
    let options = LeadershipOptions {
        part: "quota",
        namespace: parts.own_namespace.clone(),
        identity: identity(&environment),
        shards: 1,
        duration: parts.config.lease_duration,
        renew_interval: parts.config.renew_interval,
    };
    let leadership = Leadership::new(client.clone(), options, Arc::clone(&parts.metrics));
    leadership.run(0, cancelled, |token| leader::lead(client.clone(), parts.clone(), token)).await;
}
