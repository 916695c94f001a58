//! Ledgers of quota: without a leader nobody takes their finalizer away, and the namespace and the CRD would wait for ever.
//!
//! A server that is still asked and has no ledger refuses what its quota is about, so that they go only after the servers.

use serde_json::{Value, json};

use super::servers::Stopped;
use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cli::progress::{Progress, Unit, count};
use crate::cluster::WriteError;
use crate::quota::FINALIZER;

const STEP: &str = "ledgers";
/// So often it is tried to take the finalizer away: whoever admits a pod meanwhile puts it back.
const TRIES: u32 = 3;

/// Deletes them if no server runs any more, and nothing `stands` that would ask one.
pub(super) async fn delete(job: &Job, stopped: Stopped, stands: &[String]) -> Vec<Line> {
    let ledgers = Collection {
        group: "plimsoll.dev",
        version: "v1alpha1",
        kind: "QuotaLedger",
        plural: "quotaledgers",
        namespace: &job.own,
    };
    let all = |result, message: String| {
        vec![Line { step: STEP, object: format!("QuotaLedgers of {}", job.own), result, message }]
    };
    let mut found = match list(job, ledgers).await {
        Ok(found) => found,
        Err(error) => return all(Ending::Failed, error.to_string()),
    };
    if found.is_empty() {
        return all(Ending::Nothing, "none is there".to_owned());
    }
    let line = |ledger: &Value, result, message: String| Line {
        step: STEP,
        object: ledgers.object(name_of(ledger)),
        result,
        message,
    };
    if let Some(why) = why_left(stopped, stands) {
        return found.iter().map(|ledger| line(ledger, Ending::Left, why.clone())).collect();
    }
    if job.dry_run {
        return found.iter().map(|ledger| line(ledger, job.ending(), job.words("deleted"))).collect();
    }
    let progress = Progress::new("deleting quota ledgers", Unit::Objects);
    progress.expect(count(found.len()));
    let mut lines = Vec::new();
    for left in (0..TRIES).rev() {
        let mut tried = Vec::new();
        for ledger in found {
            match one(job, ledgers, &ledger).await {
                Ok(()) => tried.push(ledger),
                Err(error) => lines.push(line(&ledger, Ending::Failed, error.to_string())),
            }
        }
        let still = match list(job, ledgers).await {
            Ok(still) => still,
            Err(error) => {
                let why = format!("whether it is deleted is not known: {error}");
                lines.extend(tried.iter().map(|ledger| line(ledger, Ending::Failed, why.clone())));
                break;
            }
        };
        found = Vec::new();
        for ledger in &tried {
            let now = still.iter().find(|other| name_of(other) == name_of(ledger));
            let others = now.map(|now| finalizers(now).filter(|name| *name != FINALIZER).collect::<Vec<_>>());
            match (now, others) {
                (Some(now), Some(others)) if others.is_empty() && left > 0 => {
                    found.push(now.clone());
                    continue;
                }
                (Some(_), Some(others)) if others.is_empty() => {
                    let why = "not deleted: a server that still runs writes it again; stop it first";
                    lines.push(line(ledger, Ending::Failed, why.to_owned()));
                }
                (Some(_), Some(others)) => {
                    let why = format!(
                        "marked for deletion; it stays until whoever put its finalizer {} there takes that away",
                        others.join(", ")
                    );
                    lines.push(line(ledger, Ending::Left, why));
                }
                _ => lines.push(line(ledger, Ending::Done, "deleted".to_owned())),
            }
            progress.add();
        }
        if found.is_empty() {
            break;
        }
    }
    lines
}

async fn list(job: &Job, ledgers: Collection<'_>) -> Result<Vec<Value>, WriteError> {
    match job.calls.list(ledgers, None).await {
        // Nobody has ledgers where there is no such kind.
        Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Ok(Vec::new()),
        found => found,
    }
}

/// Why they must stay, if they must.
fn why_left(stopped: Stopped, stands: &[String]) -> Option<String> {
    let then = "without it what its quota is about would be refused; run this again when that is mended, before the \
                namespace is deleted";
    if !stands.is_empty() {
        return Some(format!("left, since a server is still asked by {}: {then}", stands.join(", ")));
    }
    (stopped == Stopped::Unknown).then(|| format!("left, since a server may still run: {then}"))
}

fn finalizers(ledger: &Value) -> impl Iterator<Item = &str> {
    let all = ledger.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

async fn one(job: &Job, ledgers: Collection<'_>, ledger: &Value) -> Result<(), WriteError> {
    let others: Vec<_> = finalizers(ledger).filter(|name| *name != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others}});
    job.calls.merge(ledgers, None, name_of(ledger), &patch).await?;
    job.calls.delete(ledgers, ledger).await.map(drop)
}
