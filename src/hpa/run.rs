//! The keeping of autoscalers in one process.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use plimsoll_core::admission::Settings;
use tokio_util::sync::CancellationToken;

use super::Pods;
use super::keeper::Keeper;
use crate::cluster::{Leadership, LeadershipOptions, Snapshots};
use crate::config;
use crate::metrics::Metrics;

/// What the keeper needs of its process.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its settings.
    pub config: config::Hpa,
    /// Where the lease is.
    pub own_namespace: String,
    /// What is known of the cluster, but for pods.
    pub snapshots: Arc<Snapshots>,
    /// What of the configuration decisions depend on.
    pub settings: Arc<ArcSwap<Settings>>,
    /// The pods. Where metrics are served somebody else follows them; else the leader does.
    pub pods: Pods,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Waits for the lease, and keeps autoscalers while it is held, until `cancelled`.
pub async fn lead(client: Client, parts: Parts, cancelled: CancellationToken) {
    let (config, snapshots) = (&parts.config, Arc::clone(&parts.snapshots));
    let options = LeadershipOptions::undivided(
        "hpa",
        parts.own_namespace.clone(),
        config.lease_duration,
        config.renew_interval,
    );
    let leadership = Leadership::new(client.clone(), options, Arc::clone(&parts.metrics));
    let work = |token| keep(client.clone(), parts.clone(), token);
    leadership.run_when(|| snapshots.has_autoscalers(), cancelled, work).await;
}

/// Keeps autoscalers until `cancelled`: what the leader does. The snapshots must be complete.
pub async fn keep(client: Client, parts: Parts, cancelled: CancellationToken) {
    let (pods, metrics) = (parts.pods.clone(), Arc::clone(&parts.metrics));
    let follows = !parts.config.serves_metrics();
    let following = cancelled.child_token();
    let _guard = following.clone().drop_guard();
    let follow = async {
        if follows {
            pods.follow(client.clone(), Arc::clone(&metrics), following).await;
        } else {
            following.cancelled().await;
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = follow => {}
        () = Keeper::new(client.clone(), parts).run() => {}
    }
    if follows {
        pods.clear();
    }
    // Another replica tells of them from now on.
    metrics.hpa_states([]);
}
