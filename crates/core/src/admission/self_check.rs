//! Applies a patch to the pod as received, before it is sent, and compares the outcome with what is
//! wanted. A patch that does not apply makes the API server answer 500 even where the webhook's failure
//! policy is Ignore, so a difference means that no patch is sent.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::admission::patch::{Annotations, Operation};
use crate::admission::response::ANNOTATIONS_LIMIT;
use crate::keys;
use crate::overcommit::{Amount, Plan, Target};
use crate::pod::{PodView, Pruned, Resources};

/// What a patch would do wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelfCheckError {
    /// An operation on a path that is not ours.
    #[error("the patch has an operation on {0}")]
    ForeignPath(String),
    /// An operation does not apply.
    #[error("the patch does not apply: {0}")]
    DoesNotApply(String),
    /// The outcome is not what was planned.
    #[error("the patched pod differs from the plan at {0}")]
    Differs(String),
    /// A request would be above its limit.
    #[error("the request at {0} would be above its limit")]
    AboveLimit(String),
    /// The annotations together would be larger than the API server takes.
    #[error("the annotations would have {0} bytes; the API server takes 262144")]
    AnnotationsTooLarge(usize),
}

/// Checks a patch against the pod it was made for.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(
    received: &Pruned,
    before: &PodView<'_>,
    plan: &Plan,
    annotations: &Annotations,
    operations: &[Operation],
) -> Result<(), SelfCheckError> {
    if let Some(foreign) = operations.iter().find(|operation| !is_ours(operation.path())) {
        return Err(SelfCheckError::ForeignPath(foreign.path().to_owned()));
    }
    let mut patched = received.0.clone();
    let patch: json_patch::Patch = serde_json::to_value(operations)
        .and_then(serde_json::from_value)
        .map_err(|error| SelfCheckError::DoesNotApply(error.to_string()))?;
    json_patch::patch(&mut patched, &patch)
        .map_err(|error| SelfCheckError::DoesNotApply(error.to_string()))?;
    let patched = Pruned(patched);
    let after = PodView::read(&patched).map_err(|error| SelfCheckError::Differs(error.path))?;
    compare_resources(before, &after, plan)?;
    compare_annotations(before, &after, annotations)
}

fn is_ours(path: &str) -> bool {
    let container = |rest: &str| {
        rest.split_once('/').is_some_and(|(index, rest)| {
            index.bytes().all(|b| b.is_ascii_digit()) && is_or_below(rest, "resources")
        })
    };
    is_or_below(path, "/metadata/annotations")
        || is_or_below(path, "/spec/resources")
        || path.strip_prefix("/spec/containers/").is_some_and(container)
        || path.strip_prefix("/spec/initContainers/").is_some_and(container)
}

fn is_or_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn compare_resources(before: &PodView<'_>, after: &PodView<'_>, plan: &Plan) -> Result<(), SelfCheckError> {
    if before.containers.len() != after.containers.len() {
        return Err(SelfCheckError::Differs("spec.containers".to_owned()));
    }
    for (old, new) in before.containers.iter().zip(&after.containers) {
        compare(&Target::of(old), &old.resources, &new.resources, plan)?;
    }
    compare(&Target::Pod, &before.pod_level, &after.pod_level, plan)
}

/// Limits are as before; requests are as planned, and as before where nothing was planned.
fn compare(
    target: &Target,
    old: &Resources<'_>,
    new: &Resources<'_>,
    plan: &Plan,
) -> Result<(), SelfCheckError> {
    let differs = |part: &str| SelfCheckError::Differs(format!("{target}: {part}"));
    if old.limits != new.limits {
        return Err(differs("limits"));
    }
    let mut wanted: Map<String, Value> = old.requests.cloned().unwrap_or_default();
    for line in plan.lines.iter().filter(|line| &line.target == target && line.changes()) {
        wanted.insert(line.resource.name().to_owned(), Value::String(line.result.text.clone()));
        let limit = Amount::read(new.limits, line.resource.name()).and_then(Result::ok);
        if limit.is_some_and(|limit| line.result.nanos > limit.nanos) {
            return Err(SelfCheckError::AboveLimit(format!("{target}: {}", line.resource)));
        }
    }
    if new.requests.cloned().unwrap_or_default() != wanted {
        return Err(differs("requests"));
    }
    Ok(())
}

fn compare_annotations(
    before: &PodView<'_>,
    after: &PodView<'_>,
    annotations: &Annotations,
) -> Result<(), SelfCheckError> {
    let mut wanted = before.annotations.cloned().unwrap_or_default();
    for (key, text) in
        [(keys::APPLIED, &annotations.applied), (keys::ORIGINAL_RESOURCES, &annotations.record)]
    {
        match text {
            Some(text) => wanted.insert(key.to_owned(), Value::String(text.clone())),
            None => wanted.remove(key),
        };
    }
    if after.annotations.cloned().unwrap_or_default() != wanted {
        return Err(SelfCheckError::Differs("metadata.annotations".to_owned()));
    }
    let size = wanted.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT { Err(SelfCheckError::AnnotationsTooLarge(size)) } else { Ok(()) }
}
