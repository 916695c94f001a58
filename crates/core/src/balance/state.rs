//! What one round hands on to the next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::balance::BalanceSettings;
use crate::balance::spared::Pause;
use crate::placement::{Figures, LoadSettings, Placed, WorkloadKey, unseen_part};

/// So many evictions are remembered at most, the newest.
const MOST_REMEMBERED: usize = 1_000;
const HOUR: i64 = 3_600;
/// The pause of a workload is not doubled beyond this many seconds.
const LONGEST_PAUSE: i64 = 24 * HOUR;
const SECOND: i64 = 1_000_000_000;

/// What one round hands on to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Nodes that are too busy.
    pub(super) hot: BTreeMap<Arc<str>, Hot>,
    /// Evictions, oldest first.
    pub(super) evictions: Vec<PastEviction>,
}

/// For how long a node has been too busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hot {
    /// Rounds in a row above the threshold.
    pub(super) rounds: u32,
    /// Whether it is being relieved: until it is half the threshold above the mean.
    pub(super) active: bool,
    /// When its newest sample was taken, in nanoseconds since 1970. The same sample does not count twice.
    pub(super) sampled: i64,
    /// Whether that was newer than in the round before.
    pub(super) news: bool,
}

/// An eviction, as far as later rounds need it. What it is written as is short: it is kept in an annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastEviction {
    /// The workload, as [`WorkloadKey`] prints it; empty: the sum of several whose pauses are over.
    #[serde(rename = "w")]
    pub workload: String,
    /// The node.
    #[serde(rename = "n")]
    pub node: String,
    /// When, in seconds since 1970.
    #[serde(rename = "t")]
    pub at: i64,
    /// What of the node's CPU it used.
    #[serde(rename = "c", default)]
    pub cpu: f64,
    /// What of its memory.
    #[serde(rename = "m", default)]
    pub memory: f64,
    /// Whether a pod of the workload came back to the node. Then nothing of its usage has gone.
    #[serde(rename = "b", default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
}

impl State {
    /// A state that begins with what was evicted before by another leader. Entries that cannot be, such as of the
    /// future, count as of now.
    pub fn remembering(evictions: impl IntoIterator<Item = PastEviction>, now: i64) -> Self {
        let mut evictions: Vec<PastEviction> = evictions
            .into_iter()
            .map(|past| PastEviction {
                at: past.at.min(now / SECOND),
                cpu: share(past.cpu),
                memory: share(past.memory),
                ..past
            })
            .collect();
        evictions.sort_by_key(|past| past.at);
        Self { evictions, ..Self::default() }
    }

    /// Notes an eviction. For one that was only tried, `cpu` and `memory` are 0: its usage does not go.
    pub fn note(&mut self, eviction: PastEviction) {
        self.evictions.push(eviction);
        let surplus = self.evictions.len().saturating_sub(MOST_REMEMBERED);
        self.evictions.drain(..surplus);
    }

    /// Takes back what was noted last of this workload: it did not happen.
    pub fn take_back(&mut self, workload: &WorkloadKey) {
        let workload = workload.to_string();
        if let Some(index) = self.evictions.iter().rposition(|past| past.workload == workload) {
            self.evictions.remove(index);
        }
    }

    /// The evictions that still count, oldest first.
    pub fn evictions(&self) -> &[PastEviction] {
        &self.evictions
    }

    /// Without the evictions that count for nothing any more. Those that only show in the load yet are summed by node: a
    /// day's would be too many for an annotation. What is of the future, by a clock that was set back, counts as of now.
    pub(super) fn forget(&mut self, settings: &BalanceSettings, load: &LoadSettings, now: i64) {
        let now = now / SECOND;
        let longest = load.windows.iter().map(|window| window.seconds).max().unwrap_or(0).max(HOUR);
        let returns = self.returns();
        let pauses: Vec<i64> =
            self.evictions.iter().map(|past| pause(&returns, &past.workload, settings.cooldown)).collect();
        let mut sums: BTreeMap<String, PastEviction> = BTreeMap::new();
        let mut kept = Vec::new();
        for (mut past, pause) in std::mem::take(&mut self.evictions).into_iter().zip(pauses) {
            past.at = past.at.min(now);
            let age = now - past.at;
            if age >= longest.max(pause) {
                continue;
            }
            if past.back || age < HOUR.max(pause) {
                kept.push(past);
            } else if past.cpu + past.memory > 0.0 {
                let past = PastEviction { workload: String::new(), ..past };
                match sums.entry(past.node.clone()) {
                    Entry::Vacant(entry) => {
                        entry.insert(past);
                    }
                    Entry::Occupied(mut entry) => entry.get_mut().add(&past),
                }
            }
        }
        kept.extend(sums.into_values());
        kept.sort_by_key(|past| past.at);
        self.evictions = kept;
    }

