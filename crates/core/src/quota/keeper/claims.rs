//! Claims from the leader's side: whose room is free, and who still wants it.

use std::sync::Arc;

use crate::quota::keeper::{Keeper, KeeperOptions};
use crate::quota::ledger::{Claim, Claimant, Ledger};
use crate::quota::{Block, NodeId, Used, blocks, is_entitled};

/// Since when a claim is as it is.
#[derive(Clone, Debug)]
pub(super) struct ClaimSeen {
    retried: i64,
    touched: u64,
    free_since: Option<u64>,
    prompted: Option<u64>,
    /// When room was last looked for.
    tried: Option<u64>,
}

/// For so many claims room is looked for at a time; the others have their turn while these wait for theirs.
const WANTED: usize = 32;
/// How long a claim waits for its next turn.
const TRY_PAUSE_MS: u64 = 2_000;

impl ClaimSeen {
    pub(super) const fn new(claim: &Claim, now: u64) -> Self {
        Self { retried: claim.retried, touched: now, free_since: None, prompted: None, tried: None }
    }

    pub(super) const fn observe(&mut self, claim: &Claim, now: u64) {
        if self.retried != claim.retried {
            self.retried = claim.retried;
            self.touched = now;
        }
    }

    pub(super) fn lives(&self, claim: &Claim, options: &KeeperOptions, now: u64) -> bool {
        let expiry = if claim.claimant.can_be_prompted() {
            options.claim_expiry
        } else {
            options.claim_expiry_unprompted
        };
        let last = self.touched.max(self.free_since.unwrap_or(0));
        now.saturating_sub(last) < expiry
    }
}

/// A claim whose room is not free.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The claim.
    pub claim: Claim,
    /// Its leaf.
    pub leaf: NodeId,
    /// What stands in its way.
    pub blocks: Vec<Block>,
    /// What older claims hold.
    pub claimed: Used,
}

impl Keeper {
    /// What is to be done for claims as the ledger stands: whom to prompt because room is free, and for whom room has
    /// to be made, the oldest first.
    pub fn claims(&mut self, ledger: &Ledger, now: u64) -> (Vec<Claimant>, Vec<Wanted>) {
        let (mut prompts, mut wanted) = (Vec::new(), Vec::new());
        if ledger.claims.is_empty() {
            return (prompts, wanted);
        }
        let tree = Arc::clone(self.tree());
        let tree = tree.as_ref();
        let used = ledger.used(tree);
        let mut claimed = Used::new(tree);
        for claim in &ledger.claims {
            let Some(leaf) = tree.leaf_of(&claim.claimant.namespace) else { continue };
            let blocks = blocks(tree, &used, &claimed, leaf, &claim.charge);
            let free = blocks.is_empty();
            if free {
                let seen = self.claims.entry(claim.number).or_insert_with(|| ClaimSeen::new(claim, now));
                seen.free_since.get_or_insert(now);
                let pause = self.options.prompt_pause;
                let due = seen.prompted.is_none_or(|at| now.saturating_sub(at) >= pause);
                if due && claim.claimant.can_be_prompted() {
                    seen.prompted = Some(now);
                    prompts.push(claim.claimant.clone());
                }
            } else {
                let seen = self.claims.entry(claim.number).or_insert_with(|| ClaimSeen::new(claim, now));
                seen.free_since = None;
                seen.prompted = None;
                let due = seen.tried.is_none_or(|at| now.saturating_sub(at) >= TRY_PAUSE_MS);
                // What the leaf was guaranteed may have been used up in another way, or the tree changed.
                if due
                    && wanted.len() < WANTED
                    && is_entitled(tree, &used, &claimed, leaf, &claim.charge, &blocks)
                {
                    seen.tried = Some(now);
                    wanted.push(Wanted { claim: claim.clone(), leaf, blocks, claimed: claimed.clone() });
                }
            }
            claimed.add(tree, leaf, &claim.charge);
        }
        (prompts, wanted)
    }

    /// Room for a claim is on its way: pods terminate for it. It does not expire meanwhile.
    pub fn waits(&mut self, number: u64, now: u64) {
        if let Some(seen) = self.claims.get_mut(&number) {
            seen.touched = now;
        }
    }

    /// What reservations hold that have been without a pod for so long, at every node: nobody is evicted for them.
    pub fn unseen(&self, ledger: &Ledger, age: u64, now: u64) -> Used {
        let tree = self.tree();
        let mut unseen = Used::new(tree);
        for (key, reservation) in &ledger.reservations {
            if self.unseen_for(key, now).is_some_and(|waited| waited > age)
                && let Some(leaf) = tree.leaf_of(&reservation.namespace)
            {
                unseen.add(tree, leaf, &reservation.charge());
            }
        }
        unseen
    }
}
