//! Ledgers in memory: where there is no cluster, and for tests that want things to go wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::store::{LedgerStore, LedgerVersion, StoredLedger};
use crate::cluster::WriteError;
use crate::crd::QuotaLedgerSpec;

/// What goes wrong. [`Default`] is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// So many of the next writes fail with a conflict, and change nothing.
    pub conflicts: u32,
    /// So many of the writes after that happen, but are answered as if nobody knew.
    pub lost_answers: u32,
    /// Each call takes so long.
    pub delay: Duration,
    /// No call is answered.
    pub down: bool,
}

#[derive(Debug, Default)]
struct State {
    ledgers: BTreeMap<String, StoredLedger>,
    counter: u64,
    writes: u64,
    faults: Faults,
}

impl State {
    fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }
}

/// Ledgers in memory. Clones share them, as replicas share a cluster.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedgerStore(Arc<Mutex<State>>);

impl MemoryLedgerStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these things go wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// How many writes succeeded, also those whose answer was lost.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// As `kubectl delete` does: the ledger stays, because of its finalizer.
    pub fn delete(&self, tree: &str) {
        let mut state = self.lock();
        let version = state.next();
        if let Some(ledger) = state.ledgers.get_mut(tree) {
            ledger.deleting = true;
            ledger.version.resource_version = version;
        }
    }

    /// As somebody does who removes the finalizer too.
    pub fn vanish(&self, tree: &str) {
        self.lock().ledgers.remove(tree);
    }

    /// Waits as long as a call takes.
    async fn called(&self, what: &str) -> Result<(), WriteError> {
        let Faults { delay, down, .. } = self.lock().faults.clone();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if down { Err(unavailable(what, "no answer")) } else { Ok(()) }
    }

    async fn write(
        &self,
        what: String,
        change: impl FnOnce(&mut State, &str) -> Result<StoredLedger, WriteError> + Send,
    ) -> Result<StoredLedger, WriteError> {
        self.called(&what).await?;
        let mut state = self.lock();
        if state.faults.conflicts > 0 {
            state.faults.conflicts -= 1;
            return Err(WriteError::Conflict { what });
        }
        let written = change(&mut state, &what)?;
        state.writes += 1;
        if state.faults.lost_answers > 0 {
            state.faults.lost_answers -= 1;
            return Err(unavailable(&what, "the answer was lost"));
        }
        Ok(written)
    }
}

fn unavailable(what: &str, message: &str) -> WriteError {
    WriteError::Unavailable { what: what.to_owned(), message: message.to_owned(), retry_after: None }
}

/// Creates a ledger with a new uid.
fn insert(
    state: &mut State,
    tree: &str,
    what: &str,
    spec: &QuotaLedgerSpec,
) -> Result<StoredLedger, WriteError> {
    if state.ledgers.contains_key(tree) {
        return Err(WriteError::AlreadyExists { what: what.to_owned() });
    }
    let version = LedgerVersion { uid: format!("uid-{}", state.next()), resource_version: state.next() };
    let ledger = StoredLedger { version, deleting: false, spec: spec.clone() };
    state.ledgers.insert(tree.to_owned(), ledger.clone());
    Ok(ledger)
}

/// The ledger, if it is still of this version.
fn current<'a>(
    state: &'a mut State,
    tree: &str,
    what: &str,
    version: &LedgerVersion,
) -> Result<&'a mut StoredLedger, WriteError> {
    let what = what.to_owned();
    match state.ledgers.get_mut(tree) {
        None => Err(WriteError::NotFound { what, message: "not found".to_owned() }),
        Some(ledger) if ledger.version != *version => Err(WriteError::Conflict { what }),
        Some(ledger) => Ok(ledger),
    }
}

impl LedgerStore for MemoryLedgerStore {
    async fn read(&self, tree: &str) -> Result<Option<StoredLedger>, WriteError> {
        self.called(&format!("get QuotaLedger {tree}")).await?;
        Ok(self.lock().ledgers.get(tree).cloned())
    }

    async fn create(&self, tree: &str, spec: &QuotaLedgerSpec) -> Result<StoredLedger, WriteError> {
        self.write(format!("create QuotaLedger {tree}"), |state, what| insert(state, tree, what, spec)).await
    }

    async fn replace(
        &self,
        tree: &str,
        version: &LedgerVersion,
        spec: &QuotaLedgerSpec,
    ) -> Result<StoredLedger, WriteError> {
        self.write(format!("update QuotaLedger {tree}"), |state, what| {
            let next = state.next();
            let ledger = current(state, tree, what, version)?;
            ledger.version.resource_version = next;
            ledger.spec = spec.clone();
            Ok(ledger.clone())
        })
        .await
    }

    async fn recreate(&self, tree: &str, deleted: &StoredLedger) -> Result<StoredLedger, WriteError> {
        self.write(format!("update QuotaLedger {tree}"), |state, what| {
            let ledger = current(state, tree, what, &deleted.version)?.clone();
            state.ledgers.remove(tree);
            Ok(ledger)
        })
        .await?;
        self.create(tree, &deleted.spec).await
    }
}
