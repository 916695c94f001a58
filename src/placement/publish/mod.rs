//! The load of nodes, written on the nodes: for schedulers that cannot be asked to call anybody. One replica does it.
//!
//! Writes are few: a label only when the class changes, annotations only when a value does or gets old.

pub(crate) mod calls;
mod round;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::calls::Calls;
use self::round::{Patch, Rounds};
use super::{PlacementState, now};
use crate::cluster::{Limiter, Next, WriteError};
use crate::config;
use crate::metrics::{Metrics, NodeWrite, WriteResult};
use crate::status::Part;

/// The most nodes that are written in a second.
const WRITES_PER_SECOND: u32 = 50;

/// What is written, and how often it is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Classes, where nodes are labelled.
    pub classes: Option<plimsoll_core::placement::ClassBounds>,
    /// How many seconds the clock of Crane's scheduler is before UTC, where nodes are annotated for it.
    pub crane: Option<i32>,
    /// How often nodes are looked at.
    pub interval: Duration,
}

impl Options {
    /// As configured; `None` where nothing is to be written.
    pub fn of(placement: &config::Placement) -> Option<Self> {
        placement.publishes().then(|| Self {
            classes: placement.load_class.enabled.then(|| placement.load_class.bounds()),
            crane: placement.crane_annotations.then_some(placement.crane_utc_offset),
            interval: placement.load_class.interval,
        })
    }
}

/// Writes until `cancelled`: what the leader does.
pub async fn publish(
    client: Client,
    options: Options,
    state: PlacementState,
    metrics: Arc<Metrics>,
    cancelled: CancellationToken,
) {
    let publisher =
        Publisher { calls: Calls::new(client), limiter: Limiter::new(WRITES_PER_SECOND), metrics };
    let mut rounds = Rounds::new(options);
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let write = async {
        loop {
            ticks.tick().await;
            // The load must have been read once: what is not known yet is not gone. Pods are known after all else is.
            if state.pods.is_complete() && state.load.load().taken > 0 {
                let patches = rounds.next(&state, now());
                publisher.write(patches, &mut rounds).await;
            }
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = write => {}
    }
}

/// What may fail, as it is told.
const WRITE: &str = "write load classes to nodes";
/// The same of single nodes.
const ONE: &str = "write a load class to each node";

struct Publisher {
    calls: Calls,
    limiter: Limiter,
    metrics: Arc<Metrics>,
}

impl Publisher {
    async fn write(&self, patches: Vec<Patch>, rounds: &mut Rounds) {
        let health = self.metrics.health();
        let mut refused = false;
        for patch in patches {
            self.limiter.turn().await;
            let result = self.calls.patch(&patch.node, &patch.metadata).await;
            self.count(&patch, &result);
            let name = &patch.node.name;
            match result {
                Ok(()) => {
                    health.works(Part::Balance, WRITE);
                    rounds.written(patch);
                }
                // It is gone, or another one by now: the next round knows.
                Err(error) if error.next() == Next::Reread => {
                    tracing::debug!(%error, node = name, "a node was not written");
                }
                Err(error @ WriteError::Refused { .. }) => {
                    refused = true;
                    if health.failed(Part::Balance, ONE, &error) {
                        tracing::warn!(%error, node = name, "a node was not written; the next round tries again");
                    }
                }
                // The same would happen to all others; the next round tries again.
                Err(error) => {
                    if health.failed(Part::Balance, WRITE, &error) {
                        tracing::warn!(%error, node = name, "nodes are not written for now; the next round tries again");
                    }
                    return;
                }
            }
        }
        // Who was refused is tried in every round.
        if !refused {
            health.works(Part::Balance, ONE);
        }
    }

    fn count(&self, patch: &Patch, result: &Result<(), WriteError>) {
        let result = match result {
            Ok(()) => WriteResult::Success,
            Err(error) if error.next() == Next::Reread => WriteResult::Conflict,
            Err(_) => WriteResult::Failure,
        };
        for (kind, has) in
            [(NodeWrite::Label, patch.has_label), (NodeWrite::Annotations, patch.crane.is_some())]
        {
            if has {
                self.metrics.placement_node_write(kind, result);
            }
        }
    }
}
