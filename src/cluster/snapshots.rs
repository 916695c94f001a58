//! The one place where what decisions see is replaced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use plimsoll_core::objects::{FactKind, Objects, WorkloadKind};

use crate::metrics::{Metrics, ProfileState};

/// The objects that decisions are made from. Readers see one whole state or the next, never half of a change.
#[derive(Debug)]
pub struct Snapshots {
    current: Arc<ArcSwap<Objects>>,
    /// Held while the next state is made, so that no writer undoes another's change.
    writing: Mutex<()>,
    /// Whether every kind was seen once that the keeping of autoscalers needs.
    has_autoscalers: AtomicBool,
    /// The same of all other kinds.
    is_complete: AtomicBool,
    /// Whether it is known which quota tree counts, or that there is none.
    knows_quota_tree: AtomicBool,
    metrics: Arc<Metrics>,
}

/// Every kind, with its name in metrics.
const KINDS: [(FactKind, &str); 14] = [
    (FactKind::Profile, "OvercommitProfile"),
    (FactKind::Recommendation, "Recommendation"),
    (FactKind::LimitRange, "LimitRange"),
    (FactKind::Namespace, "Namespace"),
    (FactKind::ReplicaSet, "ReplicaSet"),
    (FactKind::Job, "Job"),
    (FactKind::QuotaTree, "ElasticQuotaTree"),
    (FactKind::Flavor, "ResourceFlavor"),
    (FactKind::Node, "Node"),
    (FactKind::Hpa, "HorizontalPodAutoscaler"),
    (FactKind::Workload(WorkloadKind::Deployment), "Deployment"),
    (FactKind::Workload(WorkloadKind::StatefulSet), "StatefulSet"),
    (FactKind::Workload(WorkloadKind::CloneSet), "CloneSet"),
    (FactKind::Workload(WorkloadKind::AdvancedStatefulSet), "AdvancedStatefulSet"),
];

impl Snapshots {
    /// Nothing yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            current: Arc::default(),
            writing: Mutex::default(),
            has_autoscalers: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            knows_quota_tree: AtomicBool::new(false),
            metrics,
        }
    }

    /// Whether every kind was seen once that the keeping of autoscalers needs.
    pub fn has_autoscalers(&self) -> bool {
        self.has_autoscalers.load(Ordering::Acquire)
    }

    pub(super) fn note_autoscalers(&self, has: bool) {
        self.has_autoscalers.store(has, Ordering::Release);
    }

    /// Whether every kind was seen once, but for those that only the keeping of autoscalers needs.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    pub(super) fn note_complete(&self, is: bool) {
        self.is_complete.store(is, Ordering::Release);
    }

    /// Whether it is known which quota tree counts, or that there is none. Who asks must do so before it looks for the tree.
    pub fn knows_quota_tree(&self) -> bool {
        self.knows_quota_tree.load(Ordering::Acquire)
    }

    pub(super) fn note_quota_tree(&self, knows: bool) {
        self.knows_quota_tree.store(knows, Ordering::Release);
    }

    /// What readers load from.
    pub fn current(&self) -> Arc<ArcSwap<Objects>> {
        Arc::clone(&self.current)
    }

    /// Every kind of objects there is.
    pub fn kinds() -> impl Iterator<Item = FactKind> {
        KINDS.iter().map(|(kind, _)| *kind)
    }

    /// Makes the next state out of the present one and puts it in its place. The objects are cheap to clone; the
    /// closure should only fold in what was read before.
    pub fn update<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Objects::clone(&self.current.load());
        let result = change(&mut next);
        for (kind, name) in KINDS {
            self.metrics.snapshot_objects(name, next.count(kind));
        }
        self.metrics.profiles(ProfileState::Valid, next.profiles().iter().count());
        self.metrics.profiles(ProfileState::Invalid, next.broken_profiles().len());
        self.current.store(Arc::new(next));
        result
    }
}
