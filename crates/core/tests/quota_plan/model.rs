//! The rules for victims said plainly: everything is counted anew after each pick.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use plimsoll_core::quota::{Amounts, Block, NodeId, QuotaPod, Used, blocks};

use crate::support::World;

/// What a plan is about.
pub(crate) struct Model<'w> {
    pub(crate) world: &'w World,
    pub(crate) leaf: NodeId,
    pub(crate) blocks: Vec<Block>,
    /// Missing at each of `blocks` before anybody is evicted.
    pub(crate) missing: Vec<i128>,
}

impl<'w> Model<'w> {
    pub(crate) fn new(world: &'w World, namespace: &str, charge: &Amounts) -> Self {
        let leaf = world.tree.leaf_of(namespace).unwrap();
        let (used, claimed) = (world.used(), world.sum(&world.claims));
        let blocks = blocks(&world.tree, &used, &claimed, leaf, charge);
        let mut model = Self { world, leaf, blocks, missing: vec![] };
        let left = model.left(&BTreeSet::new());
        model.missing = model
            .blocks
            .iter()
            .map(|block| {
                let resource = block.resource.as_ref();
                left.at(block.node).of(resource) + claimed.at(block.node).of(resource) + charge.of(resource)
                    - block.max
            })
            .collect();
        model
    }

    /// What is used once the terminating pods and the victims have gone, and nothing comes of old reservations.
    pub(crate) fn left(&self, victims: &BTreeSet<&str>) -> Used {
        let world = self.world;
        let mut used = world.used();
        for (namespace, amounts) in &world.unseen {
            used.subtract(&world.tree, world.tree.leaf_of(namespace).unwrap(), amounts);
        }
        for pod in world.pods.values().filter(|pod| pod.counts()) {
            if pod.terminating || victims.contains(pod.name.as_ref()) {
                used.subtract(&world.tree, world.tree.leaf_of(&pod.namespace).unwrap(), &pod.charge);
            }
        }
        used
    }

    pub(crate) fn still_missing(&self, victims: &BTreeSet<&str>) -> Vec<i128> {
        let tree = &self.world.tree;
        let gives = |block: &Block| -> i128 {
            let pods = victims.iter().map(|name| &self.world.pods[*name]);
            let below = pods.filter(|pod| tree.is_below(tree.leaf_of(&pod.namespace).unwrap(), block.node));
            below.map(|pod| pod.charge.of(&block.resource)).sum()
        };
        self.blocks.iter().zip(&self.missing).map(|(block, missing)| missing - gives(block)).collect()
    }

    pub(crate) fn is_covered(&self, victims: &BTreeSet<&str>) -> bool {
        self.still_missing(victims).iter().all(|missing| *missing <= 0)
    }

    pub(crate) fn is_protected(&self, pod: &QuotaPod) -> bool {
        let world = self.world;
        let daemon = pod.controller.as_ref().is_some_and(|owner| owner.workload.kind == "DaemonSet");
        daemon
            || !pod.counts()
            || pod.terminating
            || pod.priority >= 2_000_000_000
            || ((pod.not_preemptible || pod.do_not_evict) && world.honour.heeds(&pod.namespace))
            || world.excluded.contains(&(pod.namespace.clone(), pod.name.clone()))
    }

    fn contested(&self) -> BTreeSet<&str> {
        self.blocks.iter().map(|block| block.resource.as_ref()).collect()
    }

    fn is_candidate(&self, pod: &QuotaPod, victims: &BTreeSet<&str>, keep_min: bool) -> bool {
        let tree = &self.world.tree;
        let Some(leaf) = tree.leaf_of(&pod.namespace) else { return false };
        if leaf == self.leaf || victims.contains(pod.name.as_ref()) || self.is_protected(pod) {
            return false;
        }
        let left = self.left(victims);
        let surplus = |node: NodeId, resource: &str| {
            left.at(node).of(resource) - tree.node(node).unwrap().min.of(resource)
        };
        let common = tree.common(leaf, self.leaf).unwrap();
        let helps = self.blocks.iter().zip(self.still_missing(victims)).any(|(block, missing)| {
            let resource = block.resource.as_ref();
            missing > 0
                && tree.is_below(leaf, block.node)
                && pod.charge.of(resource) > 0
                && tree
                    .upwards(leaf)
                    .take_while(|(id, _)| *id != common)
                    .all(|(id, _)| surplus(id, resource) > 0)
        });
        helps
            && (!keep_min
                || self.contested().into_iter().all(|resource| {
                    let charge = pod.charge.of(resource);
                    charge == 0 || surplus(leaf, resource) >= charge
                }))
    }

