//! The one replica that keeps the targets of autoscalers right.
//!
//! It looks at those that a change may concern, and where something is to become of one it patches the annotation
//! `plimsoll.dev/hpa-sync`. The webhook, in any replica, turns that into targets within the same request. An answer in
//! which the annotation still stands says that no webhook was called: the patch is tried again, with growing pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;
use kube::Client;
use plimsoll_core::admission::{Context, Settings};
use plimsoll_core::hpa::Hpa;
use plimsoll_core::objects::Objects;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Changed;
use super::calls::Calls;
use super::look::{Look, Wanted, look};
use super::run::Parts;
use super::scale::{Scales, UNKNOWN, is_foreign};
use super::tell::{Teller, Told};
use crate::cluster::Limiter;
use crate::cluster::backoff::Backoff;
use crate::cluster::{Next, WriteError};
use crate::metrics::{HpaState, HpaWrite};
use crate::status::Part;

/// What may fail, as it is told.
const WRITE: &str = "write autoscalers";

/// The pauses between writes about one autoscaler that does not become what it should.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// So much later what changed is looked at once more: of what changed together not everything arrives together.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// How often everything is looked at, whatever was heard.
const EVERYTHING: Duration = Duration::from_secs(300);
/// So many writes are under way at the same time: one may wait for a webhook that does not answer.
const AT_ONCE: usize = 8;
/// So many autoscalers are looked at before others get a turn on the thread.
const LOOKED_AT_ONCE: usize = 8;

/// Namespace and name.
type Key = (String, String);

/// What is known of an autoscaler.
struct Known {
    uid: String,
    state: HpaState,
    told: Told,
    /// What the API server answered to the last write, as long as the watch has told nothing newer than the first.
    newer: Option<(Arc<Hpa>, Arc<Hpa>)>,
    backoff: Backoff,
    not_before: Option<Instant>,
    /// What was written last, and taken over.
    written: Option<Wanted>,
    /// Whether the answer to the last write was lost.
    is_uncertain: bool,
    /// The record of what was converted, as it was seen last.
    record: Option<String>,
    /// Whether it was looked at before.
    was_seen: bool,
}

/// A write that is to be made.
struct Write {
    key: Key,
    /// As the watch told it.
    seen: Arc<Hpa>,
    hpa: Arc<Hpa>,
    wanted: Wanted,
    look: Look,
}

/// What everything was judged by the last time.
struct Before {
    objects: Arc<Objects>,
    settings: Arc<Settings>,
}

pub(super) struct Keeper {
    parts: Parts,
    calls: Calls,
    scales: Scales,
    teller: Teller,
    limiter: Limiter,
    before: Option<Before>,
    known: BTreeMap<Key, Known>,
    /// What is to be looked at.
    dirty: BTreeSet<Key>,
    /// What is to be looked at once more, and when.
    afterwards: BTreeMap<Key, Instant>,
    next_everything: Instant,
    next_foreign: Instant,
    /// Where the next round begins.
    resume: Option<Key>,
    /// Whether everything was looked at once. What is seen for the first time after that is new.
    is_settled: bool,
}

impl Keeper {
    pub(super) fn new(client: Client, parts: Parts) -> Self {
        let now = Instant::now();
        Self {
            calls: Calls::new(client.clone()),
            scales: Scales::default(),
            teller: Teller::new(client, parts.metrics.health()),
            limiter: Limiter::new(u32::try_from(parts.config.writes_per_second).unwrap_or(u32::MAX)),
            before: None,
            known: BTreeMap::new(),
            dirty: BTreeSet::new(),
            afterwards: BTreeMap::new(),
            next_everything: now + EVERYTHING,
            next_foreign: now + UNKNOWN,
            resume: None,
            is_settled: false,
            parts,
        }
    }

