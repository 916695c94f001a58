//! The ledger is read and written.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::quota::Tree;
use plimsoll_core::quota::keeper::Superseded;
use plimsoll_core::quota::ledger::Ledger;
use tokio::time::sleep;

use super::kept::Kept;
use super::{AGAIN, Leader, millis};
use crate::cluster::{WriteError, chance};
use crate::crd::QuotaLedgerSpec;
use crate::metrics::ClaimEvent;
use crate::quota::admission::{ReadFailure, read};
use crate::quota::publish::Mark;
use crate::quota::{LedgerStore as _, LedgerVersion, content, pods};

/// So often a write is tried again at once after a conflict.
const ATTEMPTS: u32 = 6;

/// What became of a look at the ledger.
pub(super) enum Written {
    /// It stands like this.
    Now(Ledger),
    /// Another leader writes it.
    Superseded,
    /// It cannot be judged by now.
    NotYet,
}

impl Leader {
    /// The newest ledger. One that somebody deleted is carried over to a fresh object first; one that cannot be used,
    /// and was deleted, is let go.
    pub(super) async fn read(&self, tree: &Tree) -> Result<Option<(LedgerVersion, Ledger)>, ReadFailure> {
        let stored = self.store.read(&tree.name).await.map_err(ReadFailure::Store)?;
        let Some(mut stored) = stored.filter(|stored| stored.deleting) else {
            return read(&self.store, &tree.name).await;
        };
        if content::read(&stored.spec).is_err() {
            let epoch = u64::try_from(stored.spec.epoch).unwrap_or(0).saturating_add(1);
            stored.spec = encoded(&Ledger::unknown(tree, epoch))?;
        }
        tracing::warn!(tree = tree.name, "the quota ledger was deleted; its content is carried over");
        match self.store.recreate(&tree.name, &stored).await {
            Ok(_) | Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => {}
            Err(error) => return Err(ReadFailure::Store(error)),
        }
        read(&self.store, &tree.name).await
    }

    /// Writes what the ledger must become.
    pub(super) async fn write_next(&self, kept: &mut Kept) -> Result<Written, ReadFailure> {
        for attempt in 0..ATTEMPTS {
            let tree = Arc::clone(kept.keeper.tree());
            let Some((version, mut ledger)) = self.read(&tree).await? else {
                self.rebuild(kept).await?;
                return Ok(Written::NotYet);
            };
            let mut counted = false;
            if !ledger.initialised {
                if ledger.epoch != kept.keeper.epoch() {
                    return Ok(Written::Superseded);
                }
                if self.now() < kept.count_at {
                    return Ok(Written::NotYet);
                }
                let wait = match kept.publisher.mark(&kept.stored.tree).await {
                    Mark::Done => None,
                    Mark::Nowhere => Some(self.parts.config.old_after()),
                    Mark::Failed => Some(AGAIN),
                };
                if let Some(wait) = wait {
                    kept.count_at = self.now().saturating_add(millis(wait));
                    return Ok(Written::NotYet);
                }
                // Counted from what is there now, not from what was there before promises could come true.
                let (version, pods) = pods::list(&self.client).await.map_err(ReadFailure::Store)?;
                kept.keeper.listed(pods, version, self.now());
                ledger.initialised = true;
                counted = true;
                tracing::info!(tree = tree.name, "what is in use was counted; the quota ledger is in force");
            }
            let (next, ended) = match kept.keeper.next(&ledger, self.now()) {
                Ok(next) => next,
                Err(Superseded { .. }) => return Ok(Written::Superseded),
            };
            let next = match next {
                Some(next) => next,
                None if counted => ledger,
                None => return Ok(Written::Now(ledger)),
            };
            let spec = encoded(&next)?;
            match self.store.replace(&tree.name, &version, &spec).await {
                Ok(_) => {
                    for _ in 0..ended.claims_expired {
                        self.parts.metrics.quota_claim(ClaimEvent::Expired);
                    }
                    return Ok(Written::Now(next));
                }
                Err(WriteError::Conflict { .. } | WriteError::NotFound { .. }) => {
                    sleep(chance(Duration::from_millis(10 << attempt.min(4)))).await;
                }
                Err(error) => return Err(ReadFailure::Store(error)),
            }
        }
        Ok(Written::NotYet)
    }

    /// The ledger vanished, with what was promised in it.
    async fn rebuild(&self, kept: &mut Kept) -> Result<(), ReadFailure> {
        let tree = Arc::clone(kept.keeper.tree());
        tracing::warn!(tree = tree.name, "the quota ledger is gone; what is in use is counted anew");
        let spec = encoded(&Ledger::unknown(&tree, kept.keeper.epoch()))?;
        kept.count_at = self.now().saturating_add(millis(self.parts.config.old_after()));
        match self.store.create(&tree.name, &spec).await {
            Ok(_) | Err(WriteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(ReadFailure::Store(error)),
        }
    }
}

/// A ledger as it is stored.
pub(super) fn encoded(ledger: &Ledger) -> Result<QuotaLedgerSpec, ReadFailure> {
    content::write(ledger).map_err(|error| ReadFailure::Content(error.to_string()))
}
