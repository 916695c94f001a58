//! What one round hands on to the next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::balance::BalanceSettings;
use crate::placement::{Figures, LoadSettings, WorkloadKey, unseen_part};

/// So many evictions are remembered at most, the newest.
const MOST_REMEMBERED: usize = 1_000;
const HOUR: i64 = 3_600;
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
}

/// An eviction, as far as later rounds need it. What it is written as is short: it is kept in an annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastEviction {
    /// The workload, as [`WorkloadKey`] prints it.
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

    /// Without the evictions that count for nothing any more.
    pub(super) fn forget(&mut self, settings: &BalanceSettings, load: &LoadSettings, now: i64) {
        let longest = load.windows.iter().map(|window| window.seconds).max().unwrap_or(0);
        let kept = longest.max(settings.cooldown).max(HOUR);
        self.evictions.retain(|past| now / SECOND - past.at < kept);
    }

    /// How many evictions there were in the last hour.
    pub(super) fn last_hour(&self, now: i64) -> u32 {
        let recent = self.evictions.iter().filter(|past| now / SECOND - past.at < HOUR).count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// How many seconds each workload must be left alone yet.
    pub(super) fn cooldowns(&self, settings: &BalanceSettings, now: i64) -> BTreeMap<&str, i64> {
        let left = |past: &PastEviction| settings.cooldown - (now / SECOND - past.at);
        // The newest of a workload comes last.
        self.evictions
            .iter()
            .filter(|past| left(past) > 0)
            .map(|past| (past.workload.as_str(), left(past)))
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

fn share(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}
