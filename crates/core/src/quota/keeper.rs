//! The leader's side of the ledger: what is really used, and which promises are over.
//!
//! What is committed is always *rewritten* as the sum over the pods that the leader knows, never added to, and a
//! reservation leaves in the same write that counts its pod. So whatever the leader has not seen yet is held by a
//! reservation, and a leader that is behind can only count too much.
//!
//! Times are milliseconds of the leader's own steady clock: what other machines wrote is never compared with it.

mod claims;
mod pods;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

pub use claims::Wanted;
pub use pods::Drift;

use self::claims::ClaimSeen;
use self::pods::Pods;
use crate::quota::ledger::{Ledger, Reservation, ReservationKey, ReservationKind, TreeRef};
use crate::quota::{Candidates, PodNames, QuotaPod, Tree};

/// How long it is believed that a pod cannot be evicted, in milliseconds.
const REFUSED_MS: u64 = 30_000;

/// How long things last, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperOptions {
    /// From this age on it is asked whether a reservation's pod is there. Longer than a webhook call and the request
    /// it belongs to can take.
    pub reservation_age: u64,
    /// A claim ends so long after its owner last retried, or after its room became free.
    pub claim_expiry: u64,
    /// The same for owners that cannot be prompted to retry.
    pub claim_expiry_unprompted: u64,
    /// An owner whose room is free is not prompted again sooner.
    pub prompt_pause: u64,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            reservation_age: 75_000,
            claim_expiry: 120_000,
            claim_expiry_unprompted: 1_200_000,
            prompt_pause: 10_000,
        }
    }
}

/// Another leader has raised the epoch: this one must not write any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("another replica keeps the ledger: its epoch is {ledger}, ours {ours}")]
pub struct Superseded {
    /// The ledger's.
    pub ledger: u64,
    /// Ours.
    pub ours: u64,
}

/// What a read of one pod, not from a cache, has shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// There is no pod of that name, or one with another UID.
    Absent,
    /// The pod.
    Pod(Arc<QuotaPod>),
}

/// How often a claim came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Reservations whose pod is counted now.
    pub committed: u64,
    /// Reservations whose pod was never made, or is gone.
    pub released: u64,
    /// Claims nobody asked for any more.
    pub claims_expired: u64,
}

/// What the leader knows.
#[derive(Clone, Debug)]
pub struct Keeper {
    options: KeeperOptions,
    epoch: u64,
    pods: Pods,
    seen: HashMap<ReservationKey, Seen>,
    /// Reservations, as they were then, of which a read has shown that they hold nothing any more.
    settled: HashMap<ReservationKey, Reservation>,
    claims: HashMap<u64, ClaimSeen>,
    /// Pods that could not be evicted, and until when that is believed.
    refused: HashMap<(Arc<str>, Arc<str>), u64>,
}

/// Since when a reservation stands as it does.
#[derive(Clone, Debug)]
struct Seen {
    since: u64,
    reservation: Reservation,
}

impl Keeper {
    /// A leader of this epoch, which it has raised the ledger to before it lists pods.
    pub fn new(epoch: u64, options: KeeperOptions, tree: Arc<Tree>) -> Self {
        Self {
            options,
            epoch,
            pods: Pods::new(tree),
            seen: HashMap::new(),
            settled: HashMap::new(),
            claims: HashMap::new(),
            refused: HashMap::new(),
        }
    }

    /// The tree that is counted by.
    pub const fn tree(&self) -> &Arc<Tree> {
        self.pods.tree()
    }

    /// From now on it is counted by this tree.
    pub fn set_tree(&mut self, tree: Arc<Tree>) {
        self.pods.set_tree(tree);
    }

    /// The pods of the tree, for choosing who makes room.
    pub const fn candidates(&self) -> &Candidates {
        self.pods.candidates()
    }

    /// The leader's epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All pods there are, by a consistent list; its resource version, if that is known. How far what was known
    /// before was off.
    pub fn listed(
        &mut self,
        pods: impl IntoIterator<Item = Arc<QuotaPod>>,
        version: Option<u64>,
        now: u64,
    ) -> Drift {
        self.pods.listed(pods, version, now)
    }

    /// A pod was added or changed.
    pub fn put(&mut self, pod: Arc<QuotaPod>) {
        self.pods.put(pod);
    }

    /// A pod is gone.
    pub fn gone(&mut self, uid: &str, now: u64) {
        self.pods.gone(uid, now);
    }

    /// What was evicted holds nothing for much longer, though no watch has told so yet.
    pub fn evicted(&mut self, uid: &str) {
        self.pods.evicted(uid);
    }

    /// A pod could not be evicted. It is left alone for a while.
    pub fn refused(&mut self, namespace: &Arc<str>, name: &Arc<str>, now: u64) {
        self.refused.insert((Arc::clone(namespace), Arc::clone(name)), now.saturating_add(REFUSED_MS));
    }

