//! Decides about a batch of pods against one state of the ledger.

use std::sync::Arc;

use thiserror::Error;

use crate::quota::ledger::{Claim, Claimant, Ledger, Reservation, ReservationKey, ReservationKind};
use crate::quota::{Amounts, Block, NodeId, Tree, Used, blocks, is_entitled};

/// A claim's time is not written again sooner than this, in seconds: an owner may retry many times a second.
const RETRY_STEP: i64 = 15;

/// A pod that asks to be created or resized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its UID, and which of the two.
    pub key: ReservationKey,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it counts before; nothing for a new pod.
    pub from: Amounts,
    /// What it will count.
    pub to: Amounts,
    /// Who will claim if it is refused what its leaf is guaranteed.
    pub claimant: Claimant,
    /// Whether nothing may be written for it.
    pub dry_run: bool,
}

/// What was decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is within every maximum.
    Admitted,
    /// Its namespace is bound to no leaf.
    NotBound,
    /// It passes these maxima.
    Refused {
        /// Its leaf.
        leaf: NodeId,
        /// What it would have added.
        charge: Amounts,
        /// Which maxima, leaf first.
        blocks: Vec<Block>,
        /// Whether its leaf owns what it asks for, and room is being made.
        entitled: bool,
    },
}

/// What was decided about a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// One for each request, in their order.
    pub rulings: Vec<Ruling>,
    /// The ledger that must be stored before any of them is answered; nothing if it stays as it is.
    pub ledger: Option<Ledger>,
}

/// Why nothing can be decided now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Busy {
    /// What is used was not counted yet.
    #[error("what is in use is being counted")]
    NotInitialised,
    /// The tree was changed, and not all have seen it yet.
    #[error("the quota tree was changed: the ledger is at generation {ledger}, this replica at {replica}")]
    Generation {
        /// The ledger's.
        ledger: i64,
        /// Ours.
        replica: i64,
    },
    /// The ledger is of another tree.
    #[error("the ledger is of another quota tree")]
    OtherTree,
}

/// Whether the ledger can be decided by, as this tree says.
///
/// # Errors
/// Why not.
fn ready(ledger: &Ledger, tree: &Tree) -> Result<(), Busy> {
    if ledger.tree.uid != tree.uid {
        return Err(Busy::OtherTree);
    }
    if !ledger.initialised {
        return Err(Busy::NotInitialised);
    }
    if ledger.tree.generation != tree.generation {
        return Err(Busy::Generation { ledger: ledger.tree.generation, replica: tree.generation });
    }
    Ok(())
}

/// Decides about pods in their order; each sees what was promised to those before it. `now` is in seconds since 1970.
///
/// # Errors
/// Nothing can be decided by this ledger.
pub fn judge(ledger: &Ledger, tree: &Tree, requests: &[Request], now: i64) -> Result<Judged, Busy> {
    ready(ledger, tree)?;
    let mut bench = Bench {
        tree,
        used: ledger.used(tree),
        claimed: ledger.claimed(tree),
        ledger: ledger.clone(),
        changed: false,
        now,
    };
    let rulings = requests.iter().map(|request| bench.rule(request)).collect();
    let Bench { ledger, changed, .. } = bench;
    Ok(Judged { rulings, ledger: changed.then_some(ledger) })
}

struct Bench<'t> {
    tree: &'t Tree,
    ledger: Ledger,
    used: Used,
    /// What all claims hold.
    claimed: Used,
    changed: bool,
    now: i64,
}

