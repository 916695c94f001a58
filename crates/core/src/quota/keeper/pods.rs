//! The pods that the leader knows, and their sums.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::quota::{Amounts, Candidates, QuotaPod, Tree};

/// How far what was known was off from a list, in pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Pods that are there and were not known.
    pub missing: u64,
    /// Pods that were known and are not there.
    pub surplus: u64,
    /// Pods that count something else.
    pub changed: u64,
    /// Namespaces that any of them are in.
    pub namespaces: usize,
}

impl Drift {
    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pods {
    /// Those of the tree, as reclaim looks at them.
    candidates: Candidates,
    by_uid: HashMap<Arc<str>, Arc<QuotaPod>>,
    sums: BTreeMap<Arc<str>, Amounts>,
    /// Pods that were known and went. A state of them that is no newer is an old one that comes late.
    gone: HashMap<Arc<str>, Gone>,
    /// Pods that a read has shown, and when: a list that was begun before does not say that they are gone.
    read: HashMap<Arc<str>, u64>,
}

/// When a pod went, and how new the news of it was.
#[derive(Clone, Copy, Debug)]
struct Gone {
    at: u64,
    version: u64,
}

/// How long a read counts more than a list that does not say at which version it was made.
const READ_MS: u64 = 120_000;

impl Pods {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        Self {
            candidates: Candidates::new(tree),
            by_uid: HashMap::new(),
            sums: BTreeMap::new(),
            gone: HashMap::new(),
            read: HashMap::new(),
        }
    }

    pub(super) const fn tree(&self) -> &Arc<Tree> {
        self.candidates.tree()
    }

    pub(super) const fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    pub(super) fn set_tree(&mut self, tree: Arc<Tree>) {
        let mut candidates = Candidates::new(tree);
        for pod in self.by_uid.values() {
            candidates.put(Arc::clone(pod));
        }
        self.candidates = candidates;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<QuotaPod>> {
        self.by_uid.values()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&Arc<QuotaPod>> {
        self.by_uid.get(uid)
    }

    pub(super) fn was_gone(&self, uid: &str) -> bool {
        self.gone.contains_key(uid)
    }

    pub(super) fn listed(
        &mut self,
        pods: impl IntoIterator<Item = Arc<QuotaPod>>,
        version: Option<u64>,
        now: u64,
    ) -> Drift {
        let mut drift = Drift::default();
        let mut found = HashSet::new();
        let mut namespaces = HashSet::new();
        for pod in pods {
            found.insert(Arc::clone(&pod.uid));
            match self.by_uid.get(&pod.uid) {
                None if !self.gone.contains_key(&pod.uid) => {
                    drift.missing += 1;
                    namespaces.insert(Arc::clone(&pod.namespace));
                }
                Some(known) if known.version < pod.version && known.charge != pod.charge => {
                    drift.changed += 1;
                    namespaces.insert(Arc::clone(&pod.namespace));
                }
                _ => {}
            }
            self.put(pod);
        }
        let is_later = |pod: &QuotaPod| match version {
            Some(version) => pod.version > version,
            None => self.read.get(&pod.uid).is_some_and(|read| now.saturating_sub(*read) < READ_MS),
        };
        let lost: Vec<_> = self
            .by_uid
            .values()
            .filter(|pod| !found.contains(&pod.uid) && !is_later(pod))
            .map(Arc::clone)
            .collect();
        for pod in lost {
            drift.surplus += 1;
            namespaces.insert(Arc::clone(&pod.namespace));
            self.gone_at(&pod.uid, version.unwrap_or(0), now);
        }
        drift.namespaces = namespaces.len();
        drift
    }

    /// Takes a state of a pod over, unless it is older than the one that is known.
    pub(super) fn put(&mut self, pod: Arc<QuotaPod>) {
        if pod.uid.is_empty() {
            return;
        }
        if let Some(gone) = self.gone.get(&pod.uid) {
            if pod.version <= gone.version {
                return;
            }
            // No list that was older than the pod may have said that it is gone.
            self.gone.remove(&pod.uid);
        }
        let known = self.by_uid.get(&pod.uid);
        if known.is_some_and(|known| known.version > pod.version) {
            return;
        }
        // What was evicted is not taken back by a state from before.
        let pod = match known {
            Some(known) if known.terminating && !pod.terminating => {
                Arc::new(QuotaPod { terminating: true, ..QuotaPod::clone(&pod) })
            }
            _ => pod,
        };
        if let Some(known) = self.by_uid.insert(Arc::clone(&pod.uid), Arc::clone(&pod)) {
            self.subtract(&known);
        }
        self.candidates.put(Arc::clone(&pod));
        if pod.counts() {
            self.sums.entry(Arc::clone(&pod.namespace)).or_default().add(&pod.charge);
        }
    }

    pub(super) fn put_read(&mut self, pod: Arc<QuotaPod>, now: u64) {
        self.read.insert(Arc::clone(&pod.uid), now);
        self.put(pod);
    }

    pub(super) fn gone(&mut self, uid: &str, now: u64) {
        self.gone_at(uid, 0, now);
    }

    fn gone_at(&mut self, uid: &str, version: u64, now: u64) {
        let Some(pod) = self.by_uid.remove(uid) else { return };
        self.subtract(&pod);
        // Another pod may have its name by now.
        if self.candidates.get(&pod.namespace, &pod.name).is_some_and(|known| known.uid == pod.uid) {
            self.candidates.remove(&pod.namespace, &pod.name);
        }
        let gone = Gone { at: now, version: version.max(pod.version) };
        self.gone.insert(Arc::clone(&pod.uid), gone);
    }

    pub(super) fn evicted(&mut self, uid: &str) {
        if let Some(pod) = self.by_uid.get_mut(uid) {
            Arc::make_mut(pod).terminating = true;
            self.candidates.put(Arc::clone(pod));
        }
    }

    /// Drops the memory of what was long ago.
    pub(super) fn forget(&mut self, now: u64, age: u64) {
        let age = age.saturating_mul(4).max(600_000);
        self.gone.retain(|_, gone| now.saturating_sub(gone.at) < age);
        self.read.retain(|_, at| now.saturating_sub(*at) < age);
    }

    fn subtract(&mut self, pod: &QuotaPod) {
        if !pod.counts() {
            return;
        }
        if let Some(sum) = self.sums.get_mut(&pod.namespace) {
            sum.subtract(&pod.charge);
            if sum.iter().all(|(_, nanos)| nanos == 0) {
                self.sums.remove(&pod.namespace);
            }
        }
    }

    /// The sums of the namespaces that the tree binds.
    pub(super) fn committed(&self) -> BTreeMap<Arc<str>, Amounts> {
        let bound = self.sums.iter().filter(|(namespace, _)| self.tree().leaf_of(namespace).is_some());
        bound.map(|(namespace, sum)| (Arc::clone(namespace), sum.clone().positive())).collect()
    }
}
