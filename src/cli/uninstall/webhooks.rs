//! Webhook configurations: while they are there without a server, what they fail closed for is blocked.

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, is_ours};

const STEP: &str = "webhooks";
/// The configurations of the base.
const BASE: &str = "plimsoll";

const KINDS: [(&str, &str); 2] = [
    // What fails closed first.
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

pub(super) async fn delete(job: &Job) -> Vec<Line> {
    let mut lines = Vec::new();
    for name in [job.quota_webhooks.as_str(), BASE] {
        for (kind, plural) in KINDS {
            let kind = Collection {
                group: "admissionregistration.k8s.io",
                version: "v1",
                kind,
                plural,
                namespace: "",
            };
            lines.push(one(job, kind, name).await);
        }
    }
    lines
}

async fn one(job: &Job, kind: Collection<'_>, name: &str) -> Line {
    let line = |result, message: String| Line { step: STEP, object: kind.object(name), result, message };
    let nothing = || line(Ending::Nothing, "not there".to_owned());
    let found = match job.calls.get(kind, name).await {
        Ok(Some(found)) => found,
        Ok(None) => return nothing(),
        Err(error) => return line(Ending::Failed, error.to_string()),
    };
    if !is_ours(&found) {
        let why = "left, since it is not ours: it has no label app.kubernetes.io/name: plimsoll";
        return line(Ending::Left, why.to_owned());
    }
    if job.dry_run {
        return line(job.ending(), job.words("deleted"));
    }
    match job.calls.delete(kind, &found).await {
        Ok(true) => line(job.ending(), job.words("deleted")),
        Ok(false) => nothing(),
        Err(error) => line(Ending::Failed, error.to_string()),
    }
}
