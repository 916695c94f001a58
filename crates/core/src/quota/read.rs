//! From a manifest to a tree: what is in force, and everything that is wrong with it.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::keys;
use crate::problem::Problem;
use crate::quota::check::{Blocked, check};
use crate::quota::walk::{Bounds, Findings, Walk, is_queue_key};
use crate::quota::{Amounts, Node, StoredTree, TREE_NAMESPACE, Tree};

/// The group of the kind [`TREE_KIND`].
pub const TREE_GROUP: &str = "scheduling.sigs.k8s.io";
/// The version of it that is read.
pub const TREE_VERSION: &str = "v1beta1";
/// The kind of a quota tree.
pub const TREE_KIND: &str = "ElasticQuotaTree";

impl StoredTree {
    /// Reads a tree, good or bad: of a bad one the parts that can be read are in force, and namespaces that cannot be
    /// told where they belong are blocked.
    pub fn read(manifest: &Value) -> Self {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let mut walk = Walk::of(manifest.get("spec"));
        let version = text("/apiVersion");
        if version != format!("{TREE_GROUP}/{TREE_VERSION}") {
            let found: String = version.chars().take(80).collect();
            let message = format!("{found:?} is not a version of it; write {TREE_GROUP}/{TREE_VERSION}");
            walk.problems.push(Problem::new("apiVersion", "version", message));
        }
        let blocked = check(&mut walk);
        let generation = manifest.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let tree = assemble(&walk, blocked, (text("/metadata/name"), text("/metadata/uid"), generation));
        let Walk { problems, warnings, .. } = walk;
        Self {
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
            created: text("/metadata/creationTimestamp").parse::<Timestamp>().map_or(0, Timestamp::as_second),
            tree: Arc::new(tree),
            problems: problems.finish(),
            warnings: warnings.finish(),
        }
    }

    /// Without its nodes, if it stands where trees have no effect: it may be anybody's, and large.
    #[must_use]
    pub fn as_stored(mut self) -> Self {
        if self.namespace != TREE_NAMESPACE {
            self.tree = Arc::new(Tree::new(&self.name, &self.tree.uid, self.tree.generation, []));
        }
        self
    }

    /// Whether a manifest, as it is stored, says by the annotation [`keys::FORCE`] that it may leave counted pods
    /// without a quota.
    pub fn is_forced(manifest: &Value) -> bool {
        let annotations = manifest.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(keys::FORCE)).and_then(Value::as_str) == Some("true")
    }
}

fn assemble(walk: &Walk<'_>, mut blocked: Blocked, (name, uid, generation): (&str, &str, i64)) -> Tree {
    // Ids are made by the tree; a node's id is its index, for all that were read are in it.
    let ids = Tree::new("", "", 0, walk.nodes.iter().map(|_| Node::default()));
    let mut seen: HashSet<&str> = HashSet::new();
    // Leaves first: a namespace at a leaf and at an inner node belongs to the leaf.
    let mut bound: Vec<Vec<Arc<str>>> = vec![Vec::new(); walk.nodes.len()];
    for leaves in [true, false] {
        for (node, bound) in walk.nodes.iter().zip(&mut bound).filter(|(node, _)| node.has_children != leaves)
        {
            let names = node.namespaces.iter().map(|(_, name)| *name);
            bound.extend(names.filter(|name| is_bound(name) && seen.insert(name)).map(Arc::from));
        }
    }
    for (node, bound) in walk.nodes.iter().zip(&mut bound) {
        let strays = node.strays.iter().copied();
        bound.extend(strays.filter(|name| is_bound(name) && seen.insert(name)).map(Arc::from));
    }
    // From above to below: what blocks a node blocks all of it.
    let mut reasons: Vec<Option<&String>> = Vec::with_capacity(walk.nodes.len());
    for (index, (node, bound)) in walk.nodes.iter().zip(&bound).enumerate() {
        let above = node.parent.and_then(|parent| reasons.get(parent).copied().flatten());
        let reason = above.or_else(|| walk.blocked.get(&index));
        if let Some(reason) = reason {
            for namespace in bound {
                blocked.entry(Arc::clone(namespace)).or_insert_with(|| reason.clone());
            }
        }
        reasons.push(reason);
    }
    let nodes = walk.nodes.iter().zip(bound).map(|(raw, namespaces)| Node {
        name: Arc::clone(&raw.name),
        parent: raw.parent.and_then(|parent| ids.id(parent)),
        min: amounts(&raw.min),
        max: amounts(&raw.max),
        namespaces,
        flavors: raw.flavors.clone(),
        ..Node::default()
    });
    let mut tree = Tree::new(name, uid, generation, nodes);
    blocked.retain(|namespace, _| is_bound(namespace));
    tree.blocked = blocked;
    tree.no_reclaim = Findings::first(&walk.problems).map(ToString::to_string);
    tree
}

/// [`TREE_NAMESPACE`] is never bound, whatever a tree says.
fn is_bound(namespace: &str) -> bool {
    namespace != TREE_NAMESPACE
}

fn amounts(bounds: &Bounds) -> Amounts {
    let charged = bounds.iter().filter(|(resource, _)| !is_queue_key(resource));
    charged.map(|(resource, quantity)| (Arc::clone(resource), quantity.nanos())).collect()
}
