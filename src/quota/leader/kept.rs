//! A tree is kept: its pods are watched, and the ledger is looked at after what they tell, until another tree counts.

use std::sync::Arc;

use plimsoll_core::quota::keeper::{Keeper, KeeperOptions};
use plimsoll_core::quota::{QuotaPod, StoredTree};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::recount::Listed;
use super::{IDLE, Leader, PACE, millis};
use crate::cluster::{self, ClusterOptions, PodChange};
use crate::quota::admission::ReadFailure;
use crate::quota::pods;
use crate::quota::publish::Publisher;

/// So many changes of pods are taken over before the ledger is looked at.
const TAKEN_AT_ONCE: usize = 8192;

/// Why a tree is not kept any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Another tree counts, or none.
    Tree,
    /// Another replica leads.
    Superseded,
}

/// The work for one tree.
pub(super) struct Kept {
    pub(super) keeper: Keeper,
    pub(super) stored: Arc<StoredTree>,
    /// Whether all pods were listed since the epoch was raised.
    pub(super) listed: bool,
    /// When a ledger that is not initialised may be counted anew.
    pub(super) count_at: u64,
    pub(super) publisher: Publisher,
    pub(super) next_recount: Instant,
    /// A list of all pods that is not compared yet.
    pub(super) recount: Option<Listed>,
    pub(super) next_webhooks: Instant,
}

impl Leader {
    /// Keeps the ledger of one tree.
    pub(super) async fn keep(
        &self,
        stored: Arc<StoredTree>,
        token: &CancellationToken,
    ) -> Result<End, ReadFailure> {
        let config = &self.parts.config;
        let publisher = Publisher::new(
            self.status.clone(),
            Arc::clone(&self.events),
            Arc::clone(&self.parts.metrics),
            self.client.clone(),
            &stored.tree,
            &self.parts.own_namespace,
            config,
        )
        .await
        .map_err(ReadFailure::Store)?;
        let (epoch, wait) = self.raise_epoch(&stored, publisher.had_ledger()).await?;
        self.retire_others(&stored.tree).await?;
        let options = KeeperOptions {
            reservation_age: millis(config.old_after()),
            claim_expiry: millis(config.claim_expiry),
            claim_expiry_unprompted: millis(config.claim_expiry_unpatchable),
            ..KeeperOptions::default()
        };
        let mut kept = Kept {
            keeper: Keeper::new(epoch, options, Arc::clone(&stored.tree)),
            stored,
            listed: false,
            count_at: if wait { self.now().saturating_add(millis(config.old_after())) } else { self.now() },
            publisher,
            next_recount: Instant::now() + config.recount_interval,
            recount: None,
            next_webhooks: Instant::now(),
        };
        tracing::info!(tree = kept.stored.name, epoch, "this replica keeps the quota ledger");
        let watching = token.child_token();
        let _guard = watching.clone().drop_guard();
        // Only now: what the leader before counted and released happened before this list.
        let mut changes = cluster::watch_pods(
            self.client.clone(),
            ClusterOptions::default(),
            Arc::clone(&self.parts.metrics),
            watching,
            pods::read,
        );
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        let mut dirty = true;
        loop {
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else { return Ok(End::Tree) };
                    self.take(&mut kept, change, &mut changes);
                    dirty = true;
                }
                _ = ticks.tick() => {
                    // Who is gone already must not be thought of as using anything.
                    if let Ok(change) = changes.try_recv() {
                        self.take(&mut kept, change, &mut changes);
                        dirty = true;
                    }
                    let same_tree = self.objects().quota_tree().is_some_and(|tree| Arc::ptr_eq(tree, &kept.stored));
                    if !dirty && same_tree && last.elapsed() < IDLE {
                        continue;
                    }
                    dirty = false;
                    last = Instant::now();
                    match self.round(&mut kept).await {
                        Ok(None) => {}
                        Ok(Some(end)) => return Ok(end),
                        Err(failure) => {
                            self.complain(&failure);
                            dirty = true;
                            sleep(IDLE).await;
                        }
                    }
                }
            }
        }
    }

    /// Takes over what the watch has to tell.
    fn take(
        &self,
        kept: &mut Kept,
        change: PodChange<Arc<QuotaPod>>,
        more: &mut mpsc::Receiver<PodChange<Arc<QuotaPod>>>,
    ) {
        let now = self.now();
        let mut change = Some(change);
        let mut left = TAKEN_AT_ONCE;
        while let Some(next) = change {
            match next {
                PodChange::Listed(pods, version) => {
                    kept.keeper.listed(pods, version, now);
                    kept.listed = true;
                }
                PodChange::Put(pod) => kept.keeper.put(pod),
                PodChange::Gone { uid, .. } => kept.keeper.gone(&uid, now),
            }
            left -= 1;
            change = if left == 0 { None } else { more.try_recv().ok() };
        }
    }
}
