//! The search for victims: one pod after the other from the leaf that borrows most, until the whole room is there.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::share::Share;
use super::{Situation, Victim};
use crate::quota::{Amounts, NodeId, QuotaPod, Tree};

/// What is missing at a blocked node.
#[derive(Clone, Debug)]
pub(super) struct Deficit {
    pub(super) node: NodeId,
    pub(super) resource: Arc<str>,
    pub(super) missing: i128,
}

/// How far a leaf may be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Not below its minimum.
    KeepMin,
    /// By one pod below its minimum, or a leaf that runs one huge pod could keep what it borrows for ever.
    OnePodBelow,
}

/// One blocked node and resource.
struct Contest {
    /// How deep the node stands.
    depth: usize,
    /// Which of the contested resources.
    resource: usize,
    max: i128,
    /// What is missing there, before anybody is picked; may be 0.
    missing: i128,
    /// What is still missing.
    open: i128,
}

/// A leaf that borrows.
struct Leaf<'a> {
    node: NodeId,
    /// How deep the lowest node stands that it has in common with the claimant: room that it gives up counts there and
    /// above.
    common: usize,
    /// Its pods from the next on, in order.
    rest: Box<dyn Iterator<Item = &'a Arc<QuotaPod>> + 'a>,
}

struct Picked<'a> {
    pod: &'a Arc<QuotaPod>,
    node: NodeId,
    common: usize,
}

