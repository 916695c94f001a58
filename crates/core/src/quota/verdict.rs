//! Whether a pod may be created: within the maximum of its leaf and of every node above it.

use std::sync::Arc;

use crate::quota::{Amounts, NodeId, Tree, Used};

/// A maximum that would be passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Whose.
    pub node: NodeId,
    /// Of which resource.
    pub resource: Arc<str>,
    /// What is used there: by pods that exist and by pods that were admitted.
    pub used: i128,
    /// What is claimed there by others, whose turn it is first.
    pub claimed: i128,
    /// What the pod needs.
    pub requested: i128,
    /// The maximum.
    pub max: i128,
}

impl Block {
    /// Whether the pod could never be created here, however empty the node.
    pub const fn is_hopeless(&self) -> bool {
        self.requested > self.max
    }
}

/// Every maximum that a pod of this charge would pass: its leaf's first, then upwards, resources by name. `claimed` is
/// what older claims of other owners hold.
pub fn blocks(tree: &Tree, used: &Used, claimed: &Used, leaf: NodeId, charge: &Amounts) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (id, node) in tree.upwards(leaf) {
        let (used, claimed) = (used.at(id), claimed.at(id));
        for (resource, requested) in charge.iter().filter(|(_, requested)| *requested > 0) {
            let Some(max) = node.max.get(resource) else { continue };
            let (used, claimed) = (used.of(resource), claimed.of(resource));
            if used.saturating_add(claimed).saturating_add(requested) > max {
                blocks.push(Block {
                    node: id,
                    resource: Arc::clone(resource),
                    used,
                    claimed,
                    requested,
                    max,
                });
            }
        }
    }
    blocks
}

/// Whether a blocked pod's leaf owns what it asks for: with the pod, and with what others claim in the leaf, the leaf
/// stays within its minimum in every contested resource.
pub fn is_entitled(
    tree: &Tree,
    used: &Used,
    claimed: &Used,
    leaf: NodeId,
    charge: &Amounts,
    blocks: &[Block],
) -> bool {
    let Some(node) = tree.node(leaf) else { return false };
    let (used, claimed) = (used.at(leaf), claimed.at(leaf));
    !blocks.is_empty()
        && blocks.iter().all(|block| {
            let resource = block.resource.as_ref();
            let with_pod =
                used.of(resource).saturating_add(claimed.of(resource)).saturating_add(charge.of(resource));
            // Where a tree is wrong a minimum may be above the maximum.
            with_pod <= node.min.of(resource) && !block.is_hopeless()
        })
}
