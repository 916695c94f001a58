//! What placement knows, in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::{ContainerUses, LearntWeights, LoadSnapshot, Placed, Settings, View};

use super::PlacedPods;

/// What placement knows. Each part is replaced as a whole by the one task that keeps it; clones share all of it.
#[derive(Clone, Debug)]
pub struct PlacementState {
    /// How loaded the nodes are.
    pub load: Arc<ArcSwap<LoadSnapshot>>,
    /// What containers use.
    pub uses: Arc<ArcSwap<ContainerUses>>,
    /// What was learnt of workloads.
    pub weights: Arc<ArcSwap<LearntWeights>>,
    /// What the operator decided.
    pub settings: Arc<ArcSwap<Settings>>,
    /// Which pods are where.
    pub pods: PlacedPods,
    /// Nodes, recommendations and all else.
    pub objects: Arc<ArcSwap<Objects>>,
    node_lost: Arc<AtomicI64>,
}

impl PlacementState {
    /// Nothing is known yet but the objects.
    pub fn new(settings: Settings, objects: Arc<ArcSwap<Objects>>) -> Self {
        Self {
            load: Arc::default(),
            uses: Arc::default(),
            weights: Arc::default(),
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            pods: PlacedPods::default(),
            objects,
            node_lost: Arc::default(),
        }
    }

    /// Decides by what is known at `now`, in nanoseconds since 1970. Pods do not move meanwhile, so that it should be
    /// quick.
    pub fn decide<T>(&self, now: i64, decide: impl FnOnce(&View<'_>) -> T) -> T {
        let placed = self.pods.read();
        self.decide_by(now, &placed, decide)
    }

    fn decide_by<T>(&self, now: i64, placed: &Placed, decide: impl FnOnce(&View<'_>) -> T) -> T {
        let (load, weights) = (self.load.load(), self.weights.load());
        let (settings, objects) = (self.settings.load(), self.objects.load());
        decide(&View {
            objects: &objects,
            load: &load,
            placed,
            weights: &weights,
            settings: &settings,
            now,
            node_lost: self.node_lost(),
            bindings: None,
        })
    }

    /// The same for what takes long: pods may move meanwhile, and nobody waits.
    pub fn decide_at_leisure<T>(&self, now: i64, decide: impl FnOnce(&View<'_>) -> T) -> T {
        let placed = self.pods.read().clone();
        self.decide_by(now, &placed, decide)
    }

    /// When a node was lost last, in nanoseconds since 1970; 0: never.
    pub fn node_lost(&self) -> i64 {
        self.node_lost.load(Ordering::Relaxed)
    }

    /// Notes that a node was lost.
    pub fn note_node_lost(&self, now: i64) {
        self.node_lost.store(now, Ordering::Relaxed);
    }
}
