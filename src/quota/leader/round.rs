//! One look at the ledger, and what follows from it.

use std::sync::Arc;

use tokio::time::Instant;

use super::kept::{End, Kept};
use super::writing::Written;
use super::{LEDGER, Leader, WEBHOOK};
use crate::cluster::WriteError;
use crate::quota::admission::ReadFailure;
use crate::quota::content;
use crate::status::Part;

impl Leader {
    /// One look at the ledger and what follows from it.
    pub(super) async fn round(&self, kept: &mut Kept) -> Result<Option<End>, ReadFailure> {
        if let Some(end) = self.follow_tree(kept).await? {
            return Ok(Some(end));
        }
        if Instant::now() >= kept.next_webhooks {
            kept.next_webhooks = self.keep_webhooks(kept.keeper.tree()).await;
        }
        if !kept.listed {
            return Ok(None);
        }
        self.recount(kept).await;
        let ledger = match self.write_next(kept).await? {
            Written::Now(ledger) => ledger,
            Written::Superseded => return Ok(Some(End::Superseded)),
            Written::NotYet => return Ok(None),
        };
        self.parts.metrics.health().works(Part::QuotaKeeper, LEDGER);
        content::note(&self.parts.latest, kept.keeper.tree(), &ledger);
        let now = self.now();
        self.check_suspects(kept, &ledger, now).await;
        self.room.serve(&mut kept.keeper, &ledger, now).await;
        kept.publisher.publish(&kept.stored, &ledger).await;
        Ok(None)
    }

    /// Takes over a change of the tree; the end, if it is another one.
    async fn follow_tree(&self, kept: &mut Kept) -> Result<Option<End>, ReadFailure> {
        let Some(current) = self.objects().quota_tree().map(Arc::clone) else { return Ok(Some(End::Tree)) };
        if Arc::ptr_eq(&current, &kept.stored) {
            return Ok(None);
        }
        if current.tree.uid != kept.stored.tree.uid || current.tree.name != kept.stored.tree.name {
            return Ok(Some(End::Tree));
        }
        if current.tree != kept.stored.tree {
            // Whoever counts from now on must be asked about first.
            match self.webhooks.widen(&current.tree, &kept.stored.tree).await {
                Err(error @ WriteError::Unavailable { .. }) => return Err(ReadFailure::Store(error)),
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, WEBHOOK, &error) {
                        tracing::warn!(%error, "the namespaces of the quota webhooks cannot be kept; trying again");
                    }
                }
                Ok(()) => {}
            }
            kept.next_webhooks = Instant::now();
            kept.keeper.set_tree(Arc::clone(&current.tree));
        }
        kept.stored = current;
        Ok(None)
    }
}
