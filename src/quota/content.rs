//! What the ledger's object holds, and what it says.

use plimsoll_core::quota::PODS;
use plimsoll_core::quota::ledger::{DecodeError, Ledger, decode, encode};
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