    /// Notes which workloads have a pod again on the node that one was evicted from: what was evicted is not off that
    /// node then. Those that were not noted before.
    pub(super) fn note_returns(&mut self, pods: &Placed) -> Vec<PastEviction> {
        let mut indices: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        // What was only tried has left no node.
        let left = |past: &PastEviction| past.back || past.cpu + past.memory > 0.0;
        let mut oldest: HashMap<&str, i64> = HashMap::new();
        for (index, past) in self.evictions.iter().enumerate().rev() {
            if !past.workload.is_empty() && left(past) {
                indices.entry((&past.node, &past.workload)).or_default().push(index);
                oldest.insert(&past.node, past.at);
            }
        }
        let mut bound: HashMap<(&str, String), Vec<i64>> = HashMap::new();
        for (node, oldest) in oldest {
            for pod in pods.on(node).map_or(&[][..], |on| on.pods()) {
                if pod.bound / SECOND >= oldest {
                    bound.entry((node, pod.shape.workload.to_string())).or_default().push(pod.bound / SECOND);
                }
            }
        }
        let mut back = Vec::new();
        for ((node, workload), mut times) in bound {
            times.sort_unstable_by(|a, b| b.cmp(a));
            let mut times = times.into_iter().peekable();
            // The newest ones first; each pod stands for one eviction before it.
            for index in indices.get(&(node, workload.as_str())).into_iter().flatten() {
                let is_before = |time: &i64| self.evictions.get(*index).is_some_and(|past| past.at <= *time);
                if times.next_if(is_before).is_some() {
                    back.push(*index);
                }
            }
        }
        back.sort_unstable();
        let mut noted = Vec::new();
        for index in back {
            if let Some(past) = self.evictions.get_mut(index).filter(|past| !past.back) {
                (past.back, past.cpu, past.memory) = (true, 0.0, 0.0);
                noted.push(past.clone());
            }
        }
        noted
    }

    /// How often pods of each workload came back.
    fn returns(&self) -> HashMap<String, u32> {
        let mut returns = HashMap::new();
        for past in self.evictions.iter().filter(|past| past.back) {
            *returns.entry(past.workload.clone()).or_insert(0) += 1;
        }
        returns
    }

    /// How many evictions there were in the last hour.
    pub(super) fn last_hour(&self, now: i64) -> u32 {
        let recent = self.evictions.iter().filter(|past| now / SECOND - past.at < HOUR).count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// For how long each workload must be left alone yet.
    pub(super) fn cooldowns(&self, settings: &BalanceSettings, now: i64) -> BTreeMap<&str, Pause> {
        let returns = self.returns();
        let left = |past: &PastEviction| {
            let pause = pause(&returns, &past.workload, settings.cooldown);
            let returns = returns.get(&past.workload).copied().unwrap_or(0);
            Pause { left: pause - (now / SECOND - past.at), returns }
        };
        // The newest of a workload comes last.
        self.evictions
            .iter()
            .map(|past| (past.workload.as_str(), left(past)))
            .filter(|(workload, pause)| !workload.is_empty() && pause.left > 0)
            .collect()
    }

    /// The evictions of each node.
    pub(super) fn by_node(&self) -> HashMap<&str, Vec<&PastEviction>> {
        let mut by_node: HashMap<&str, Vec<&PastEviction>> = HashMap::new();
        for past in &self.evictions {
            by_node.entry(past.node.as_str()).or_default().push(past);
        }
        by_node
    }
}

/// The shares of CPU and memory of pods that were evicted from a node whose newest sample is of `sampled`, as far as its
/// windows still show them: of a pod that went t ago, a window of length L still holds the part 1 - t/L.
pub(super) fn still_shown(evictions: &[&PastEviction], sampled: i64, load: &LoadSettings) -> Figures {
    let mut sum = Figures::default();
    for past in evictions {
        let ago = sampled.saturating_sub(past.at.saturating_mul(SECOND)).max(0);
        sum.add(Figures { cpu: past.cpu, memory: past.memory }, unseen_part(ago, load));
    }
    sum
}

impl PastEviction {
    /// Adds another one from the same node, as of the mean of their times by what they used.
    fn add(&mut self, other: &Self) {
        let (own, more) = (self.cpu + self.memory, other.cpu + other.memory);
        if own + more > 0.0 {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "a part of days in seconds"
            )]
            let later = ((other.at - self.at) as f64 * (more / (own + more))).round() as i64;
            self.at += later;
        }
        (self.cpu, self.memory) = (self.cpu + other.cpu, self.memory + other.memory);
    }
}

/// For how many seconds after an eviction a workload is left alone: twice as long for each time that a pod of it came
/// back.
fn pause(returns: &HashMap<String, u32>, workload: &str, cooldown: i64) -> i64 {
    let returns = returns.get(workload).copied().unwrap_or(0).min(20);
    cooldown.saturating_mul(1 << returns).min(LONGEST_PAUSE.max(cooldown))
}

fn share(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}