    /// The pods that are left alone because they could not be evicted, by namespace and name.
    pub fn left_alone(&mut self, now: u64) -> PodNames {
        self.refused.retain(|_, until| *until > now);
        self.refused.keys().cloned().collect()
    }

    /// The pods that are known.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<QuotaPod>> {
        self.pods.iter()
    }

    /// A pod by its UID.
    pub fn pod(&self, uid: &str) -> Option<&Arc<QuotaPod>> {
        self.pods.get(uid)
    }

    /// What the ledger must become, if it is not that already.
    ///
    /// # Errors
    /// Another leader has taken over.
    pub fn next(&mut self, ledger: &Ledger, now: u64) -> Result<(Option<Ledger>, Ended), Superseded> {
        if ledger.epoch != self.epoch {
            return Err(Superseded { ledger: ledger.epoch, ours: self.epoch });
        }
        self.observe(ledger, now);
        self.pods.forget(now, self.options.reservation_age);
        let mut ended = Ended::default();
        let tree = Arc::clone(self.tree());
        let mut next = Ledger {
            epoch: ledger.epoch,
            tree: TreeRef::of(&tree),
            initialised: ledger.initialised,
            next_claim: ledger.next_claim,
            committed: self.pods.committed(),
            reservations: ledger.reservations.clone(),
            claims: ledger.claims.clone(),
        };
        next.reservations.retain(|key, reservation| match self.fate(key, reservation) {
            Fate::Held => true,
            Fate::Committed => {
                ended.committed += 1;
                false
            }
            Fate::Released => {
                ended.released += 1;
                false
            }
        });
        next.claims.retain(|claim| {
            let lives = tree.leaf_of(&claim.claimant.namespace).is_some()
                && self.claims.get(&claim.number).is_none_or(|seen| seen.lives(claim, &self.options, now));
            ended.claims_expired += u64::from(!lives);
            lives
        });
        Ok(((next != *ledger).then_some(next), ended))
    }

    /// Reservations that are so old that it must be asked, not from a cache, whether their pod is there.
    pub fn suspects<'l>(
        &self,
        ledger: &'l Ledger,
        now: u64,
    ) -> impl Iterator<Item = (&'l ReservationKey, &'l Reservation)> {
        ledger.reservations.iter().filter(move |(key, reservation)| {
            let old = self.seen.get(*key).is_some_and(|seen| {
                seen.reservation == **reservation
                    && now.saturating_sub(seen.since) >= self.options.reservation_age
            });
            old && self.fate(key, reservation) == Fate::Held
        })
    }

    /// What asking about a suspect has shown. A read that failed is not told.
    pub fn checked(&mut self, key: &ReservationKey, reservation: &Reservation, found: Found, now: u64) {
        if let Found::Pod(pod) = found
            && pod.uid == key.uid
        {
            self.pods.put_read(pod, now);
        }
        self.settled.insert(key.clone(), reservation.clone());
    }

    /// Notes what stands in the ledger, and since when.
    fn observe(&mut self, ledger: &Ledger, now: u64) {
        self.seen.retain(|key, _| ledger.reservations.contains_key(key));
        self.settled.retain(|key, _| ledger.reservations.contains_key(key));
        for (key, reservation) in &ledger.reservations {
            match self.seen.get_mut(key) {
                Some(seen) if seen.reservation == *reservation => {}
                Some(seen) => *seen = Seen { since: now, reservation: reservation.clone() },
                None => {
                    self.seen.insert(key.clone(), Seen { since: now, reservation: reservation.clone() });
                }
            }
        }
        let numbers: HashSet<u64> = ledger.claims.iter().map(|claim| claim.number).collect();
        self.claims.retain(|number, _| numbers.contains(number));
        for claim in &ledger.claims {
            self.claims.entry(claim.number).or_insert_with(|| ClaimSeen::new(claim, now)).observe(claim, now);
        }
    }

    fn fate(&self, key: &ReservationKey, reservation: &Reservation) -> Fate {
        if self.pods.was_gone(&key.uid) {
            return Fate::Released;
        }
        let settled = self.settled.get(key) == Some(reservation);
        match (self.pods.get(&key.uid), key.kind) {
            (Some(_), ReservationKind::Create) => Fate::Committed,
            (Some(pod), ReservationKind::Resize)
                if settled || !pod.counts() || reservation.to.fits_in(&pod.charge) =>
            {
                Fate::Committed
            }
            (None, _) if settled => Fate::Released,
            _ => Fate::Held,
        }
    }

    /// For how long a reservation has been without its pod; nothing if it is not known.
    fn unseen_for(&self, key: &ReservationKey, now: u64) -> Option<u64> {
        let seen = self.seen.get(key)?;
        self.pods.get(&key.uid).is_none().then(|| now.saturating_sub(seen.since))
    }
}

/// What becomes of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays.
    Held,
    /// Its pod is counted.
    Committed,
    /// Nothing will come of it.
    Released,
}
