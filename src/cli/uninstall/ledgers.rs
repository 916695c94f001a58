//! Ledgers of quota: without a leader nobody takes their finalizer away, and the namespace and the CRD would wait for ever.

use serde_json::{Value, json};

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cli::progress::{Progress, Unit, count};
use crate::cluster::WriteError;
use crate::quota::FINALIZER;

const STEP: &str = "ledgers";

pub(super) async fn delete(job: &Job) -> Vec<Line> {
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
    let found = match job.calls.list(ledgers, None).await {
        Ok(found) => found,
        // Nobody has ledgers where there is no such kind.
        Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Vec::new(),
        Err(error) => return all(Ending::Failed, error.to_string()),
    };
    if found.is_empty() {
        return all(Ending::Nothing, "none is there".to_owned());
    }
    let progress = Progress::new("deleting quota ledgers", Unit::Objects);
    progress.expect(count(found.len()));
    let mut lines = Vec::new();
    for ledger in &found {
        let (result, message) = match one(job, ledgers, ledger).await {
            Ok(()) => (job.ending(), job.words("deleted")),
            Err(why) => (Ending::Failed, why),
        };
        lines.push(Line { step: STEP, object: ledgers.object(name_of(ledger)), result, message });
        progress.add();
    }
    lines
}

async fn one(job: &Job, ledgers: Collection<'_>, ledger: &Value) -> Result<(), String> {
    if job.dry_run {
        return Ok(());
    }
    let finalizers = ledger.pointer("/metadata/finalizers").and_then(Value::as_array);
    let others: Vec<_> = finalizers.into_iter().flatten().filter(|name| *name != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others}});
    job.calls.merge(ledgers, None, name_of(ledger), &patch).await.map_err(|error| error.to_string())?;
    job.calls.delete(ledgers, ledger).await.map(drop).map_err(|error| error.to_string())
}