/// One pass over the pods.
pub(super) struct Search<'a> {
    situation: &'a Situation<'a>,
    tree: &'a Tree,
    pass: Pass,
    /// The names of what is contested.
    resources: Vec<&'a str>,
    contests: Vec<Contest>,
    /// The claimant's leaf and what is above it, by depth.
    path: Vec<NodeId>,
    /// For each node and contested resource: how much more than its minimum the node has, once all pods that terminate
    /// have gone.
    surplus: Vec<i128>,
    leaves: Vec<Leaf<'a>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(situation: &'a Situation<'a>, deficits: &[Deficit], pass: Pass) -> Self {
        let tree: &Tree = situation.pods.tree();
        let mut resources: Vec<&str> = situation.blocks.iter().map(|block| block.resource.as_ref()).collect();
        resources.sort_unstable();
        resources.dedup();
        let contests = situation.blocks.iter().filter_map(|block| {
            let missing = deficits
                .iter()
                .find(|deficit| deficit.node == block.node && deficit.resource == block.resource)
                .map_or(0, |deficit| deficit.missing);
            Some(Contest {
                depth: tree.node(block.node)?.depth,
                resource: resources.iter().position(|name| *name == block.resource.as_ref())?,
                max: block.max,
                missing,
                open: missing,
            })
        });
        let contests = contests.collect();
        let mut path: Vec<NodeId> = tree.upwards(situation.leaf).map(|(id, _)| id).collect();
        path.reverse();
        let surplus = vec![0; tree.nodes().len() * resources.len()];
        let mut search =
            Self { situation, tree, pass, resources, contests, path, surplus, leaves: Vec::new() };
        search.find_leaves();
        search
    }

    /// The victims in the order of picking, or nothing if the whole room cannot be made.
    pub(super) fn run(mut self) -> Option<Vec<Victim>> {
        let mut picked = self.pick();
        let is_enough = self.is_enough();
        if is_enough {
            self.give_back(&mut picked);
        }
        if !is_enough || picked.len() > 1 {
            for Picked { pod, node, common } in &picked {
                self.take(*node, *common, &pod.charge, -1);
            }
            // Small pods that were picked first may have left a leaf too little to lose the one that is large enough.
            let up_to = is_enough.then(|| picked.iter().map(|picked| picked.pod.priority).max()).flatten();
            match self.one_for_all(up_to) {
                Some(one) => picked = vec![one],
                None if is_enough => {}
                None => return None,
            }
        }
        let victims =
            picked.into_iter().map(|picked| Victim { pod: Arc::clone(picked.pod), leaf: picked.node });
        Some(victims.collect())
    }

    fn is_enough(&self) -> bool {
        self.contests.iter().all(|contest| contest.open <= 0)
    }

    /// Finds the leaves that have more than their minimum, below nodes that have more than theirs.
    fn find_leaves(&mut self) {
        let pods = self.situation.pods;
        for (common, shared) in self.path.clone().into_iter().enumerate() {
            if !self.contests.iter().any(|contest| contest.open > 0 && contest.depth <= common) {
                continue;
            }
            let below = self.path.get(common + 1).copied();
            let mut stack: Vec<NodeId> =
                self.children(shared).filter(|child| Some(*child) != below).collect();
            while let Some(node) = stack.pop() {
                self.measure(node);
                if !self.borrows(node, common) {
                    continue;
                }
                stack.extend(self.children(node));
                self.leaves.push(Leaf { node, common, rest: Box::new(pods.of(node)) });
            }
        }
    }

    fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<'a> {
        self.tree.node(node).into_iter().flat_map(|node| node.children.iter().copied())
    }

    fn measure(&mut self, id: NodeId) {
        let Some(node) = self.tree.node(id) else { return };
        let situation = self.situation;
        let (used, unseen) = (situation.used.at(id), situation.unseen.at(id));
        let terminating = situation.pods.terminating().at(id);
        for (index, name) in self.resources.iter().enumerate() {
            let kept = used.of(name).saturating_sub(terminating.of(name)).saturating_sub(unseen.of(name));
            if let Some(surplus) = self.surplus.get_mut(id.index() * self.resources.len() + index) {
                *surplus = kept.saturating_sub(node.min.of(name));
            }
        }
    }

    fn surplus(&self, node: NodeId, resource: usize) -> i128 {
        self.surplus.get(node.index() * self.resources.len() + resource).copied().unwrap_or(0)
    }

    /// Whether a node has more than its minimum of something that is still missing where it counts.
    fn borrows(&self, node: NodeId, common: usize) -> bool {
        let mut open = self.contests.iter().filter(|contest| contest.open > 0 && contest.depth <= common);
        open.any(|contest| self.surplus(node, contest.resource) > 0)
    }

    /// Picks pods until there is enough room, or until nobody is left.
    fn pick(&mut self) -> Vec<Picked<'a>> {
        let mut heap = BinaryHeap::new();
        for index in 0..self.leaves.len() {
            heap.extend(self.next_of(index).map(Reverse));
        }
        let mut picked = Vec::new();
        while !self.is_enough()
            && let Some(Reverse(Turn { pod, leaf: index, .. })) = heap.pop()
            && let Some(leaf) = self.leaves.get(index)
        {
            let (node, common) = (leaf.node, leaf.common);
            // Since the pod got its turn, other pods may have made the room, or taken a node above down to its minimum.
            if self.is_eligible(pod, node, common) {
                self.take(node, common, &pod.charge, 1);
                picked.push(Picked { pod, node, common });
            }
            heap.extend(self.next_of(index).map(Reverse));
        }
        picked
    }

    /// The next pod of a leaf that could be evicted. One that cannot be now cannot be later: what is missing and what
    /// leaves have become only less.
    fn next_of(&mut self, index: usize) -> Option<Turn<'a>> {
        let leaf = self.leaves.get_mut(index)?;
        let (node, common) = (leaf.node, leaf.common);
        let mut rest = std::mem::replace(&mut leaf.rest, Box::new(std::iter::empty()));
        let next = rest.find(|pod| self.is_eligible(pod, node, common));
        self.leaves.get_mut(index)?.rest = rest;
        next.map(|pod| Turn { pod, excess: self.excess(node, common), leaf: index })
    }

    fn is_eligible(&self, pod: &QuotaPod, leaf: NodeId, common: usize) -> bool {
        let charge = |resource: usize| self.resources.get(resource).map_or(0, |name| pod.charge.of(name));
        let helps = |contest: &Contest| {
            contest.open > 0
                && contest.depth <= common
                && charge(contest.resource) > 0
                && self.is_above_min(leaf, common, contest.resource)
        };
        self.contests.iter().any(helps)
            && (self.pass == Pass::OnePodBelow
                || (0..self.resources.len()).all(|resource| {
                    let charge = charge(resource);
                    charge <= 0 || charge <= self.surplus(leaf, resource)
                }))
            && !self.is_protected(pod)
    }

    /// Whether a leaf and every node above it, up to what it has in common with the claimant, has more than its
    /// minimum.
    fn is_above_min(&self, leaf: NodeId, common: usize, resource: usize) -> bool {
        let mut up_to_common = self.tree.upwards(leaf).take_while(|(_, node)| node.depth > common);
        up_to_common.all(|(id, _)| self.surplus(id, resource) > 0)
    }

    fn is_protected(&self, pod: &QuotaPod) -> bool {
        let excluded = self.situation.excluded;
        ((pod.not_preemptible || pod.do_not_evict) && self.situation.honour.heeds(&pod.namespace))
            || (!excluded.is_empty()
                && excluded.contains(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name))))
    }

    /// How much more than its minimum a leaf has, as a share of what the blocked nodes above it may have.
    fn excess(&self, leaf: NodeId, common: usize) -> Share {
        let above = self.contests.iter().filter(|contest| contest.depth <= common);
        let shares = above.map(|contest| Share::new(self.surplus(leaf, contest.resource), contest.max));
        shares.max().unwrap_or(Share::new(0, 1))
    }

    /// Counts a pod of a leaf as gone (`times` 1) or as there again (-1).
    fn take(&mut self, leaf: NodeId, common: usize, charge: &Amounts, times: i128) {
        let width = self.resources.len();
        for (resource, name) in self.resources.iter().enumerate() {
            let amount = charge.of(name).saturating_mul(times);
            for (id, _) in self.tree.upwards(leaf).take_while(|(_, node)| node.depth > common) {
                if let Some(surplus) = self.surplus.get_mut(id.index() * width + resource) {
                    *surplus = surplus.saturating_sub(amount);
                }
            }
            let contests = self.contests.iter_mut();
            for contest in contests.filter(|contest| contest.resource == resource && contest.depth <= common)
            {
                contest.open = contest.open.saturating_sub(amount);
            }
        }
    }

    /// Spares, the last pick first, whoever the others make enough room without.
    fn give_back(&mut self, picked: &mut Vec<Picked<'a>>) {
        for index in (0..picked.len()).rev() {
            let Some(Picked { pod, node, common }) = picked.get(index) else { continue };
            let (charge, node, common) = (&pod.charge, *node, *common);
            self.take(node, common, charge, -1);
            if self.is_enough() {
                picked.remove(index);
            } else {
                self.take(node, common, charge, 1);
            }
        }
    }

    /// The smallest pod that makes the whole room alone: of a priority up to this, or of the lowest priority that has
    /// one.
    fn one_for_all(&mut self, up_to: Option<i32>) -> Option<Picked<'a>> {
        let lowest = self.contests.iter().filter(|contest| contest.missing > 0);
        let lowest = lowest.map(|contest| contest.depth).max()?;
        let mut best: Option<((i32, Share, Turn<'a>), Picked<'a>)> = None;
        for (index, leaf) in self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.common >= lowest) {
            let (node, common) = (leaf.node, leaf.common);
            let excess = self.excess(node, common);
            let low = |pod: &&Arc<QuotaPod>| pod.priority <= up_to.unwrap_or(i32::MAX);
            for pod in self.situation.pods.of(node).take_while(low) {
                let covers = self.contests.iter().all(|contest| {
                    contest.missing <= 0
                        || self
                            .resources
                            .get(contest.resource)
                            .is_some_and(|name| pod.charge.of(name) >= contest.missing)
                });
                if !covers || !self.is_eligible(pod, node, common) {
                    continue;
                }
                let priority = if up_to.is_some() { 0 } else { pod.priority };
                let rank = (priority, self.size(pod, common), Turn { pod, excess, leaf: index });
                if best.as_ref().is_none_or(|(found, _)| rank < *found) {
                    best = Some((rank, Picked { pod, node, common }));
                }
            }
        }
        best.map(|(_, picked)| picked)
    }

    /// How large a pod is, as a share of what the blocked nodes above it may have.
    fn size(&self, pod: &QuotaPod, common: usize) -> Share {
        let above = self.contests.iter().filter(|contest| contest.depth <= common);
        let shares = above.filter_map(|contest| {
            let name = self.resources.get(contest.resource)?;
            Some(Share::new(pod.charge.of(name), contest.max))
        });
        shares.max().unwrap_or(Share::new(0, 1))
    }
}

/// A leaf's next pod, and what decides when its turn is.
struct Turn<'a> {
    pod: &'a Arc<QuotaPod>,
    excess: Share,
    leaf: usize,
}

impl Ord for Turn<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |turn: &Self| (turn.pod.priority, turn.pod.ready, Reverse(turn.excess));
        let after = |turn: &Self| Reverse(turn.pod.created);
        key(self)
            .cmp(&key(other))
            .then_with(|| after(self).cmp(&after(other)))
            .then_with(|| self.pod.namespace.cmp(&other.pod.namespace))
            .then_with(|| self.pod.name.cmp(&other.pod.name))
    }
}

impl PartialOrd for Turn<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn<'_> {}
