//! The rules that a tree is judged by where it is stored: T4, T8, T10, T12, T13, T14.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::problem::Problem;
use crate::quota::{
    Amounts, MOST_PROBLEMS, NodeId, PODS, QuotaPod, StoredTree, TREE_NAMESPACE, Tree, Used, shown,
};

/// What counted pods use, by namespace, with [`PODS`] of them.
pub type UsageByNamespace = BTreeMap<Arc<str>, Amounts>;

/// What the pods use that count.
pub fn usage_by_namespace<'p>(pods: impl Iterator<Item = &'p QuotaPod>) -> UsageByNamespace {
    let mut usage = UsageByNamespace::new();
    for pod in pods.filter(|pod| pod.counts()) {
        usage.entry(Arc::clone(&pod.namespace)).or_default().add(&pod.charge);
    }
    usage
}

/// Of how many namespaces a message tells.
const NAMED: usize = 10;

/// What a tree is judged by besides itself.
#[derive(Clone, Copy)]
pub struct TreePlace<'a> {
    /// The server's own namespace, if there is one.
    pub own_namespace: Option<&'a str>,
    /// What all nodes can carry together, if any is known.
    pub allocatable: Option<&'a Amounts>,
    /// `quota.refuseAboveCluster`: whether a root above that is refused.
    pub refuse_above_cluster: bool,
    /// Whether there is a `ResourceFlavor` of a name; none if that is not known.
    pub has_flavor: Option<&'a dyn Fn(&str) -> bool>,
    /// The trees that are stored; the tree itself may be among them.
    pub stored: &'a [Arc<StoredTree>],
    /// What is used, if it is known.
    pub usage: Option<&'a UsageByNamespace>,
    /// The tree as it is stored, when it is changed or deleted.
    pub old: Option<&'a StoredTree>,
    /// Whether the stored tree allows that counted pods are left without a quota, see [`StoredTree::is_forced`].
    pub forced: bool,
}

/// What is wrong, and what is odd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why the tree is refused.
    pub problems: Vec<Problem>,
    /// What whoever writes it should know.
    pub warnings: Vec<Problem>,
}

impl Judgement {
    /// Whether nobody would read one warning more.
    const fn is_full(&self) -> bool {
        self.warnings.len() >= 2 * MOST_PROBLEMS
    }
}