    /// Keeps autoscalers for ever.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(self.parts.config.sync_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Without all pods a mean is wrong.
            if self.parts.pods.is_complete() {
                self.round().await;
            }
        }
    }

    /// One look at all that a change may concern.
    async fn round(&mut self) {
        let objects = self.parts.snapshots.current().load_full();
        let settings = self.parts.settings.load_full();
        self.mark(&objects, &settings);
        self.before = Some(Before { objects: Arc::clone(&objects), settings: Arc::clone(&settings) });
        let now = Instant::now();
        let mut due: Vec<_> = self.dirty.iter().filter(|key| self.is_due(key, now)).cloned().collect();
        // Where the last round stopped: some that fail again and again must not use up everybody's turns.
        let from = due.partition_point(|key| self.resume.as_ref().is_some_and(|resume| key < resume));
        due.rotate_left(from);
        self.resume = None;
        self.scales.begin();
        let mut writes = Vec::new();
        for (index, key) in due.into_iter().enumerate() {
            // As many as there are turns for; the rest is looked at anew when it is their turn.
            if writes.len() >= self.parts.config.writes_per_second {
                self.resume = Some(key);
                break;
            }
            // Requests are answered on the same threads.
            if index % LOOKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            writes.extend(self.consider(key, &objects, &settings).await);
        }
        self.write(writes).await;
        if !self.known.values().any(|known| known.told.contains_key("failed")) {
            self.parts.metrics.health().works(Part::HpaKeeper, WRITE);
        }
        self.is_settled |= self.resume.is_none();
        self.parts.metrics.hpa_states(self.known.values().map(|known| known.state));
    }

    fn is_due(&self, key: &Key, now: Instant) -> bool {
        self.known.get(key).and_then(|known| known.not_before).is_none_or(|not_before| not_before <= now)
    }

    /// Marks what a change may concern.
    fn mark(&mut self, objects: &Arc<Objects>, settings: &Arc<Settings>) {
        let now = Instant::now();
        let changed = self.parts.pods.take_changed();
        let same_for_all = self.before.as_ref().is_some_and(|before| {
            std::ptr::eq(before.objects.profiles(), objects.profiles())
                && (Arc::ptr_eq(&before.settings, settings) || before.settings == *settings)
        });
        let everything = !same_for_all || changed == Changed::Everywhere || now >= self.next_everything;
        if everything {
            self.next_everything = now + EVERYTHING;
            self.scales.forget();
        }
        let is_foreign_due = now >= self.next_foreign;
        if is_foreign_due {
            self.next_foreign = now + UNKNOWN;
        }
        self.known.retain(|(namespace, name), _| objects.hpa(namespace, name).is_some());
        for namespace in objects.hpa_namespaces() {
            let is_changed = everything
                || matches!(&changed, Changed::In(namespaces) if namespaces.contains(namespace))
                || self.before.as_ref().is_none_or(|before| !objects.scales_as(&before.objects, namespace));
            for hpa in objects.hpas_in(namespace) {
                let key = || (hpa.namespace.clone(), hpa.name.clone());
                if is_changed {
                    self.afterwards.insert(key(), now + AFTERWARDS);
                    self.dirty.insert(key());
                } else if is_foreign_due && is_foreign(hpa) {
                    self.dirty.insert(key());
                }
            }
        }
        let dirty = &mut self.dirty;
        self.afterwards.retain(|key, at| {
            let is_due = *at <= now;
            if is_due {
                dirty.insert(key.clone());
            }
            !is_due
        });
    }

    /// Looks at an autoscaler. What is to be written, if anything is.
    async fn consider(&mut self, key: Key, objects: &Objects, settings: &Settings) -> Option<Write> {
        let Some(seen) = objects.hpa(&key.0, &key.1) else {
            self.dirty.remove(&key);
            return None;
        };
        let known = self.known.entry(key.clone()).or_insert_with(|| Known::of(seen));
        if known.uid != seen.uid {
            *known = Known::of(seen);
        }
        if known.is_uncertain {
            match self.calls.get(&key.0, &key.1).await {
                Ok(hpa) => {
                    known.newer = Some((Arc::clone(seen), Arc::new(hpa)));
                    known.is_uncertain = false;
                }
                Err(error) if error.is_not_found() => {
                    self.dirty.remove(&key);
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "an autoscaler cannot be read; trying again");
                    known.not_before = Some(Instant::now() + known.backoff.pause());
                    return None;
                }
            }
        }
        let hpa = known.current(seen);
        let before = std::mem::replace(&mut known.record, hpa.original.clone());
        if std::mem::replace(&mut known.was_seen, true) || self.is_settled {
            // By the webhook, without us: somebody created it, or changed it.
            self.teller.seen(&hpa, before.as_deref());
        }
        let target = objects.workload(&hpa.namespace, &hpa.target);
        let selector = match target {
            Some(workload) => workload.selector.as_ref(),
            None if is_foreign(&hpa) => {
                let found = self.scales.selector(&self.calls, &hpa).await;
                self.teller.target_unknown(&hpa, found.failure, &mut known.told);
                found.selector
            }
            None => None,
        };
        let pods = selector.map(|selector| self.parts.pods.selected(&hpa.namespace, selector));
        let context = Context { objects, settings, namespace: None, now: Timestamp::now(), defaulted: None };
        let template = target.and_then(|workload| workload.template.as_deref());
        let look = look(&hpa, &pods.unwrap_or_default(), template, &context);
        self.teller.not_done(&hpa, &look.notes, &mut known.told);
        self.teller.mode_not_offered(&hpa, look.unserved, &mut known.told);
        known.state = look.state;
        let Some(wanted) = look.wanted.clone() else {
            known.backoff = Known::first_pause();
            known.not_before = None;
            known.written = None;
            self.dirty.remove(&key);
            return None;
        };
        Some(Write { key, seen: Arc::clone(seen), hpa, wanted, look })
    }

    async fn write(&mut self, writes: Vec<Write>) {
        let (calls, limiter) = (&self.calls, &self.limiter);
        let mut answers = stream::iter(writes)
            .map(|write| async move {
                limiter.turn().await;
                let text = match &write.wanted {
                    Wanted::Text(text) => Some(text.as_str()),
                    Wanted::Nothing => None,
                };
                let answer = calls.patch(&write.hpa, text).await;
                (write, answer)
            })
            .buffer_unordered(AT_ONCE);
        while let Some((write, answer)) = answers.next().await {
            let Some(known) = self.known.get_mut(&write.key) else { continue };
            // It is looked at again even if all went well: when nothing is wanted any more it is done.
            known.not_before = Some(Instant::now() + known.backoff.pause());
            let result = match answer {
                Ok(hpa) => {
                    known.told.remove("failed");
                    let is_pending = hpa.sync.is_some();
                    known.newer = Some((Arc::clone(&write.seen), Arc::new(hpa)));
                    if is_pending {
                        known.state = HpaState::Pending;
                        self.teller.pending(&write.hpa);
                        HpaWrite::Pending
                    } else {
                        known.record = known.newer.as_ref().and_then(|(_, newer)| newer.original.clone());
                        self.teller.done(&write.hpa, &write.look.notes);
                        // In a rollout each look finds something new. Only what does not help is done ever more seldom.
                        if known.written.as_ref() != Some(&write.wanted) {
                            known.backoff = Known::first_pause();
                            known.not_before = Some(Instant::now() + known.backoff.pause());
                            known.written = Some(write.wanted);
                        }
                        HpaWrite::Success
                    }
                }
                Err(WriteError::NotFound { .. } | WriteError::NamespaceEnds { .. }) => {
                    self.known.remove(&write.key);
                    self.dirty.remove(&write.key);
                    HpaWrite::Gone
                }
                // One of that name with another uid does not take it.
                Err(WriteError::Conflict { .. }) => HpaWrite::Conflict,
                Err(error) => {
                    if let Next::Retry(Some(wait)) = error.next() {
                        known.not_before = Some(Instant::now() + wait);
                    }
                    known.is_uncertain = true;
                    known.failed(&error);
                    self.parts.metrics.health().failed(Part::HpaKeeper, WRITE, &error);
                    self.teller.refused(&write.hpa, &error, &mut known.told);
                    HpaWrite::Failure
                }
            };
            self.parts.metrics.hpa_write(result);
        }
    }
}

