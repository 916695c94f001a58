//! Where the ledger of a quota tree is kept.
//!
//! A store knows nothing of what a ledger says. It promises one thing: of all writes that replace the same version one
//! succeeds, and the others fail with [`WriteError::Conflict`].

use sha2::{Digest as _, Sha256};

use crate::cluster::WriteError;
use crate::crd::QuotaLedgerSpec;

/// Which state of the object was read or written: what is written next must follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerVersion {
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// As the API server counts.
    pub resource_version: String,
}

/// A ledger as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLedger {
    /// Which state of it this is.
    pub version: LedgerVersion,
    /// Somebody deleted it. It stays until [`LedgerStore::recreate`] has carried its content over.
    pub deleting: bool,
    /// Its content.
    pub spec: QuotaLedgerSpec,
}

/// Reads and writes ledgers, by the name of their tree. Every call ends within a time that the store was made with.
///
/// After [`WriteError::Unavailable`] a write may have happened all the same.
pub trait LedgerStore: Send + Sync + 'static {
    /// The newest state there is; never one from a cache.
    fn read(&self, tree: &str) -> impl Future<Output = Result<Option<StoredLedger>, WriteError>> + Send;

    /// Creates the ledger. [`WriteError::AlreadyExists`] if there is one.
    fn create(
        &self,
        tree: &str,
        spec: &QuotaLedgerSpec,
    ) -> impl Future<Output = Result<StoredLedger, WriteError>> + Send;

    /// Replaces exactly this version. [`WriteError::Conflict`] if it is not the newest, [`WriteError::NotFound`] if
    /// there is no ledger.
    fn replace(
        &self,
        tree: &str,
        version: &LedgerVersion,
        spec: &QuotaLedgerSpec,
    ) -> impl Future<Output = Result<StoredLedger, WriteError>> + Send;

    /// Lets a ledger go that somebody deleted, and creates a fresh one with its content. [`WriteError::Conflict`] if it
    /// was written since it was read, [`WriteError::AlreadyExists`] if somebody else was faster: then it is to be read
    /// again. After any other error it may be gone: then its reservations are lost, and whoever rebuilds it must wait
    /// until they would be old.
    fn recreate(
        &self,
        tree: &str,
        deleted: &StoredLedger,
    ) -> impl Future<Output = Result<StoredLedger, WriteError>> + Send;
}

/// The longest name that an object may have.
const LONGEST: usize = 253;

/// The name of the ledger of a tree: `plimsoll-` and the tree's name, cut and with a hash where that is too long.
pub fn ledger_name(tree: &str) -> String {
    let whole = format!("plimsoll-{tree}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let number =
        Sha256::digest(tree).iter().take(5).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let stem = whole.get(..LONGEST - 11).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{stem}-{number:010x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let long = |end: &str| ledger_name(&format!("{}{end}", "a.".repeat(124)));
        assert_eq!(ledger_name("elastic-quota"), "plimsoll-elastic-quota");
        assert_ne!(long("x"), long("y"), "names that are cut stay different");
        for name in [long("x"), long("abc"), ledger_name(&"b".repeat(253))] {
            assert!(name.len() <= LONGEST && !name.contains(".-"), "{name}");
        }
    }
}
