//! Applies a patch to the pod as received, before it is sent, and compares the outcome with what is
//! wanted. A patch that does not apply makes the API server answer 500 even where the webhook's failure
//! policy is Ignore, so a difference means that no patch is sent.

use thiserror::Error;

use crate::admission::apply::apply;
use crate::admission::patch::{Annotations, Operation};
use crate::admission::response::ANNOTATIONS_LIMIT;
use crate::keys;
use crate::overcommit::{Amount, Plan, Target};
use crate::pod::{Json, Members, PodView, Pruned, Resources};
use crate::quota::flavor::{Placement, inject};

/// What a patch would do wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelfCheckError {
    /// An operation on a path that is not ours.
    #[error("the patch has an operation on {0}")]
    ForeignPath(String),
    /// An operation does not apply.
    #[error("the patch does not apply at {0}")]
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
    received: &Pruned<'_>,
    before: &PodView<'_>,
    plan: &Plan,
    annotations: &Annotations,
    operations: &[Operation],
) -> Result<(), SelfCheckError> {
    if let Some(foreign) = operations.iter().find(|operation| !is_ours(operation.path())) {
        return Err(SelfCheckError::ForeignPath(foreign.path().to_owned()));
    }
    let mut patched = received.clone();
    apply(&mut patched.0, operations).map_err(SelfCheckError::DoesNotApply)?;
    let after = PodView::read(&patched).map_err(|error| SelfCheckError::Differs(error.path))?;
    compare_resources(before, &after, plan)?;
    compare_annotations(before, &after, annotations)
}

/// Checks a patch of the node affinity: it changes nothing else, the pod then implies the placement, and what comes
/// back after it needs nothing more.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_affinity(
    received: &Pruned<'_>,
    placement: &Placement,
    operations: &[Operation],
) -> Result<(), SelfCheckError> {
    const PLACE: &str = "/spec/affinity";
    if let Some(foreign) = operations.iter().find(|operation| !is_or_below(operation.path(), PLACE)) {
        return Err(SelfCheckError::ForeignPath(foreign.path().to_owned()));
    }
    let mut patched = received.clone();
    apply(&mut patched.0, operations).map_err(SelfCheckError::DoesNotApply)?;
    let settled = inject(&patched.0, placement).is_ok_and(|more| more.set.is_empty());
    if settled && placement.check(&patched.0).is_ok() {
        Ok(())
    } else {
        Err(SelfCheckError::Differs("spec.affinity.nodeAffinity".to_owned()))
    }
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
    let planned = || plan.of(target).iter().filter(|line| line.changes());
    for line in planned() {
        let limit = Amount::read(new.limits, line.resource.name()).and_then(Result::ok);
        if limit.is_some_and(|limit| line.result.nanos > limit.nanos) {
            return Err(SelfCheckError::AboveLimit(format!("{target}: {}", line.resource)));
        }
    }
    let changes: Vec<_> =
        planned().map(|line| (line.resource.name(), Some(line.result.text.as_str()))).collect();
    if is_changed(old.requests, new.requests, &changes) { Ok(()) } else { Err(differs("requests")) }
}

fn compare_annotations(
    before: &PodView<'_>,
    after: &PodView<'_>,
    annotations: &Annotations,
) -> Result<(), SelfCheckError> {
    let changes = [
        (keys::APPLIED, annotations.applied.as_deref()),
        (keys::ORIGINAL_RESOURCES, annotations.record.as_deref()),
    ];
    if !is_changed(before.annotations, after.annotations, &changes) {
        return Err(SelfCheckError::Differs("metadata.annotations".to_owned()));
    }
    fits(after.annotations)
}

/// Whether the API server takes annotations together.
///
/// # Errors
/// They are too large.
pub(crate) fn fits(annotations: Option<&Members<'_>>) -> Result<(), SelfCheckError> {
    let all = annotations.into_iter().flat_map(Members::iter);
    let size = all.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT { Err(SelfCheckError::AnnotationsTooLarge(size)) } else { Ok(()) }
}

/// Whether `new` is `old` with just these members set, or removed where there is no text.
fn is_changed(
    old: Option<&Members<'_>>,
    new: Option<&Members<'_>>,
    changes: &[(&str, Option<&str>)],
) -> bool {
    let get = |key: &str| new.and_then(|map| map.get(key));
    let is_changed = |key: &str| changes.iter().any(|(changed, _)| *changed == key);
    let others = |members: Option<&Members<'_>>| {
        members.into_iter().flat_map(Members::iter).filter(|(key, _)| !is_changed(key)).count()
    };
    others(new) == others(old)
        && old
            .into_iter()
            .flat_map(Members::iter)
            .all(|(key, value)| get(key) == Some(value) || is_changed(key))
        && changes.iter().all(|(key, text)| match text {
            Some(text) => get(key).and_then(Json::as_str) == Some(text),
            None => get(key).is_none(),
        })
}

#[cfg(test)]
mod tests {
    use super::is_changed;
    use crate::pod::Json;
    use serde_json::{Value, json};

    #[test]
    fn changes_and_nothing_else() {
        let cpu = &[("cpu", Some("500m"))][..];
        let gone = &[("cpu", None)][..];
        for (rule, old, new, changes, expected) in [
            ("set", json!({"cpu": "1", "memory": "1Gi"}), json!({"cpu": "500m", "memory": "1Gi"}), cpu, true),
            ("not set", json!({"cpu": "1"}), json!({"cpu": "1"}), cpu, false),
            ("set to a number", json!({"cpu": "1"}), json!({"cpu": 500}), cpu, false),
            ("added", json!({}), json!({"cpu": "500m"}), cpu, true),
            ("added where there was no map", Value::Null, json!({"cpu": "500m"}), cpu, true),
            ("another changed", json!({"a": "1"}), json!({"a": "2", "cpu": "500m"}), cpu, false),
            ("another lost", json!({"a": "1"}), json!({"cpu": "500m"}), cpu, false),
            ("another gained", json!({}), json!({"a": "1", "cpu": "500m"}), cpu, false),
            ("another renamed", json!({"a": "1"}), json!({"b": "1", "cpu": "500m"}), cpu, false),
            ("removed", json!({"cpu": "1", "a": "1"}), json!({"a": "1"}), gone, true),
            ("not removed", json!({"cpu": "1"}), json!({"cpu": "1"}), gone, false),
            ("no change wanted", json!({"a": "1"}), json!({"a": "1"}), &[], true),
            ("an empty map is as good as none", json!({}), Value::Null, &[], true),
        ] {
            let (old, new) = (Json::from(old), Json::from(new));
            assert_eq!(is_changed(old.as_object(), new.as_object(), changes), expected, "{rule}");
        }
    }
}
