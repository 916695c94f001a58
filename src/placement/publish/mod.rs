//! The load of nodes, written on the nodes: for schedulers that cannot be asked to call anybody. One replica does it.
//!
//! Writes are few: a label only when the class changes, annotations only when a value does or gets old.

pub(crate) mod calls;
mod round;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use self::calls::Calls;
use self::round::{Patch, Rounds, labelled};
use super::{PlacementState, now};
use crate::cluster::{Limiter, Next, Snapshots, WriteError};
use crate::config;
use crate::metrics::{Metrics, NodeWrite, WriteResult};
use crate::status::Part;

/// The most nodes that are written in a second.
const WRITES_PER_SECOND: u32 = 50;

/// How often it is looked whether the nodes are known.
const READY_POLL: Duration = Duration::from_millis(50);

/// What is written, and how often it is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Classes, where nodes are labelled; `None`: labels that are left of before are taken off.
    pub classes: Option<plimsoll_core::placement::ClassBounds>,
    /// How many seconds the clock of Crane's scheduler is before UTC, where nodes are annotated for it.
    pub crane: Option<i32>,
    /// How often nodes are looked at.
    pub interval: Duration,
}

impl Options {
    /// As configured; `None` where nobody leads. Whoever leads without writing anything takes labels off at least.
    pub fn of(placement: &config::Placement) -> Option<Self> {
        placement.leads().then(|| Self {
            classes: placement.load_class.enabled.then(|| placement.load_class.bounds()),
            crane: placement.crane_annotations.then_some(placement.crane_utc_offset),
            interval: placement.load_class.interval,
        })
    }

    /// Whether nothing is written but what is left of before is taken off.
    const fn only_takes_off(&self) -> bool {
        self.classes.is_none() && self.crane.is_none()
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
    let publisher = Publisher {
        calls: Calls::new(client),
        limiter: Limiter::new(WRITES_PER_SECOND),
        metrics,
        only_takes_off: options.only_takes_off(),
    };
    let mut rounds = Rounds::new(options);
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let write = async {
        loop {
            ticks.tick().await;
            // The load must have been read once: what is not known yet is not gone. Pods are known after all else is.
            if state.pods.is_complete() && state.load.load().taken > 0 {
                let patches = rounds.next(&state, now());
                let may = publisher.write(patches, &mut rounds).await;
                if !may {
                    std::future::pending::<()>().await;
                }
            }
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = write => {}
    }
}

/// What is said where labels cannot be taken off.
const LEFT: &str = "nodes carry plimsoll.dev/load-class although placement.loadClass.enabled is false, and pods go by it; take it off by \
                    `kubectl label nodes --all plimsoll.dev/load-class-`";

/// Says so where nobody leads, and nobody can take labels off: once, when the nodes are known.
pub async fn tell_of_left_labels(snapshots: Arc<Snapshots>, cancelled: CancellationToken) {
    let known = async {
        while !snapshots.is_complete() {
            sleep(READY_POLL).await;
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => return,
        () = known => {}
    }
    let nodes = labelled(&snapshots.current().load()).count();
    if nodes > 0 {
        tracing::warn!(nodes, "{LEFT}");
    }
    cancelled.cancelled().await;
}

/// What may fail, as it is told.
const WRITE: &str = "write load classes to nodes";
/// The same of single nodes.
const ONE: &str = "write a load class to each node";

struct Publisher {
    calls: Calls,
    limiter: Limiter,
    metrics: Arc<Metrics>,
    only_takes_off: bool,
}

impl Publisher {
    /// Writes a round. False: there is no right to it, and no need of it.
    async fn write(&self, patches: Vec<Patch>, rounds: &mut Rounds) -> bool {
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
                // The right went with the component: that is as it should be, and nothing is broken.
                Err(error @ WriteError::Forbidden { .. }) if self.only_takes_off => {
                    tracing::warn!(%error, node = name, "{LEFT}");
                    return false;
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
                    return true;
                }
            }
        }
        // Who was refused is tried in every round.
        if !refused {
            health.works(Part::Balance, ONE);
        }
        true
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
