//! What is used and promised under one tree: the single object that every replica writes by compare-and-swap.
//!
//! [`Ledger`] is its content; [`judge`] decides about pods and puts what was promised in it; the leader's
//! [`Keeper`](crate::quota::keeper::Keeper) makes of promises what is really used.

mod claim;
mod encoding;
mod judge;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use claim::{Claim, Claimant};
pub use encoding::{DecodeError, decode, encode};
pub use judge::{Busy, Judged, Request, Ruling, judge};

use crate::quota::{Amounts, Tree, Used};

/// Which tree, and at which of its generations, a ledger counts by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRef {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.generation`
    pub generation: i64,
}

impl TreeRef {
    /// Of a tree.
    pub fn of(tree: &Tree) -> Self {
        Self { name: tree.name.clone(), uid: tree.uid.clone(), generation: tree.generation }
    }
}

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationKind {
    /// A pod that is being created.
    Create,
    /// A pod whose requests are being changed in place.
    Resize,
}

/// Which reservation: the same is charged once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationKey {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// What for.
    pub kind: ReservationKind,
}

/// What was promised to a pod and is not yet counted as used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// Its name; that of a generated name is known when it was made.
    pub name: Arc<str>,
    /// What was counted before: nothing for a new pod, the lowest of several for resizes.
    pub from: Amounts,
    /// What will count: the highest of several.
    pub to: Amounts,
    /// How often a resize was asked for again: each time it may still come true for as long as the first time.
    pub asked: u32,
}

impl Reservation {
    /// What it holds beyond what is counted already.
    pub fn charge(&self) -> Amounts {
        let mut charge = self.to.clone();
        charge.subtract(&self.from);
        charge.positive()
    }
}

/// The content of the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// Raised by each new leader, which checks it in each of its writes.
    pub epoch: u64,
    /// The tree that is counted by.
    pub tree: TreeRef,
    /// Whether what is used was counted since the ledger was made; nothing is admitted before.
    pub initialised: bool,
    /// The number of the next claim.
    pub next_claim: u64,
    /// What the pods of each bound namespace count together, as the leader last saw them.
    pub committed: BTreeMap<Arc<str>, Amounts>,
    /// What was promised.
    pub reservations: BTreeMap<ReservationKey, Reservation>,
    /// Claims, the oldest first.
    pub claims: Vec<Claim>,
}

impl Ledger {
    /// A ledger of which nothing is known yet.
    pub fn unknown(tree: &Tree, epoch: u64) -> Self {
        Self { epoch, tree: TreeRef::of(tree), ..Self::default() }
    }

    /// What is used and promised at every node. Namespaces that the tree does not bind are left out.
    pub fn used(&self, tree: &Tree) -> Used {
        let mut used = Used::new(tree);
        for (namespace, amounts) in &self.committed {
            if let Some(leaf) = tree.leaf_of(namespace) {
                used.add(tree, leaf, amounts);
            }
        }
        for reservation in self.reservations.values() {
            if let Some(leaf) = tree.leaf_of(&reservation.namespace) {
                used.add(tree, leaf, &reservation.charge());
            }
        }
        used
    }

    /// What is claimed at every node.
    pub fn claimed(&self, tree: &Tree) -> Used {
        let mut claimed = Used::new(tree);
        for claim in &self.claims {
            if let Some(leaf) = tree.leaf_of(&claim.claimant.namespace) {
                claimed.add(tree, leaf, &claim.charge);
            }
        }
        claimed
    }

    /// What is used and promised by namespace, with the number of pods.
    pub fn by_namespace(&self) -> BTreeMap<Arc<str>, Amounts> {
        let mut sums = self.committed.clone();
        for reservation in self.reservations.values() {
            sums.entry(Arc::clone(&reservation.namespace)).or_default().add(&reservation.charge());
        }
        sums
    }
}
