//! The tree of guarantees and bounds, as admission and reclaim walk it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::quota::Amounts;

/// A node of one [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Where the node stands in [`Tree::nodes`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Names from the root down, as in `root.a.a1`.
    pub path: Arc<str>,
    /// The node above; none for the root.
    pub parent: Option<NodeId>,
    /// The nodes below, in the tree's order.
    pub children: Vec<NodeId>,
    /// How many nodes are above it.
    pub depth: usize,
    /// What is guaranteed; absent is 0.
    pub min: Amounts,
    /// What may be used, borrowed capacity included; absent is no bound here.
    pub max: Amounts,
    /// The namespaces bound to it; leaves only.
    pub namespaces: Vec<Arc<str>>,
    /// Names of `ResourceFlavor`s: alternatives. Empty: not restricted here.
    pub flavors: Vec<Arc<str>>,
}

/// A quota tree in force. Nodes stand parents first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`; empty offline.
    pub uid: String,
    /// `metadata.generation`; 0 offline.
    pub generation: i64,
    nodes: Vec<Node>,
    by_namespace: HashMap<Arc<str>, NodeId>,
    /// Namespaces whose pods are refused because of what is wrong with the tree there, and what that is.
    pub blocked: BTreeMap<Arc<str>, String>,
    /// Why nothing is reclaimed, if the tree has violations.
    pub no_reclaim: Option<String>,
}

impl Tree {
    /// A tree of these nodes, parents before their children; `parent` of each must be set, the rest of the links is
    /// made here. Of a namespace that stands at several nodes the first counts.
    pub fn new(name: &str, uid: &str, generation: i64, nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut tree = Self { name: name.to_owned(), uid: uid.to_owned(), generation, ..Self::default() };
        for mut node in nodes {
            let id = NodeId(u32::try_from(tree.nodes.len()).unwrap_or(u32::MAX));
            node.children.clear();
            let above = node.parent.and_then(|parent| tree.nodes.get_mut(parent.index()));
            (node.depth, node.path) = match above {
                Some(parent) => {
                    parent.children.push(id);
                    (parent.depth + 1, format!("{}.{}", parent.path, node.name).into())
                }
                None => (0, Arc::clone(&node.name)),
            };
            for namespace in &node.namespaces {
                tree.by_namespace.entry(Arc::clone(namespace)).or_insert(id);
            }
            tree.nodes.push(node);
        }
        tree
    }

    /// The id of the node at an index.
    pub fn id(&self, index: usize) -> Option<NodeId> {
        (index < self.nodes.len()).then(|| u32::try_from(index).ok().map(NodeId)).flatten()
    }

    /// All nodes, parents before their children; the root is the first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All ids in the same order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// Every node before what is below it, brothers in the tree's order.
    pub fn depth_first(&self) -> Vec<NodeId> {
        let (mut stack, mut ids) = (Vec::from_iter(self.id(0)), Vec::new());
        while let Some(id) = stack.pop() {
            ids.push(id);
            stack.extend(self.node(id).into_iter().flat_map(|node| node.children.iter().rev()));
        }
        ids
    }

    /// A node of this tree.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// The leaf that a namespace is bound to.
    pub fn leaf_of(&self, namespace: &str) -> Option<NodeId> {
        self.by_namespace.get(namespace).copied()
    }

    /// Every bound namespace and its leaf, in no order.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, NodeId)> {
        self.by_namespace.iter().map(|(name, id)| (name, *id))
    }

    /// The node and everything above it, upwards.
    pub fn upwards(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Node)> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next?;
            let node = self.node(id)?;
            next = node.parent;
            Some((id, node))
        })
    }

    /// Whether `below` is `above` or stands somewhere under it.
    pub fn is_below(&self, below: NodeId, above: NodeId) -> bool {
        self.upwards(below).any(|(id, _)| id == above)
    }

    /// The lowest node that both stand under.
    pub fn common(&self, one: NodeId, other: NodeId) -> Option<NodeId> {
        self.upwards(one).map(|(id, _)| id).find(|id| self.is_below(other, *id))
    }
}
