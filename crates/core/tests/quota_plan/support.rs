//! A small cluster under a quota tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::quota::words::{Outlook, refusal};
use plimsoll_core::quota::{
    Amounts, Candidates, Honour, Node, NodeId, Plan, PodNames, QuotaPod, Situation, Tree, Used, blocks,
    is_entitled, plan,
};
use plimsoll_quantity::Quantity;

/// `cpu=5 memory=1Gi`
pub(crate) fn amounts(text: &str) -> Amounts {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name, Quantity::parse(value).unwrap().nanos())).collect()
}

/// A node of this name below the one at an index; namespaces are separated by blanks.
pub(crate) fn node(
    tree: &[Node],
    name: &str,
    above: Option<usize>,
    min: &str,
    max: &str,
    namespaces: &str,
) -> Node {
    // Ids are made by trees only.
    let ids = Tree::new("", "", 0, tree.iter().cloned());
    Node {
        name: name.into(),
        parent: above.map(|index| ids.id(index).unwrap()),
        min: amounts(min),
        max: amounts(max),
        namespaces: namespaces.split_whitespace().map(Into::into).collect(),
        ..Node::default()
    }
}

/// A tree of (name, index of the node above, min, max, namespaces).
pub(crate) fn tree_of(nodes: &[(&str, Option<usize>, &str, &str, &str)]) -> Arc<Tree> {
    let mut all = Vec::new();
    for (name, above, min, max, namespaces) in nodes {
        all.push(node(&all, name, *above, min, max, namespaces));
    }
    Arc::new(Tree::new("t", "", 1, all))
}

/// The tree of the vectors.
pub(crate) fn tree() -> Arc<Tree> {
    let whole = "cpu=40 memory=40Gi nvidia.com/gpu=4";
    let half = "cpu=20 memory=20Gi nvidia.com/gpu=2";
    let quarter = "cpu=10 memory=10Gi nvidia.com/gpu=1";
    let more_memory = "cpu=20 memory=40Gi nvidia.com/gpu=2";
    tree_of(&[
        ("root", None, whole, whole, ""),
        ("a", Some(0), half, whole, ""),
        ("b", Some(0), half, whole, ""),
        ("a1", Some(1), quarter, half, "namespace1"),
        ("a2", Some(1), quarter, more_memory, "namespace2"),
        ("b1", Some(2), quarter, half, "namespace3"),
        ("b2", Some(2), quarter, half, "namespace4"),
    ])
}

/// A pod that is Ready, of priority 0.
pub(crate) fn pod(namespace: &str, name: &str, charge: &str, created: i64) -> QuotaPod {
    let mut charge = amounts(charge);
    charge.set("pods", 1_000_000_000);
    QuotaPod {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        version: 0,
        charge,
        priority: 0,
        ready: true,
        created,
        terminating: false,
        terminal: false,
        mirror: false,
        not_preemptible: false,
        do_not_evict: false,
        controller: None,
    }
}

/// Pods, and what else is known.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) tree: Arc<Tree>,
    pub(crate) pods: BTreeMap<String, QuotaPod>,
    /// Reservations, by namespace.
    pub(crate) reserved: Vec<(String, Amounts)>,
    /// Of these, old ones without a pod.
    pub(crate) unseen: Vec<(String, Amounts)>,
    /// Older claims of others, by namespace.
    pub(crate) claims: Vec<(String, Amounts)>,
    pub(crate) honour: Honour,
    pub(crate) excluded: PodNames,
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) verdict: &'static str,
    /// Paths and resources.
    pub(crate) blocked: Vec<String>,
    pub(crate) victims: Vec<String>,
    pub(crate) plan: Option<Plan>,
    pub(crate) text: String,
}