impl TreePlace<'_> {
    /// Everything about a tree that is created or changed: what is wrong with it alone, and what is wrong with it here.
    pub fn judge(&self, new: &StoredTree) -> Judgement {
        let mut judgement = Judgement { problems: new.problems.clone(), warnings: new.warnings.clone() };
        self.above_cluster(new, &mut judgement);
        self.flavors(new, &mut judgement);
        self.own_namespace(new, &mut judgement);
        self.position(new, &mut judgement);
        if new.namespace == TREE_NAMESPACE {
            self.below_usage(new, &mut judgement);
            if let Some(old) = self.old.filter(|old| self.in_force(old)) {
                self.leaves(old, Some(&new.tree), &mut judgement);
            }
        }
        judgement
    }

    /// Whether a stored tree may be deleted.
    pub fn judge_deletion(&self, old: &StoredTree) -> Judgement {
        let mut judgement = Judgement::default();
        if old.namespace == TREE_NAMESPACE && self.in_force(old) {
            self.leaves(old, None, &mut judgement);
        }
        judgement
    }

    fn others<'t>(&'t self, tree: &'t StoredTree) -> impl Iterator<Item = &'t Arc<StoredTree>> {
        let other =
            |stored: &&Arc<StoredTree>| stored.namespace != tree.namespace || stored.name != tree.name;
        self.stored.iter().filter(other)
    }

    /// The tree that has been counting in place of another, if there is one.
    fn older<'t>(&'t self, tree: &'t StoredTree) -> Option<&'t Arc<StoredTree>> {
        let here = self.others(tree).filter(|other| other.namespace == TREE_NAMESPACE);
        here.min_by(|a, b| a.rank().cmp(&b.rank())).filter(|other| other.rank() < tree.rank())
    }

    fn in_force(&self, stored: &StoredTree) -> bool {
        self.older(stored).is_none()
    }

    /// T4
    fn above_cluster(&self, new: &StoredTree, judgement: &mut Judgement) {
        let (Some(allocatable), Some(root)) = (self.allocatable, new.tree.nodes().first()) else { return };
        for (resource, max) in root.max.iter().filter(|(name, max)| *max > allocatable.of(name)) {
            let (max, all) = (shown(resource, max), shown(resource, allocatable.of(resource)));
            let message = format!(
                "node {}: {resource}: max {max} is above {all}, which is what all nodes of the cluster can carry together",
                root.path
            );
            let problem = Problem::new(format!("spec.root.max.{resource}"), "T4", message);
            if self.refuse_above_cluster {
                judgement.problems.push(problem);
            } else {
                judgement.warnings.push(problem);
            }
        }
    }

    /// T10
    fn flavors(&self, new: &StoredTree, judgement: &mut Judgement) {
        let Some(has_flavor) = self.has_flavor else { return };
        for (id, node) in new.tree.ids().zip(new.tree.nodes()) {
            for flavor in node.flavors.iter().filter(|flavor| !has_flavor(flavor)) {
                if judgement.is_full() {
                    return;
                }
                let message = format!(
                    "node {}: there is no ResourceFlavor {flavor:?}; until there is, pods below this node are refused",
                    node.path
                );
                let path = format!("{}.attributes.resourceflavors", json_path(&new.tree, id));
                judgement.warnings.push(Problem::new(path, "T10", message));
            }
        }
    }

    /// T12 for the server's own namespace; that of the trees is known to the tree itself.
    fn own_namespace(&self, new: &StoredTree, judgement: &mut Judgement) {
        let Some(own) = self.own_namespace.filter(|own| *own != TREE_NAMESPACE) else { return };
        let Some(id) = new.tree.leaf_of(own) else { return };
        let Some(node) = new.tree.node(id) else { return };
        let message = format!(
            "node {}: {own} is the namespace of the server, which no quota binds; take it out",
            node.path
        );
        let path = format!("{}.namespaces", json_path(&new.tree, id));
        judgement.problems.push(Problem::new(path, "T12", message));
    }

    /// T8
    fn position(&self, new: &StoredTree, judgement: &mut Judgement) {
        if new.namespace != TREE_NAMESPACE {
            let message = if new.namespace.is_empty() {
                format!("no namespace is given; a tree has an effect in {TREE_NAMESPACE} only")
            } else {
                format!("a tree has no effect in {}; it has one in {TREE_NAMESPACE} only", new.namespace)
            };
            judgement.warnings.push(Problem::new("metadata.namespace", "T8", message));
            return;
        }
        let other = match self.old {
            Some(old) => self.older(old),
            None => self.others(new).find(|other| other.namespace == TREE_NAMESPACE),
        };
        if let Some(other) = other {
            let message = format!(
                "{TREE_NAMESPACE} has the tree {:?} already, and only one counts; change that one, or delete it first",
                other.name
            );
            judgement.problems.push(Problem::new("metadata.name", "T8", message));
        }
    }

    /// The part of T13 that depends on usage.
    fn below_usage(&self, new: &StoredTree, judgement: &mut Judgement) {
        let Some(usage) = self.usage else { return };
        let mut used = Used::new(&new.tree);
        for (namespace, amounts) in usage {
            if let Some(leaf) = new.tree.leaf_of(namespace) {
                used.add(&new.tree, leaf, amounts);
            }
        }
        for (id, node) in new.tree.ids().zip(new.tree.nodes()) {
            let used = used.at(id);
            for (resource, max) in node.max.iter().filter(|(name, max)| used.of(name) > *max) {
                if judgement.is_full() {
                    return;
                }
                let message = format!(
                    "node {}: {resource}: max {} is below the {} in use; nothing more is admitted until that falls",
                    node.path,
                    shown(resource, max),
                    shown(resource, used.of(resource))
                );
                let path = format!("{}.max.{resource}", json_path(&new.tree, id));
                judgement.warnings.push(Problem::new(path, "T13", message));
            }
        }
    }

    /// T14
    fn leaves(&self, old: &StoredTree, new: Option<&Tree>, judgement: &mut Judgement) {
        if self.forced {
            return;
        }
        let mut gone: Vec<&Arc<str>> = old
            .tree
            .namespaces()
            .map(|(namespace, _)| namespace)
            .filter(|namespace| new.is_none_or(|new| new.leaf_of(namespace).is_none()))
            .collect();
        gone.sort();
        let path = if new.is_some() { "spec.root" } else { "metadata.name" };
        let what = if new.is_some() { "would leave the tree" } else { "would be left without a quota" };
        let force =
            "to do so all the same, first set the annotation plimsoll.dev/force: \"true\" on the tree";
        let Some(usage) = self.usage else {
            if let Some(first) = gone.first() {
                let message = format!(
                    "{} namespaces, {first} among them, {what}, and what is in use is not known at the moment; try again, or, {force}",
                    gone.len()
                );
                judgement.problems.push(Problem::new(path, "T14", message));
            }
            return;
        };
        let pods = |namespace: &Arc<str>| usage.get(namespace).map_or(0, |amounts| amounts.of(PODS));
        gone.retain(|namespace| pods(namespace) > 0);
        for namespace in gone.iter().take(NAMED) {
            let leaf = old.tree.leaf_of(namespace).and_then(|id| old.tree.node(id));
            let leaf = leaf.map_or("", |node| node.path.as_ref());
            let message = format!(
                "namespace {namespace} of {leaf} {what} with {} counted pods; move or remove them, or, {force}",
                shown(PODS, pods(namespace))
            );
            judgement.problems.push(Problem::new(path, "T14", message));
        }
        if let (Some(more @ 1..), Some(last)) = (gone.len().checked_sub(NAMED), judgement.problems.last_mut())
        {
            last.message = format!("{}; and {more} namespaces more", last.message);
        }
    }
}

/// Where a node stands in the manifest.
fn json_path(tree: &Tree, id: NodeId) -> String {
    let mut positions = Vec::new();
    for (id, node) in tree.upwards(id) {
        let siblings = node.parent.and_then(|parent| tree.node(parent)).map(|parent| &parent.children);
        positions.extend(siblings.and_then(|all| all.iter().position(|child| *child == id)));
    }
    let steps = positions.iter().rev().map(|position| format!(".children[{position}]"));
    std::iter::once("spec.root".to_owned()).chain(steps).collect()
}
