//! Ledgers of quota: a finalizer keeps them from being deleted while a server may need them, and so their namespace and
//! their kind, for ever once nobody is there to take it away.

use serde_json::{Value, json};

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cluster::WriteError;
use crate::quota::FINALIZER;

const STEP: &str = "ledgers";

pub(super) async fn delete(job: &Job) -> Vec<Line> {
    let kind = Collection {
        group: "plimsoll.dev",
        version: "v1alpha1",
        kind: "QuotaLedger",
        plural: "quotaledgers",
        namespace: &job.own,
    };
    let line = |object: String, result, message: &str| Line {
        step: STEP,
        object,
        result,
        message: message.to_owned(),
    };
    let all = || format!("QuotaLedgers of {}", job.own);
    let ledgers = match job.calls.list(kind, None).await {
        Ok(ledgers) => ledgers,
        Err(WriteError::NotFound { .. } | WriteError::NotInstalled { .. }) => Vec::new(),
        Err(error) => return vec![line(all(), Ending::Failed, &error.to_string())],
    };
    if ledgers.is_empty() {
        return vec![line(all(), Ending::Nothing, "there are none")];
    }
    let mut lines = Vec::new();
    for ledger in &ledgers {
        let object = kind.object(name_of(ledger));
        lines.push(if job.dry_run {
            line(object, job.ending(), &job.words("deleted"))
        } else {
            match free_and_delete(job, kind, ledger).await {
                Ok(true) => line(object, Ending::Done, "deleted"),
                Ok(false) => line(object, Ending::Nothing, "not there any more"),
                Err(error) => line(object, Ending::Failed, &error.to_string()),
            }
        });
    }
    lines
}

/// Whether it was there.
async fn free_and_delete(job: &Job, kind: Collection<'_>, ledger: &Value) -> Result<bool, WriteError> {
    let finalizers = ledger.pointer("/metadata/finalizers").and_then(Value::as_array);
    let others: Vec<&Value> = finalizers.into_iter().flatten().filter(|one| *one != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others}});
    // One that is being deleted already is gone with this.
    Ok(job.calls.merge(kind, None, name_of(ledger), &patch).await? && {
        job.calls.delete(kind, ledger).await?;
        true
    })
}