impl World {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self {
            tree,
            pods: BTreeMap::new(),
            reserved: Vec::new(),
            unseen: Vec::new(),
            claims: Vec::new(),
            honour: Honour::default(),
            excluded: PodNames::new(),
        }
    }

    pub(crate) fn with(mut self, pods: impl IntoIterator<Item = QuotaPod>) -> Self {
        for pod in pods {
            self.put(pod);
        }
        self
    }

    pub(crate) fn put(&mut self, pod: QuotaPod) {
        assert!(self.pods.insert(pod.name.to_string(), pod).is_none(), "names are used once");
    }

    /// Four pods of 5 CPUs in namespace1 and in namespace2.
    pub(crate) fn full() -> Self {
        let mut world = Self::new(tree());
        for (group, namespace) in [(1, "namespace1"), (2, "namespace2")] {
            for n in 1..=4 {
                world.put(pod(namespace, &format!("{group}-{n}"), "cpu=5", 10 * group + n));
            }
        }
        world
    }

    pub(crate) fn change(mut self, names: &str, change: impl Fn(&mut QuotaPod)) -> Self {
        for name in names.split_whitespace() {
            change(self.pods.get_mut(name).unwrap());
        }
        self
    }

    pub(crate) fn sum(&self, entries: &[(String, Amounts)]) -> Used {
        let mut used = Used::new(&self.tree);
        for (namespace, amounts) in entries {
            used.add(&self.tree, self.tree.leaf_of(namespace).unwrap(), amounts);
        }
        used
    }

    pub(crate) fn used(&self) -> Used {
        let mut used = self.sum(&self.reserved);
        for pod in self.pods.values().filter(|pod| pod.counts()) {
            if let Some(leaf) = self.tree.leaf_of(&pod.namespace) {
                used.add(&self.tree, leaf, &pod.charge);
            }
        }
        used
    }

    pub(crate) fn candidates(&self) -> Candidates {
        let mut candidates = Candidates::new(Arc::clone(&self.tree));
        self.pods.values().for_each(|pod| candidates.put(Arc::new(pod.clone())));
        candidates
    }

    pub(crate) fn judge(&self, namespace: &str, charge: &str) -> Judged {
        self.judge_amounts(namespace, &amounts(charge))
    }

    pub(crate) fn judge_amounts(&self, namespace: &str, charge: &Amounts) -> Judged {
        let mut judged =
            Judged { verdict: "admit", blocked: vec![], victims: vec![], plan: None, text: String::new() };
        let tree = &self.tree;
        let Some(leaf) = tree.leaf_of(namespace) else { return judged };
        let (used, claimed, unseen) = (self.used(), self.sum(&self.claims), self.sum(&self.unseen));
        let found = blocks(tree, &used, &claimed, leaf, charge);
        if found.is_empty() {
            return judged;
        }
        judged.verdict = "refuse";
        judged.blocked =
            found.iter().map(|block| format!("{} {}", self.path(block.node), block.resource)).collect();
        let mut outlook = Outlook::Waits;
        if is_entitled(tree, &used, &claimed, leaf, charge, &found) {
            let pods = self.candidates();
            let plan = plan(&Situation {
                pods: &pods,
                used: &used,
                claimed: &claimed,
                unseen: &unseen,
                leaf,
                charge,
                blocks: &found,
                honour: &self.honour,
                excluded: &self.excluded,
            });
            judged.victims = plan.victims().iter().map(|victim| victim.pod.name.to_string()).collect();
            outlook = if plan == Plan::Impossible { Outlook::NoVictims } else { Outlook::ReclaimStarted };
            judged.plan = Some(plan);
        }
        if outlook == Outlook::ReclaimStarted {
            judged.verdict = "reclaim";
        }
        judged.text = refusal(tree, leaf, &found, outlook);
        judged
    }

    pub(crate) fn path(&self, node: NodeId) -> &str {
        &self.tree.node(node).unwrap().path
    }

    /// The CPUs used at every node, in the order of the tree.
    pub(crate) fn cpus(&self) -> Vec<i128> {
        let used = self.used();
        self.tree.ids().map(|id| used.at(id).of("cpu") / 1_000_000_000).collect()
    }
}
