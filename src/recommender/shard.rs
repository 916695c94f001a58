//! The loop of one shard: each scan, usage becomes histograms, and these become recommendations and checkpoints.
//!
//! It runs while this replica leads the shard. Nothing that it waits for holds a lock or is waited for by admission.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::{StreamExt as _, stream};
use plimsoll_core::objects::Objects;
use plimsoll_core::recommender::{
    self, Desired, Key, PastPods, PodFacts, Recommender, Sample, SetAside, SourceHealth, status_json,
};
use plimsoll_core::usage::timestamp_of;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::plan::{Action, Standing};
use super::sources::{Attempts, Progress, Scan, Source};
use super::store::{CheckpointVersion, Store, StoreError, StoredRecommendation, shown};
use crate::cluster::PodChange;
use crate::cluster::backoff::Backoff;
use crate::metrics::{Metrics, RecommenderStep, SampleOutcome};
use crate::status::{Failure, Part, of_shard};

/// What may fail, as it is told.
const LOAD: &str = "read checkpoints and recommendations";
const WRITE: &str = "write recommendations";
const CHECKPOINT: &str = "write checkpoints";
const DELETE: &str = "delete checkpoints";
const SCAN: &str = "read usage";
/// How many writes are under way at a time.
const AT_ONCE: usize = 4;
/// How often all `Recommendation`s are read again, in case somebody changed one by hand.
const RELIST: Duration = Duration::from_secs(1800);
/// How long the last checkpoints may take when the loop ends.
const LAST_WRITES: Duration = Duration::from_secs(3);
/// Pauses between attempts to read what stands in the cluster.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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

    /// Reads what stands in the cluster. There is no going on without: an empty state would be written over a full
    /// one.
    async fn timed_load(&mut self) {
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

    async fn load(&mut self) -> Result<(), StoreError> {
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

    async fn set_aside(&mut self, SetAside { key, message }: SetAside) {
        self.metrics.recommender_set_aside();
        let target = shown(&key);
        tracing::error!(target = %target, why = message, "a checkpoint cannot be used; it is set aside");
        if let Some(version) = self.checkpoints.get(&*key)
            && let Err(error) = self.store.set_aside(&key, version, &message).await
        {
            tracing::warn!(target = %target, %error, "no copy of it could be kept");
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

    /// Reads the past of workloads that have no checkpoint, from a source that remembers it.
    async fn load_past(&mut self) {
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

    /// Deletes checkpoints of what is not known any more, because it is too old.
    async fn delete_checkpoints(&mut self, most: usize) {
        let recommender = &self.recommender;
        let forgotten =
            self.checkpoints.keys().filter(|key| !recommender.knows(key) && !recommender.is_parked(key));
        let forgotten: Vec<Key> = forgotten.take(most.max(1)).cloned().collect();
        for key in forgotten {
            let Some(version) = self.checkpoints.get(&key) else { continue };
            match self.store.delete_checkpoint(&key.namespace, version).await {
                Ok(()) | Err(StoreError::NotFound(_) | StoreError::Conflict(_)) => {
                    self.checkpoints.remove(&key);
                    self.works(Part::Recommender, DELETE);
                }
                Err(error) => {
                    if self.failed(Part::Recommender, DELETE, &error) {
                        tracing::warn!(target = %shown(&key), %error, "a checkpoint could not be deleted");
                    }
                }
            }
        }
    }

    /// How many objects may be written in a scan, so that it ends before the next one.
    fn budget(&self) -> usize {
        let seconds = self.options.scan_interval.as_secs_f64() * 0.75;
        let most =
            Duration::from_secs_f64(seconds).as_millis() * u128::from(self.options.writes_per_second) / 1000;
        usize::try_from(most).unwrap_or(usize::MAX).max(2)
    }

    async fn take_usage(&mut self) {
        let clock = self.options.clock;
        let now = clock();
        if self.attempts.is_due(now) {
            let began = Instant::now();
            let before = self.recommender.counts();
            self.source.set_namespaces(self.recommender.namespaces().map(str::to_owned).collect());
            let scan = if self.options.without_pods {
                self.take_usage_of_strangers(now).await
            } else {
                let recommender = &mut self.recommender;
                self.source.scan(now, &mut |sample| recommender.observe(sample, now)).await
            };
            self.attempts.record(clock(), &scan);
            self.note_failures(&scan);
            self.metrics.recommender_samples(&before, &self.recommender.counts());
            self.metrics.recommender_step(RecommenderStep::Usage, began.elapsed());
        }
        let before = self.recommender.counts();
        let now = clock();
        self.recommender.take_kills(now);
        self.recommender.end_scan(now);
        self.metrics.recommender_samples(&before, &self.recommender.counts());
        let shard = self.options.state.shard;
        self.metrics.recommender_size(shard, self.recommender.aggregates(), self.recommender.bytes());
        let seconds =
            |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()).as_secs_f64();
        let (success, failing) = (self.attempts.last_success(), self.attempts.failing_since());
        self.metrics.recommender_source(shard, success.map(seconds), failing.map(seconds));
    }

    /// Where nobody tells of pods, their usage does.
    async fn take_usage_of_strangers(&mut self, now: i64) -> Scan {
        let mut samples = Vec::new();
        let (recommender, mut new) = (&mut self.recommender, false);
        let scan = self
            .source
            .scan(now, &mut |sample| {
                new |= recommender.introduce(sample);
                let names = [sample.namespace, sample.pod, sample.container].map(str::to_owned);
                samples.push((names, sample.nanos, sample.cpu, sample.memory));
            })
            .await;
        if new {
            self.assign().await;
        }
        for ([namespace, pod, container], nanos, cpu, memory) in &samples {
            let sample = Sample { namespace, pod, container, nanos: *nanos, cpu: *cpu, memory: *memory };
            self.recommender.observe(&sample, now);
        }
        scan
    }

    fn note_failures(&self, scan: &Scan) {
        for (word, count) in scan.skipped.by_reason() {
            self.metrics.recommender_skipped(outcome_of(word), count);
        }
        let Some(failure) = scan.failures.first() else {
            self.works(Part::UsageSource, SCAN);
            return;
        };
        self.metrics.recommender_source_failure();
        if self.failed(Part::UsageSource, SCAN, failure.to_string()) {
            tracing::warn!(
                scope = failure.scope,
                error = failure.message,
                further = scan.failures.len() - 1,
                samples = scan.samples,
                "the source of usage failed; what was learnt stays"
            );
        }
    }

    fn decide(&self, objects: &Objects) -> Vec<Action> {
        let began = Instant::now();
        let now = (self.options.clock)();
        let failing = self.attempts.failing_since();
        let why = self.attempts.last_error().unwrap_or_default();
        let source = SourceHealth { failing: failing.map(|since| (since, why.to_owned())) };
        let desired: Vec<Desired> = self.recommender.desired(objects, now, &source).collect();
        let actions = self.standing.plan(desired, &self.recommender, objects, now);
        self.metrics.recommender_step(RecommenderStep::Recommend, began.elapsed());
        actions
    }

    async fn act(&mut self, actions: Vec<Action>) {
        let now = timestamp_of((self.options.clock)());
        let store = &self.store;
        let done = stream::iter(actions)
            .map(|action| async move {
                match action {
                    Action::Put { desired, stored } => {
                        let before = stored.as_ref().map_or(&Value::Null, |stored| &stored.status);
                        let status = status_json(&desired.status, before, now);
                        let result = store.put_recommendation(&desired, stored.as_deref(), status).await;
                        if let Ok(written) = &result {
                            tell(store, stored.as_deref(), written).await;
                        }
                        let name = stored.map(|stored| (stored.key.namespace, stored.name));
                        Done::Put { target: shown(&desired.key), name, result: result.map(Box::new) }
                    }
                    Action::Delete(stored) => {
                        let result = store.delete_recommendation(&stored).await;
                        Done::Deleted { stored, result }
                    }
                }
            })
            .buffer_unordered(AT_ONCE);
        let done: Vec<Done> = done.collect().await;
        let tried = !done.is_empty();
        let mut failures = 0_usize;
        for done in done {
            failures += usize::from(self.note(done));
        }
        if tried && failures == 0 {
            self.works(Part::Recommender, WRITE);
        }
    }

    /// Takes over what became of an object. Whether it could not be written.
    fn note(&mut self, done: Done) -> bool {
        let (target, error) = match done {
            Done::Put { result: Ok(written), .. } => {
                self.standing.put(*written);
                return false;
            }
            Done::Deleted { stored, result: Ok(()) | Err(StoreError::NotFound(_)) } => {
                self.standing.remove(&stored.key.namespace, &stored.name);
                return false;
            }
            Done::Put { target, name, result: Err(error) } => {
                if let (StoreError::NotFound(_), Some((namespace, name))) = (&error, name) {
                    self.standing.remove(&namespace, &name);
                }
                (target, error)
            }
            Done::Deleted { stored, result: Err(error) } => (shown(&stored.key), error),
        };
        self.relist |= matches!(error, StoreError::Conflict(_));
        if matches!(error, StoreError::Conflict(_) | StoreError::NotFound(_)) {
            tracing::debug!(%target, %error, "a recommendation was changed or deleted meanwhile");
            return false;
        }
        if self.failed(Part::Recommender, WRITE, &error) {
            tracing::warn!(%target, %error, "a recommendation could not be written; trying again at the next scan");
        }
        true
    }

    async fn write_checkpoints(&mut self, keys: Vec<Arc<Key>>) -> Result<(), Superseded> {
        let contents: Vec<_> = keys.iter().filter_map(|key| self.recommender.checkpoint(key)).collect();
        let (store, versions) = (&self.store, &self.checkpoints);
        let written = stream::iter(contents)
            .map(|content| async move {
                let result = store.put_checkpoint(&content, versions.get(&*content.key)).await;
                (content.key, result)
            })
            .buffer_unordered(AT_ONCE);
        let written: Vec<_> = written.collect().await;
        let (mut superseded, mut failed) = (false, false);
        let tried = !written.is_empty();
        let now = (self.options.clock)();
        for (key, result) in written {
            let error = match result {
                Ok(version) => {
                    self.checkpoints.insert(Key::clone(&key), version);
                    self.recommender.checkpoint_written(&key, now);
                    continue;
                }
                Err(error) => error,
            };
            let target = shown(&key);
            match error {
                StoreError::Conflict(_) => {
                    superseded = true;
                    tracing::warn!(%target, %error, "another replica leads; starting anew from what stands there");
                }
                // Deleted by hand, or with its workload: the next one is made anew.
                StoreError::NotFound(_) => {
                    self.checkpoints.remove(&*key);
                }
                StoreError::Refused(_) | StoreError::Forbidden(_) | StoreError::Unavailable(_) => {
                    failed = true;
                    if self.failed(Part::Recommender, CHECKPOINT, &error) {
                        tracing::warn!(%target, %error, "a checkpoint could not be written; trying again at the next scan");
                    }
                }
            }
        }
        if tried && !failed {
            self.works(Part::Recommender, CHECKPOINT);
        }
        if superseded { Err(Superseded) } else { Ok(()) }
    }
}

/// After how many nanoseconds nothing that was learnt is of use to any profile.
fn longest_age(objects: &Objects) -> i64 {
    let ages = objects.profiles().iter().map(|profile| profile.dynamic.maximum_age);
    ages.max().unwrap_or_default().max(8 * 86_400).saturating_mul(1_000_000_000)
}

enum Done {
    Put {
        target: String,
        name: Option<(String, String)>,
        result: Result<Box<StoredRecommendation>, StoreError>,
    },
    Deleted {
        stored: Box<StoredRecommendation>,
        result: Result<(), StoreError>,
    },
}

fn outcome_of(word: &str) -> SampleOutcome {
    match word {
        "missing_labels" => SampleOutcome::MissingLabels,
        "duplicate" => SampleOutcome::Duplicate,
        "no_value" => SampleOutcome::NoValue,
        _ => SampleOutcome::Invalid,
    }
}

/// Publishes an event where a recommendation became usable, or is not any more.
async fn tell(store: &impl Store, before: Option<&StoredRecommendation>, written: &StoredRecommendation) {
    let ready = |stored: &StoredRecommendation| {
        let conditions = stored.status.get("conditions").and_then(Value::as_array)?;
        let text =
            |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
        conditions
            .iter()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"))
            .and_then(|condition| Some((text(condition, "status")? == "True", text(condition, "message")?)))
    };
    let was = before.and_then(ready).is_some_and(|(ready, _)| ready);
    if let Some((is, message)) = ready(written)
        && is != was
    {
        store.tell(written, is, &message).await;
    }
}

#[cfg(test)]
mod tests;
