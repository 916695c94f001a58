//! Workloads: quota writes an annotation on those whose pods it refused, so that their controllers try again at once.
//!
//! Only metadata of the object itself is written, never its pod template: nothing is rolled out.

use futures_util::{StreamExt as _, stream};
use plimsoll_core::keys;
use serde_json::{Value, json};

use super::{Ending, Job, Line};
use crate::cli::calls::{Collection, name_of};
use crate::cli::progress::{Progress, Unit, count};
use crate::cluster::WriteError;
use crate::quota::RETRIED_KINDS;

const STEP: &str = "workloads";
/// How many are written at a time.
const AT_ONCE: usize = 8;
/// What nobody told to try again, and may carry the annotation all the same: `kubectl rollout undo` copies those of a
/// `ReplicaSet` to its Deployment, and the Deployment's controller copies them on. So these are freed first.
const COPIES: (&str, &str, &str) = ("apps", "Deployment", "deployments");

pub(super) async fn clean(job: &Job) -> Vec<Line> {
    let progress = Progress::new("freeing workloads of an annotation", Unit::Objects);
    let (mut lines, mut total) = (Vec::new(), 0);
    for (group, kind, plural) in std::iter::once(COPIES).chain(RETRIED_KINDS) {
        let all = Collection { group, version: "v1", kind, plural, namespace: "" };
        let found = match job.calls.list(all, None).await {
            Ok(found) => found,
            Err(error) => {
                let object = format!("{kind}s");
                lines.push(Line { step: STEP, object, result: Ending::Failed, message: error.to_string() });
                continue;
            }
        };
        let marked: Vec<_> = found.iter().filter(|object| is_marked(object)).collect();
        total += marked.len();
        progress.expect(count(total));
        let progress = &progress;
        let freed: Vec<Line> = stream::iter(marked)
            .map(|object| async move {
                let line = one(job, all, object).await;
                progress.add();
                line
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        lines.extend(freed);
    }
    if lines.is_empty() {
        let message = "none carries anything of ours".to_owned();
        lines.push(Line { step: STEP, object: "Workloads".to_owned(), result: Ending::Nothing, message });
    }
    lines
}

fn is_marked(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(keys::QUOTA_RETRY).is_some())
}

async fn one(job: &Job, all: Collection<'_>, object: &Value) -> Line {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let kind = Collection { namespace: text("/metadata/namespace"), ..all };
    let name = name_of(object);
    let line = |result, message: String| Line { step: STEP, object: kind.object(name), result, message };
    let done = job.words("freed of our annotation");
    if job.dry_run {
        return line(job.ending(), done);
    }
    // An object of this name with another uid is another one, which refuses to get this one.
    let gone = json!({ keys::QUOTA_RETRY: null });
    let patch = json!({ "metadata": { "uid": text("/metadata/uid"), "annotations": gone } });
    match job.calls.merge(kind, None, name, &patch).await {
        Ok(true) => line(Ending::Done, done),
        Ok(false) | Err(WriteError::Conflict { .. }) => {
            line(Ending::Nothing, "not there any more".to_owned())
        }
        // Somebody's rules for workloads are no reason not to uninstall: the annotation says nothing to anybody.
        Err(error @ WriteError::Refused { .. }) => {
            line(Ending::Left, format!("left, since it is refused: {error}"))
        }
        Err(error) => line(Ending::Failed, error.to_string()),
    }
}
