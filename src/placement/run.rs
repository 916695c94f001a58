//! The tasks of a replica that keep what placement knows.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::nodes_lost::NodesSeen;
use super::{PlacementState, now};
use crate::cluster::Snapshots;
use crate::metrics::Metrics;
use crate::server::health::Condition;
use crate::status::Part;

/// How often it is looked whether what is waited for is there.
const READY_POLL: Duration = Duration::from_millis(50);
/// How often nodes are looked at.
const NODES_POLL: Duration = Duration::from_secs(1);

const NOT_LISTED: &str = "the pods of the cluster are not listed yet";

/// Keeps the table of pods until `cancelled`. `readiness` says when they are known.
///
/// Pods are listed when all else is known: whose they are, and what they are expected to use, is looked up as they are
/// read.
pub async fn follow_pods(
    client: Client,
    state: PlacementState,
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    readiness: Condition,
    cancelled: CancellationToken,
) {
    readiness.missing(NOT_LISTED);
    let known = async {
        while !snapshots.is_complete() {
            sleep(READY_POLL).await;
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => return,
        () = known => {}
    }
    let listed = async {
        while !state.pods.is_complete() {
            // A right that is missing for placement is no reason to answer no pod at all.
            match metrics.health().forbidden(Part::Snapshots, "Pod") {
                Some(why) => readiness.degraded(format!("the pods of the cluster are not known: Pod: {why}")),
                None => readiness.missing(NOT_LISTED),
            }
            sleep(READY_POLL).await;
        }
        readiness.ready();
        std::future::pending::<()>().await;
    };
    let objects = Arc::clone(&state.objects);
    tokio::select! {
        () = state.pods.follow(client, objects, Arc::clone(&metrics), cancelled) => {}
        () = listed => {}
    }
}

/// Looks at the nodes until `cancelled`: whether one is lost, and whether anything is known of their load.
pub async fn look_at_nodes(
    state: PlacementState,
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    readiness: Condition,
    maximum_age: Duration,
    cancelled: CancellationToken,
) {
    let mut ticks = interval(NODES_POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = NodesSeen::default();
    loop {
        tokio::select! {
            () = cancelled.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let now = now();
        if snapshots.is_complete() {
            let lost = seen.look(&state.objects.load());
            if !lost.is_empty() {
                tracing::warn!(nodes = ?lost, "nodes are lost; hot spots are counted over a longer time");
                metrics.placement_nodes_lost(lost.len());
                state.note_node_lost(now);
            }
        }
        let why = no_load(&state, now, maximum_age);
        metrics.degraded("load_missing", why.is_some());
        // A scheduler that gets the same points for all nodes is better off than one that gets no answer.
        match why {
            Some(why) => readiness.degraded(why),
            None => readiness.ready(),
        }
    }
}

/// Why decisions go by no load, if they do.
fn no_load(state: &PlacementState, now: i64, maximum_age: Duration) -> Option<&'static str> {
    let load = state.load.load();
    let oldest = now.saturating_sub(i64::try_from(maximum_age.as_nanos()).unwrap_or(i64::MAX));
    if load.taken == 0 {
        Some("the load of nodes was not read yet; all nodes score the same")
    } else if load.taken < oldest {
        Some("the load of nodes is older than placement.load.maximumAge; all nodes score the same")
    } else if load.nodes.is_empty() {
        Some("no node has a load; all nodes score the same")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::placement::{LoadSnapshot, NodeLoad, Settings};

    use super::*;

    #[test]
    fn when_there_is_no_load() {
        let age = Duration::from_secs(300);
        let now = 1_000_000_000_000;
        for (rule, taken, nodes, why) in [
            ("never read", 0, 0, Some("not read yet")),
            ("too old", now - 300_000_000_001, 1, Some("older than")),
            ("nothing in it", now, 0, Some("no node has a load")),
            ("fresh", now - 299_000_000_000, 1, None),
        ] {
            let state = PlacementState::new(Settings::default(), Arc::default());
            let nodes = (0..nodes).map(|node| (node.to_string().into(), NodeLoad::default())).collect();
            state.load.store(Arc::new(LoadSnapshot { nodes, taken }));
            let found = no_load(&state, now, age);
            assert_eq!(found.is_some(), why.is_some(), "{rule}");
            assert!(found.unwrap_or_default().contains(why.unwrap_or_default()), "{rule}: {found:?}");
        }
    }
}
