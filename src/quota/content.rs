//! What the ledger's object holds, and what it says.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use plimsoll_core::quota::ledger::{DecodeError, Ledger, decode, encode};
use plimsoll_core::quota::{PODS, Tree};
use plimsoll_core::resource::UNIT;

use crate::crd::{LedgerCounts, LedgerTree, QuotaLedgerSpec};

/// The ledger as the object holds it, with what people read beside it.
///
/// # Errors
/// It cannot be written; that does not happen in memory.
pub fn write(ledger: &Ledger) -> std::io::Result<QuotaLedgerSpec> {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let pods = ledger.committed.values().map(|amounts| amounts.of(PODS) / UNIT).sum::<i128>();
    Ok(QuotaLedgerSpec {
        data: encode(ledger)?,
        epoch: i64::try_from(ledger.epoch).unwrap_or(i64::MAX),
        tree: LedgerTree {
            name: ledger.tree.name.clone(),
            uid: ledger.tree.uid.clone(),
            generation: ledger.tree.generation,
        },
        initialised: ledger.initialised,
        counts: LedgerCounts {
            pods: u64::try_from(pods).unwrap_or(u64::MAX),
            reservations: count(ledger.reservations.len()),
            claims: count(ledger.claims.len()),
        },
    })
}

/// The ledger that an object holds.
///
/// # Errors
/// Another version wrote it, or it is damaged.
pub fn read(spec: &QuotaLedgerSpec) -> Result<Ledger, DecodeError> {
    decode(&spec.data)
}

/// A ledger as this replica last knew it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The tree that it was read with.
    pub tree: Arc<Tree>,
    /// What it said.
    pub ledger: Ledger,
    /// When that was.
    pub at: Timestamp,
}

/// What this replica last knew, for whoever asks. It decides nothing.
pub type Latest = Arc<ArcSwapOption<Known>>;

/// Notes a ledger that was just read or written.
pub(super) fn note(latest: &Latest, tree: &Arc<Tree>, ledger: &Ledger) {
    let known = Known { tree: Arc::clone(tree), ledger: ledger.clone(), at: Timestamp::now() };
    latest.store(Some(Arc::new(known)));
}
