//! Reservations that are old, and whose pods nobody has seen, are looked into.

use plimsoll_core::quota::keeper::Found;
use plimsoll_core::quota::ledger::Ledger;

use super::Leader;
use super::kept::Kept;
use crate::quota::pods;
use crate::status::Part;

/// So many pods of old reservations are asked for in one round.
const SUSPECTS: usize = 32;

/// What may fail, as it is told.
const SUSPECTED: &str = "look for reserved pods";

impl Leader {
    /// Asks for the pods of reservations that are old.
    pub(super) async fn check_suspects(&self, kept: &mut Kept, ledger: &Ledger, now: u64) {
        let mut failures = 0;
        let suspects: Vec<_> = kept
            .keeper
            .suspects(ledger, now)
            .take(SUSPECTS)
            .map(|(key, reservation)| (key.clone(), reservation.clone()))
            .collect();
        for (key, reservation) in suspects {
            match pods::get(&self.client, &reservation.namespace, &reservation.name).await {
                Ok(found) => {
                    self.parts.metrics.health().works(Part::QuotaKeeper, SUSPECTED);
                    let found = found.filter(|pod| pod.uid == key.uid).map_or(Found::Absent, Found::Pod);
                    kept.keeper.checked(&key, &reservation, found, self.now());
                }
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::QuotaKeeper, SUSPECTED, &error) {
                        tracing::warn!(%error, "it cannot be asked whether a reserved pod is there; it stays reserved");
                    }
                    failures += 1;
                    if failures == 3 {
                        return;
                    }
                }
            }
        }
    }
}
