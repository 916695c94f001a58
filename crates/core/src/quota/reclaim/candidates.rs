//! The pods of a tree, in the order in which each leaf would lose them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::quota::{NodeId, QuotaPod, Tree, Used};

/// Pods of this priority and above are part of the system and are never evicted.
pub const NEVER_EVICTED_FROM: i32 = 2_000_000_000;

/// The counted pods of one tree. Changes by one pod at a time; where the tree changes it is made anew.
#[derive(Clone, Debug)]
pub struct Candidates {
    tree: Arc<Tree>,
    /// By node: the pods that may be evicted, those first that go first.
    leaves: Vec<BTreeSet<InOrder>>,
    terminating: Used,
    /// By namespace and name, with all pods that count.
    known: HashMap<Arc<str>, HashMap<Arc<str>, Arc<QuotaPod>>>,
}

impl Candidates {
    /// None yet.
    pub fn new(tree: Arc<Tree>) -> Self {
        Self {
            leaves: vec![BTreeSet::new(); tree.nodes().len()],
            terminating: Used::new(&tree),
            known: HashMap::new(),
            tree,
        }
    }

    /// The tree whose pods these are.
    pub const fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Adds a pod or replaces the one of that name. Pods that do not count, or in namespaces that are not bound, are
    /// not kept.
    pub fn put(&mut self, pod: Arc<QuotaPod>) {
        self.remove(&pod.namespace, &pod.name);
        let Some(leaf) = self.tree.leaf_of(&pod.namespace).filter(|_| pod.counts()) else { return };
        if pod.terminating {
            self.terminating.add(&self.tree, leaf, &pod.charge);
        } else if may_be_evicted(&pod)
            && let Some(pods) = self.leaves.get_mut(leaf.index())
        {
            pods.insert(InOrder(Arc::clone(&pod)));
        }
        let names = self.known.entry(Arc::clone(&pod.namespace)).or_default();
        names.insert(Arc::clone(&pod.name), pod);
    }

    /// Forgets a pod; one that is not there is no error.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(names) = self.known.get_mut(namespace) else { return };
        let Some(pod) = names.remove(name) else { return };
        if names.is_empty() {
            self.known.remove(namespace);
        }
        let Some(leaf) = self.tree.leaf_of(namespace) else { return };
        if pod.terminating {
            self.terminating.subtract(&self.tree, leaf, &pod.charge);
        } else if let Some(pods) = self.leaves.get_mut(leaf.index()) {
            pods.remove(&InOrder(pod));
        }
    }

    /// The counted pod of a name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<QuotaPod>> {
        self.known.get(namespace)?.get(name)
    }

    /// What pods hold that are about to go.
    pub const fn terminating(&self) -> &Used {
        &self.terminating
    }

    /// The pods of a leaf that may be evicted, those first that go first.
    pub(super) fn of(&self, leaf: NodeId) -> impl Iterator<Item = &Arc<QuotaPod>> + use<'_> {
        self.leaves.get(leaf.index()).into_iter().flatten().map(|InOrder(pod)| pod)
    }
}

/// What no setting changes.
fn may_be_evicted(pod: &QuotaPod) -> bool {
    let of_daemon_set = pod
        .controller
        .as_ref()
        .is_some_and(|owner| owner.workload.kind == "DaemonSet" && owner.workload.group == "apps");
    !of_daemon_set && pod.priority < NEVER_EVICTED_FROM
}

/// Which of two pods of one leaf goes first.
#[derive(Clone, Debug)]
struct InOrder(Arc<QuotaPod>);

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pod: &QuotaPod| (pod.priority, pod.ready, Reverse(pod.created));
        key(&self.0)
            .cmp(&key(&other.0))
            .then_with(|| self.0.namespace.cmp(&other.0.namespace))
            .then_with(|| self.0.name.cmp(&other.0.name))
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for InOrder {}