impl Bench<'_> {
    fn rule(&mut self, request: &Request) -> Ruling {
        let Some(leaf) = self.tree.leaf_of(&request.namespace) else { return Ruling::NotBound };
        let old = self.ledger.reservations.get(&request.key);
        let new = merged(old, request);
        let mut charge = new.charge();
        if let Some(old) = old {
            charge.subtract(&old.charge());
            charge = charge.positive();
        }
        let standing = self.stand_aside(&request.claimant);
        let blocks = blocks(self.tree, &self.used, &self.claimed, leaf, &charge);
        let entitled = request.key.kind == ReservationKind::Create
            && is_entitled(self.tree, &self.used, &self.claimed, leaf, &charge, &blocks);
        self.put_back(&standing);
        if request.dry_run {
            // Whoever only asks must not be told that something was started for it.
            return if blocks.is_empty() {
                Ruling::Admitted
            } else {
                Ruling::Refused { leaf, charge, blocks, entitled: false }
            };
        }
        if blocks.is_empty() {
            self.admit(request, leaf, new, &charge);
            return Ruling::Admitted;
        }
        if entitled {
            self.claim(request, leaf, &charge);
        }
        Ruling::Refused { leaf, charge, blocks, entitled }
    }

    /// Takes out what does not stand before the claimant: its own claim, and those made after it.
    fn stand_aside(&mut self, claimant: &Claimant) -> Vec<(NodeId, Amounts)> {
        let own = self.ledger.claims.iter().find(|claim| claim.claimant.is(claimant));
        let Some(from) = own.map(|claim| claim.number) else { return Vec::new() };
        let aside: Vec<_> = self
            .ledger
            .claims
            .iter()
            .filter(|claim| claim.number >= from)
            .filter_map(|claim| Some((self.tree.leaf_of(&claim.claimant.namespace)?, claim.charge.clone())))
            .collect();
        for (leaf, charge) in &aside {
            self.claimed.subtract(self.tree, *leaf, charge);
        }
        aside
    }

    fn put_back(&mut self, aside: &[(NodeId, Amounts)]) {
        for (leaf, charge) in aside {
            self.claimed.add(self.tree, *leaf, charge);
        }
    }

    fn admit(&mut self, request: &Request, leaf: NodeId, new: Reservation, charge: &Amounts) {
        self.used.add(self.tree, leaf, charge);
        if request.key.kind == ReservationKind::Create {
            self.end_claim(&request.claimant);
        }
        // A resize that frees something promises nothing.
        if !new.charge().is_empty() && self.ledger.reservations.get(&request.key) != Some(&new) {
            self.ledger.reservations.insert(request.key.clone(), new);
            self.changed = true;
        }
    }

    fn end_claim(&mut self, claimant: &Claimant) {
        let Some(index) = self.ledger.claims.iter().position(|claim| claim.claimant.is(claimant)) else {
            return;
        };
        let claim = self.ledger.claims.remove(index);
        if let Some(leaf) = self.tree.leaf_of(&claim.claimant.namespace) {
            self.claimed.subtract(self.tree, leaf, &claim.charge);
        }
        self.changed = true;
    }

    /// One claim for each owner: asking for something else gives up the place in the order.
    fn claim(&mut self, request: &Request, leaf: NodeId, charge: &Amounts) {
        let own = self.ledger.claims.iter_mut().find(|claim| claim.claimant.is(&request.claimant));
        if let Some(own) = own
            && own.charge == *charge
        {
            if self.now.abs_diff(own.retried) >= RETRY_STEP.unsigned_abs() {
                own.retried = self.now;
                self.changed = true;
            }
            return;
        }
        self.end_claim(&request.claimant);
        self.ledger.claims.push(Claim {
            number: self.ledger.next_claim,
            claimant: request.claimant.clone(),
            charge: charge.clone(),
            created: self.now,
            retried: self.now,
        });
        self.ledger.next_claim = self.ledger.next_claim.saturating_add(1);
        self.claimed.add(self.tree, leaf, charge);
        self.changed = true;
    }
}

/// The reservation that holds both what was promised before and what is asked for now.
fn merged(old: Option<&Reservation>, request: &Request) -> Reservation {
    let mut new = Reservation {
        namespace: Arc::clone(&request.namespace),
        name: Arc::clone(&request.name),
        from: request.from.clone(),
        to: request.to.clone(),
        asked: 0,
    };
    if let Some(old) = old {
        new.from.lower_to(&old.from);
        new.to.raise_to(&old.to);
        if request.key.kind == ReservationKind::Resize {
            new.asked = old.asked.wrapping_add(1);
        }
    }
    new
}
