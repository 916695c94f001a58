//! Pods are counted anew from time to time: a watch may have missed some.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::quota::QuotaPod;
use tokio::time::Instant;

use super::kept::Kept;
use super::{AGAIN, Leader};
use crate::quota::pods;
use crate::status::Part;

/// How long a list of all pods is held before it is compared with what the watch has told: it may be a little behind.
const SETTLE: Duration = Duration::from_secs(3);

/// What may fail, as it is told.
const COUNT: &str = "count pods anew";

/// All pods, the version of the list, and when it was made.
pub(super) type Listed = (Option<u64>, Vec<Arc<QuotaPod>>, Instant);

impl Leader {
    /// Lists all pods when it is time, and compares them a little later with what the watch has told.
    pub(super) async fn recount(&self, kept: &mut Kept) {
        if Instant::now() >= kept.next_recount {
            match pods::list(&self.client).await {
                Ok((version, pods)) => {
                    self.parts.metrics.health().works(Part::QuotaKeeper, COUNT);
                    kept.recount = Some((version, pods, Instant::now()));
                    kept.next_recount = Instant::now() + self.parts.config.recount_interval;
                }
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, COUNT, &error) {
                        tracing::warn!(%error, "the pods cannot be counted anew; trying again");
                    }
                    kept.next_recount = Instant::now() + AGAIN;
                }
            }
        }
        let Some((version, pods, _)) = kept.recount.take_if(|(_, _, at)| at.elapsed() >= SETTLE) else {
            return;
        };
        let drift = kept.keeper.listed(pods, version, self.now());
        self.parts.metrics.quota_recount(drift.namespaces);
        if !drift.is_none() {
            tracing::warn!(
                missing = drift.missing,
                surplus = drift.surplus,
                changed = drift.changed,
                "pods were counted anew, and the watch had not told of all"
            );
        }
    }
}
