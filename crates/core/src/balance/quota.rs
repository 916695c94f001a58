//! Whether a pod that goes may come back: what the quota tree would say to its replacement.

use std::fmt;
use std::sync::Arc;

use crate::quota::ledger::Ledger;
use crate::quota::{Amounts, NodeId, Tree, Used, shown};

/// What is used and claimed in a tree, for a whole round.
#[derive(Clone, Debug)]
pub struct QuotaRoom<'a> {
    tree: &'a Tree,
    used: Used,
    claimed: Used,
    /// Whether what is used is known; nothing is admitted before.
    initialised: bool,
}

/// Why a replacement would be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// What is used was not counted yet.
    Unknown,
    /// The replacement would pass this maximum, though its pod is gone.
    Full {
        /// The path of the node.
        node: Arc<str>,
        /// Of which resource.
        resource: Arc<str>,
        /// What is used and promised there, with the pod itself.
        used: i128,
        /// What waits there for room, and comes first.
        claimed: i128,
        /// The maximum.
        max: i128,
    },
}

impl<'a> QuotaRoom<'a> {
    /// By a ledger, and the tree that it counts by.
    pub fn new(tree: &'a Tree, ledger: &Ledger) -> Self {
        let initialised = ledger.initialised;
        Self { tree, used: ledger.used(tree), claimed: ledger.claimed(tree), initialised }
    }

    /// Why the replacement of a pod of this charge would be refused, if it would be. The pod counts until it is gone; then
    /// its replacement takes its place. That leaves two reasons: more is used than may be, since a maximum was lowered; or
    /// others wait for the room, by claims that are older than the replacement is. Pods that no leaf binds are not counted.
    pub fn shortage(&self, namespace: &str, charge: &Amounts) -> Option<Shortage> {
        let leaf: NodeId = self.tree.leaf_of(namespace)?;
        if !self.initialised {
            return Some(Shortage::Unknown);
        }
        self.tree.upwards(leaf).find_map(|(id, node)| {
            let (used, claimed) = (self.used.at(id), self.claimed.at(id));
            charge.iter().filter(|(_, requested)| *requested > 0).find_map(|(resource, _)| {
                let max = node.max.get(resource)?;
                let (used, claimed) = (used.of(resource), claimed.of(resource));
                (used.saturating_add(claimed) > max).then(|| Shortage::Full {
                    node: Arc::clone(&node.path),
                    resource: Arc::clone(resource),
                    used,
                    claimed,
                    max,
                })
            })
        })
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the quota tree admits nothing before what is used was counted"),
            Self::Full { node, resource, used, claimed, max } => {
                let [used, max] = [used, max].map(|amount| shown(resource, *amount));
                write!(
                    f,
                    "quota would refuse its replacement: of {resource} at node {node} {used} of {max} are used"
                )?;
                if *claimed > 0 {
                    write!(f, ", and {} are claimed", shown(resource, *claimed))?;
                }
                Ok(())
            }
        }
    }
}
