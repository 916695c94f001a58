//! What is read before the first scan: what stands in the cluster, and the past.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::objects::Objects;
use plimsoll_core::recommender::{PastPods, SetAside};
use tokio::time::sleep;

use super::{LOAD, Shard};
use crate::cluster::backoff::Backoff;
use crate::metrics::RecommenderStep;
use crate::recommender::sources::{Progress, Source};
use crate::recommender::store::{Store, StoreError};
use crate::status::Part;

/// Pauses between attempts to read what stands in the cluster.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl<S: Store> Shard<S> {
    /// Reads what stands in the cluster. There is no going on without: an empty state would be written over a full
    /// one.
    pub(super) async fn timed_load(&mut self) {
        let began = Instant::now();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while let Err(error) = self.load().await {
            if self.failed(Part::Recommender, LOAD, &error) {
                tracing::warn!(%error, "checkpoints and recommendations cannot be read; trying again");
            }
            sleep(backoff.pause()).await;
        }
        self.works(Part::Recommender, LOAD);
        self.metrics.recommender_step(RecommenderStep::Load, began.elapsed());
    }

    pub(super) async fn load(&mut self) -> Result<(), StoreError> {
        let checkpoints = self.store.checkpoints().await?;
        self.standing.replace(self.store.recommendations().await?);
        self.listed = Instant::now();
        // As with usage, the age is counted from the newest: a clock that jumped makes nothing old.
        let newest = checkpoints.iter().map(|checkpoint| checkpoint.last).max().unwrap_or_default();
        let newest = newest.min((self.options.clock)());
        let most = longest_age(&self.objects.load());
        for checkpoint in checkpoints {
            if !self.recommender.covers(&checkpoint.key.namespace) {
                continue;
            }
            self.checkpoints.insert(checkpoint.key.clone(), checkpoint.version);
            match checkpoint.content {
                // It is deleted at the next scan.
                Ok(_) if newest.saturating_sub(checkpoint.last) >= most => {}
                Ok(parked) => self.recommender.park(checkpoint.key, parked),
                Err(message) => self.set_aside(SetAside { key: Arc::new(checkpoint.key), message }).await,
            }
        }
        Ok(())
    }

    /// Reads the past of workloads that have no checkpoint, from a source that remembers it.
    pub(super) async fn load_past(&mut self) {
        let namespaces = self.recommender.namespaces_without_past();
        let Source::Prometheus(prometheus) = &self.source else { return };
        if self.options.history.is_zero() || namespaces.is_empty() {
            return;
        }
        let began = Instant::now();
        let before = self.recommender.counts();
        let now = (self.options.clock)();
        let from = now.saturating_sub(i64::try_from(self.options.history.as_nanos()).unwrap_or(i64::MAX));
        let (recommender, mut past) = (&mut self.recommender, PastPods::default());
        let mut told = Instant::now();
        let scan = prometheus
            .history(
                &namespaces,
                from,
                now,
                &mut |sample| recommender.observe_past(&mut past, sample, now),
                &mut |progress: Progress| {
                    if told.elapsed() >= Duration::from_secs(10) {
                        told = Instant::now();
                        tracing::info!(
                            percent = progress.percent,
                            namespaces = progress.namespaces_done,
                            of = progress.namespaces,
                            samples = progress.samples,
                            "reading the past"
                        );
                    }
                },
            )
            .await;
        if scan.failures.is_empty() || scan.samples > 0 {
            self.recommender.past_was_read(&namespaces);
        }
        self.note_failures(&scan);
        self.metrics.recommender_samples(&before, &self.recommender.counts());
        self.metrics.recommender_step(RecommenderStep::History, began.elapsed());
        tracing::info!(samples = scan.samples, namespaces = namespaces.len(), "the past was read");
    }
}

/// After how many nanoseconds nothing that was learnt is of use to any profile.
fn longest_age(objects: &Objects) -> i64 {
    let ages = objects.profiles().iter().map(|profile| profile.dynamic.maximum_age);
    ages.max().unwrap_or_default().max(8 * 86_400).saturating_mul(1_000_000_000)
}
