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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::quota::content;
    use crate::quota::leader::Parts;

    /// A leader in a cluster with the ledger of another tree; reading it is answered so.
    fn leader(code: u16, body: &serde_json::Value) -> Leader {
        let other = Tree::new("other", "2", 1, []);
        let spec = content::write(&Ledger::unknown(&other, 1)).unwrap();
        let list = json!({"items": [{"metadata": {"name": "other"}, "spec": spec}]}).to_string();
        let body = body.to_string();
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_list = request.uri().path().ends_with("/quotaledgers");
            let (code, text) = if is_list { (200, &list) } else { (code, &body) };
            let answer = Response::builder().status(code).body(Body::from(text.clone().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        Leader::new(Client::new(service, "default"), Parts::for_tests())
    }

    /// It may be in force, and a replica that is behind go on promising by it.
    #[tokio::test]
    async fn a_ledger_that_cannot_be_read_now_is_not_retired() {
        let status = |code: u16, reason: &str| json!({"kind": "Status", "code": code, "reason": reason, "message": "no", "details": {"name": "other"}});
        let mut unusable = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
        let spec = content::write(&Ledger::unknown(&Tree::new("other", "2", 1, []), 1)).unwrap();
        unusable["spec"] = serde_json::to_value(&spec).unwrap();
        unusable["spec"]["data"] = json!("?");
        for (rule, code, body, is_error) in [
            ("unavailable", 503, status(503, "ServiceUnavailable"), true),
            ("no right", 403, status(403, "Forbidden"), true),
            ("gone", 404, status(404, "NotFound"), false),
            ("its content cannot be used", 200, unusable, false),
        ] {
            let retired = leader(code, &body).retire_others(&Tree::new("elastic", "1", 1, [])).await;
            assert_eq!(retired.is_err(), is_error, "{rule}: {retired:?}");
        }
    }
}
