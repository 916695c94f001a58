//! What is known of the cluster, as far as answers depend on it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plimsoll_core::admission::{Context, Settings};
use plimsoll_core::hpa::{HpaPod, Seen, Shape};
use plimsoll_core::objects::Objects;

/// Where all pods of the cluster are known.
pub trait PodTable: Send + Sync + 'static {
    /// Whether all pods, and all objects that decisions about them depend on, were seen once.
    fn is_complete(&self) -> bool;

    /// A pod by its name.
    fn pod(&self, namespace: &str, name: &str) -> Option<HpaPod>;
}

/// What is known of the cluster.
#[derive(Clone)]
pub struct World {
    /// The pods.
    pub pods: Arc<dyn PodTable>,
    /// Everything else.
    pub objects: Arc<ArcSwap<Objects>>,
    /// The configuration.
    pub settings: Arc<ArcSwap<Settings>>,
}

impl World {
    /// Calls `decide` with all that is known at this moment.
    pub(super) fn decide<T>(&self, decide: impl FnOnce(&Context<'_>) -> T) -> T {
        let (objects, settings) = (self.objects.load(), self.settings.load());
        decide(&Context {
            objects: &objects,
            settings: &settings,
            namespace: None,
            now: jiff::Timestamp::now(),
            defaulted: None,
        })
    }
}

/// Shapes with how many pods there are of each. Pods of one template share one, so that decisions about a thousand pods
/// are made a few times.
#[derive(Default)]
pub(super) struct Shapes {
    indices: HashMap<*const Shape, usize>,
    counted: Vec<(Arc<Shape>, u64)>,
}

// Not derived: the addresses are only compared, never followed.
impl Shapes {
    pub(super) fn add(&mut self, shape: &Arc<Shape>) {
        let index = *self.indices.entry(Arc::as_ptr(shape)).or_insert_with(|| {
            self.counted.push((Arc::clone(shape), 0));
            self.counted.len() - 1
        });
        if let Some((_, pods)) = self.counted.get_mut(index) {
            *pods += 1;
        }
    }

    pub(super) fn seen(&self) -> Vec<Seen<'_>> {
        self.counted.iter().map(|(shape, pods)| Seen { shape, pods: *pods }).collect()
    }
}
