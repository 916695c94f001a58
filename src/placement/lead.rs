//! What one replica does for all: labels, annotations, balance. They share one lease.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::PlacementState;
use super::publish::{self, Options};
use crate::cluster::{Leadership, LeadershipOptions, Snapshots, identity};
use crate::config;
use crate::metrics::Metrics;

/// How often it is looked whether the objects are known.
const READY_POLL: Duration = Duration::from_millis(50);

/// What the leader needs of its process.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its settings.
    pub config: config::Placement,
    /// Where the lease is.
    pub own_namespace: String,
    /// What is known.
    pub state: PlacementState,
    /// Whether all objects are.
    pub snapshots: Arc<Snapshots>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Waits for the lease, and works while it is held, until `cancelled`.
pub async fn lead(client: Client, parts: Parts, cancelled: CancellationToken) {
    let complete = async {
        while !parts.snapshots.is_complete() {
            sleep(READY_POLL).await;
        }
    };
    tokio::select! {
        () = complete => {}
        () = cancelled.cancelled() => return,
    }
    let environment: Vec<_> = std::env::vars().collect();
    let options = LeadershipOptions {
        part: "balance",
        namespace: parts.own_namespace.clone(),
        identity: identity(&environment),
        shards: 1,
        duration: parts.config.lease_duration,
        renew_interval: parts.config.renew_interval,
    };
    let leadership = Leadership::new(client.clone(), options, Arc::clone(&parts.metrics));
    leadership.run(0, cancelled, |token| work(client.clone(), parts.clone(), token)).await;
}

/// Works until `cancelled`: what the leader does.
async fn work(client: Client, parts: Parts, cancelled: CancellationToken) {
    let Parts { config, state, snapshots, metrics, .. } = parts;
    let published = async {
        match Options::of(&config) {
            Some(options) => {
                publish::publish(client, options, state, snapshots, metrics, cancelled.clone()).await;
            }
            None => cancelled.cancelled().await,
        }
    };
    published.await;
}
