//! The loop of one shard: each scan, usage becomes histograms, and these become recommendations and checkpoints.
//!
//! It runs while this replica leads the shard. Nothing that it waits for holds a lock or is waited for by admission.

mod checkpoints;
mod load;
mod recommendations;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use plimsoll_core::objects::Objects;
use plimsoll_core::recommender::{self, Key, PodFacts, Recommender};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::plan::Standing;
use super::sources::{Attempts, Source};
use super::store::{CheckpointVersion, Store};
use crate::cluster::PodChange;
use crate::metrics::{Metrics, RecommenderStep};
use crate::status::{Failure, Part, of_shard};

/// What may fail, as it is told.
const LOAD: &str = "read checkpoints and recommendations";
/// How many writes are under way at a time.
const AT_ONCE: usize = 4;
/// How often all `Recommendation`s are read again, in case somebody changed one by hand.
const RELIST: Duration = Duration::from_secs(1800);
/// How long the last checkpoints may take when the loop ends.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// How a shard works.
#[derive(Clone, Debug)]
pub(super) struct ShardOptions {
    /// What the state needs to know.
    pub(super) state: recommender::Options,
    /// How often usage is taken.
    pub(super) scan_interval: Duration,
    /// The most objects that are written in a second.
    pub(super) writes_per_second: u32,
    /// How much of the past is read at the first start.
    pub(super) history: Duration,
    /// Whether there is no cluster that tells of pods.
    pub(super) without_pods: bool,
    /// The clock, in nanoseconds since 1970.
    pub(super) clock: fn() -> i64,
}

/// Somebody else writes our checkpoints: this replica does not lead, whatever it thinks.
#[derive(Debug)]
pub(super) struct Superseded;

/// The loop and all it knows.
pub(super) struct Shard<S> {
    options: ShardOptions,
    objects: Arc<ArcSwap<Objects>>,
    metrics: Arc<Metrics>,
    store: S,
    source: Source,
    attempts: Attempts,
    recommender: Recommender,
    standing: Standing,
    checkpoints: HashMap<Key, CheckpointVersion>,
    listed: Instant,
    relist: bool,
    /// Whether everything that is to be read before the first scan was.
    complete: bool,
}

impl<S: Store> Shard<S> {
    pub(super) fn new(
        options: ShardOptions,
        objects: Arc<ArcSwap<Objects>>,
        metrics: Arc<Metrics>,
        store: S,
        source: Source,
    ) -> Self {
        let recommender = Recommender::new(options.state.clone());
        // A source that is away for a moment is asked again sooner than at the next scan.
        let attempts = Attempts::new(options.scan_interval / 4, options.scan_interval * 5);
        Self {
            options,
            objects,
            metrics,
            store,
            source,
            attempts,
            recommender,
            standing: Standing::default(),
            checkpoints: HashMap::new(),
            listed: Instant::now(),
            relist: false,
            complete: false,
        }
    }

    /// Runs until `cancelled`, or until the pods end.
    pub(super) async fn run(
        mut self,
        mut pods: mpsc::Receiver<PodChange<PodFacts>>,
        cancelled: CancellationToken,
    ) -> Result<(), Superseded> {
        let shard = self.options.state.shard;
        let result = tokio::select! {
            () = cancelled.cancelled() => Ok(()),
            result = self.lead(&mut pods) => result,
        };
        // A part of the past would stand for the whole of it from then on: the next leader does not read it again.
        if result.is_ok() && self.complete {
            // What is lost otherwise is at most one interval; whoever leads now may have written already.
            let _ = timeout(LAST_WRITES, self.write_checkpoints(self.recommender.checkpoints_left())).await;
        }
        self.metrics.recommender_given_up(shard);
        result
    }

    async fn lead(&mut self, pods: &mut mpsc::Receiver<PodChange<PodFacts>>) -> Result<(), Superseded> {
        while let Some(change) = pods.recv().await {
            let listed = matches!(change, PodChange::Listed(..));
            self.take_pod(change);
            if listed {
                break;
            }
        }
        self.timed_load().await;
        self.assign().await;
        self.load_past().await;
        self.complete = true;
        let mut ticks = interval(self.options.scan_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => {
                    while let Ok(change) = pods.try_recv() {
                        self.take_pod(change);
                    }
                    self.scan().await?;
                }
                change = pods.recv() => match change {
                    Some(change) => self.take_pod(change),
                    None => return Ok(()),
                },
            }
        }
    }

    /// A shard that works says nothing of another one that does not.
    fn works(&self, part: Part, what: &str) {
        self.metrics.health().one_works(part, what, of_shard(self.options.state.shard));
    }

    fn failed(&self, part: Part, what: &str, failure: impl Into<Failure>) -> bool {
        self.metrics.health().one_failed(part, what, of_shard(self.options.state.shard), failure)
    }

    fn take_pod(&mut self, change: PodChange<PodFacts>) {
        match change {
            PodChange::Listed(all, _) => self.recommender.replace_pods(all),
            PodChange::Put(pod) => self.recommender.put_pod(pod),
            PodChange::Gone { namespace, name, .. } => self.recommender.remove_pod(&namespace, &name),
        }
    }

    async fn assign(&mut self) {
        let began = Instant::now();
        let objects = self.objects.load_full();
        for set_aside in self.recommender.assign(&objects) {
            self.set_aside(set_aside).await;
        }
        self.metrics.recommender_step(RecommenderStep::Assign, began.elapsed());
    }

    async fn scan(&mut self) -> Result<(), Superseded> {
        self.assign().await;
        self.take_usage().await;
        let objects = self.objects.load_full();
        for key in self.standing.note_deleted(&objects) {
            // The workload was deleted, and with it what belonged to it.
            if self.recommender.pods_of(&key) == 0 {
                self.recommender.forget(&key);
                self.checkpoints.remove(&key);
            }
        }
        if self.relist || self.listed.elapsed() >= RELIST {
            match self.store.recommendations().await {
                Ok(all) => {
                    self.standing.replace(all);
                    self.listed = Instant::now();
                    self.relist = false;
                    self.works(Part::Recommender, LOAD);
                }
                Err(error) => {
                    if self.failed(Part::Recommender, LOAD, &error) {
                        tracing::warn!(%error, "recommendations cannot be read again");
                    }
                }
            }
        }
        let actions = self.decide(&objects);
        let budget = self.budget();
        let checkpoints = self.recommender.checkpoints_due();
        // A fourth of what may be written is kept for checkpoints.
        let most = budget.saturating_sub(checkpoints.len().min(budget / 4)).max(1);
        let began = Instant::now();
        let written = actions.len().min(most);
        self.act(actions.into_iter().take(most).collect()).await;
        self.metrics.recommender_step(RecommenderStep::Write, began.elapsed());
        let began = Instant::now();
        let most = budget.saturating_sub(written).max(1);
        self.write_checkpoints(checkpoints.into_iter().take(most).collect()).await?;
        self.delete_checkpoints(budget / 4).await;
        self.metrics.recommender_step(RecommenderStep::Checkpoint, began.elapsed());
        Ok(())
    }

    /// How many objects may be written in a scan, so that it ends before the next one.
    fn budget(&self) -> usize {
        let seconds = self.options.scan_interval.as_secs_f64() * 0.75;
        let most =
            Duration::from_secs_f64(seconds).as_millis() * u128::from(self.options.writes_per_second) / 1000;
        usize::try_from(most).unwrap_or(usize::MAX).max(2)
    }
}

#[cfg(test)]
mod tests;
