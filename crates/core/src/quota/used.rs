//! What is used at every node of a tree.

use crate::quota::{Amounts, NodeId, Tree};

/// Amounts at every node of one tree: what is added to a leaf counts at every node above it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used(Vec<Amounts>);

/// What nodes without an entry have.
static NOTHING: Amounts = Amounts::new();

impl Used {
    /// Nothing used anywhere in the tree.
    pub fn new(tree: &Tree) -> Self {
        Self(vec![Amounts::new(); tree.nodes().len()])
    }

    /// Adds at a node and above it.
    pub fn add(&mut self, tree: &Tree, at: NodeId, amounts: &Amounts) {
        for (id, _) in tree.upwards(at) {
            if let Some(node) = self.0.get_mut(id.index()) {
                node.add(amounts);
            }
        }
    }

    /// Takes away at a node and above it.
    pub fn subtract(&mut self, tree: &Tree, at: NodeId, amounts: &Amounts) {
        for (id, _) in tree.upwards(at) {
            if let Some(node) = self.0.get_mut(id.index()) {
                node.subtract(amounts);
            }
        }
    }

    /// What is used at a node.
    pub fn at(&self, id: NodeId) -> &Amounts {
        self.0.get(id.index()).unwrap_or(&NOTHING)
    }
}
