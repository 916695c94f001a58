//! A leader begins: its writes become the only ones, and no other tree's ledger promises anything any more.

use plimsoll_core::quota::ledger::Ledger;
use plimsoll_core::quota::{StoredTree, Tree};
use tokio::time::sleep;

use super::writing::encoded;
use super::{Leader, PACE};
use crate::cluster::{WriteError, chance};
use crate::quota::LedgerStore as _;
use crate::quota::admission::{ReadFailure, read};

impl Leader {
    /// Makes this replica's writes the only ones of a leader. The epoch, and whether a ledger that has to be counted
    /// anew may be so only after a while, because promises of the one before may still come true.
    pub(super) async fn raise_epoch(
        &self,
        stored: &StoredTree,
        had_ledger: bool,
    ) -> Result<(u64, bool), ReadFailure> {
        let tree = &stored.tree;
        // No leader of a ledger that was lost can have had this epoch.
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        loop {
            let found = self.read(tree).await?;
            let written = match found {
                None => {
                    let ledger = Ledger::unknown(tree, since_1970.as_secs());
                    let spec = encoded(&ledger)?;
                    self.store.create(&tree.name, &spec).await.map(|_| (ledger.epoch, had_ledger))
                }
                Some((version, ledger)) => {
                    let wait = !ledger.initialised && had_ledger;
                    let epoch = ledger.epoch.saturating_add(1);
                    let spec = encoded(&Ledger { epoch, ..ledger })?;
                    self.store.replace(&tree.name, &version, &spec).await.map(|_| (epoch, wait))
                }
            };
            match written {
                Ok(done) => return Ok(done),
                Err(
                    WriteError::Conflict { .. }
                    | WriteError::AlreadyExists { .. }
                    | WriteError::NotFound { .. },
                ) => {
                    sleep(chance(PACE)).await;
                }
                Err(error) => return Err(ReadFailure::Store(error)),
            }
        }
    }

    /// Takes the ledgers of other trees out of force: what was promised in them must come true or be old before another
    /// ledger may promise the same room, and no replica that is behind may go on promising.
    pub(super) async fn retire_others(&self, tree: &Tree) -> Result<(), ReadFailure> {
        for other in self.store.trees().await.map_err(ReadFailure::Store)? {
            if other == tree.name {
                continue;
            }
            loop {
                let (version, ledger) = match read(&self.store, &other).await {
                    Ok(Some(found)) => found,
                    // By what cannot be used nobody can promise anything.
                    Ok(None) | Err(ReadFailure::Content(_)) => break,
                    // It may be in force.
                    Err(error @ ReadFailure::Store(_)) => return Err(error),
                };
                if !ledger.initialised {
                    break;
                }
                let epoch = ledger.epoch.saturating_add(1);
                let spec = encoded(&Ledger { initialised: false, epoch, ..ledger })?;
                match self.store.replace(&other, &version, &spec).await {
                    Ok(_) | Err(WriteError::NotFound { .. }) => break,
                    Err(WriteError::Conflict { .. }) => sleep(chance(PACE)).await,
                    Err(error) => return Err(ReadFailure::Store(error)),
                }
            }
        }
        Ok(())
    }
}