impl Known {
    fn of(hpa: &Hpa) -> Self {
        Self {
            uid: hpa.uid.clone(),
            state: HpaState::Unknown,
            told: Told::new(),
            newer: None,
            backoff: Self::first_pause(),
            not_before: None,
            written: None,
            is_uncertain: false,
            record: None,
            was_seen: false,
        }
    }

    fn first_pause() -> Backoff {
        let [first, longest] = PAUSES;
        Backoff::new(first, longest)
    }

    /// The newest that is known of it, given what the watch has told.
    fn current(&mut self, seen: &Arc<Hpa>) -> Arc<Hpa> {
        self.newer.take_if(|(before, _)| !Arc::ptr_eq(before, seen));
        self.newer.as_ref().map_or_else(|| Arc::clone(seen), |(_, newer)| Arc::clone(newer))
    }

    /// Says what went wrong, and the same again only after a while.
    fn failed(&mut self, error: &WriteError) {
        const AGAIN: Duration = Duration::from_secs(60);
        let text = error.to_string();
        let is_news = |(last, at): &(String, Instant)| *last != text || at.elapsed() >= AGAIN;
        if self.told.get("failed").is_none_or(is_news) {
            tracing::warn!(%error, "an autoscaler cannot be kept; trying again");
            self.told.insert("failed", (text, Instant::now()));
        }
    }
}