    /// A share as a number; the numbers of these tests are small.
    fn share(&self, leaf: NodeId, of: impl Fn(&str) -> i128) -> f64 {
        let tree = &self.world.tree;
        let above = self.blocks.iter().filter(|block| tree.is_below(leaf, block.node));
        #[allow(clippy::cast_precision_loss, reason = "small whole numbers")]
        let shares = above.map(|block| of(&block.resource).max(0) as f64 / block.max.max(1) as f64);
        shares.fold(0.0, f64::max)
    }

    fn order(&self, pod: &QuotaPod, victims: &BTreeSet<&str>) -> impl Ord + use<> {
        let tree = &self.world.tree;
        let leaf = tree.leaf_of(&pod.namespace).unwrap();
        let left = self.left(victims);
        let excess = self
            .share(leaf, |resource| left.at(leaf).of(resource) - tree.node(leaf).unwrap().min.of(resource));
        // Not negative, so the bits are in the order of the numbers.
        let excess = Reverse(excess.to_bits());
        (
            pod.priority,
            pod.ready,
            excess,
            Reverse(pod.created),
            pod.namespace.to_string(),
            pod.name.to_string(),
        )
    }

    /// The names of the victims in order, or nothing; and whether leaves keep their minimum.
    pub(crate) fn plan(&self) -> Option<(Vec<&'w str>, bool)> {
        [true, false].into_iter().find_map(|keep_min| Some((self.pass(keep_min)?, keep_min)))
    }

    fn pass(&self, keep_min: bool) -> Option<Vec<&'w str>> {
        let pods = || self.world.pods.values();
        let mut picked: Vec<&str> = Vec::new();
        loop {
            let victims: BTreeSet<&str> = picked.iter().copied().collect();
            if self.is_covered(&victims) {
                break;
            }
            let next = pods()
                .filter(|pod| self.is_candidate(pod, &victims, keep_min))
                .min_by_key(|pod| self.order(pod, &victims));
            match next {
                Some(pod) => picked.push(pod.name.as_ref()),
                None => return self.single(keep_min, None).map(|one| vec![one]),
            }
        }
        for index in (0..picked.len()).rev() {
            let mut fewer = picked.clone();
            fewer.remove(index);
            if self.is_covered(&fewer.iter().copied().collect()) {
                picked = fewer;
            }
        }
        if picked.len() > 1 {
            let priority = picked.iter().map(|name| self.world.pods[*name].priority).max();
            if let Some(one) = self.single(keep_min, priority) {
                return Some(vec![one]);
            }
        }
        Some(picked)
    }

    /// The smallest pod of at most this priority that is enough, or of the lowest priority that has one.
    fn single(&self, keep_min: bool, up_to: Option<i32>) -> Option<&'w str> {
        let nobody = BTreeSet::new();
        let enough = self
            .world
            .pods
            .values()
            .filter(|pod| up_to.is_none_or(|priority| pod.priority <= priority))
            .filter(|pod| self.is_candidate(pod, &nobody, keep_min))
            .filter(|pod| self.is_covered(&[pod.name.as_ref()].into()));
        let smallest = enough.min_by_key(|pod| {
            let leaf = self.world.tree.leaf_of(&pod.namespace).unwrap();
            let size = self.share(leaf, |resource| pod.charge.of(resource)).to_bits();
            (if up_to.is_some() { 0 } else { pod.priority }, size, self.order(pod, &nobody))
        });
        smallest.map(|pod| pod.name.as_ref())
    }
}
