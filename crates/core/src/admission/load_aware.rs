//! The third step at `/mutate`: pods of namespaces that want it prefer nodes by their load class.
//!
//! Only preferences are added: a pod that finds no other node runs on a loaded one.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::apply::apply;
use crate::admission::decide::{Context, Decision};
use crate::admission::patch::Operation;
use crate::admission::response::Outcome;
use crate::admission::self_check::SelfCheckError;
use crate::admission::skip::Skip;
use crate::keys::{self, OPT_OUT_VALUES};
use crate::pod::{Json, Pruned};

/// JSON path of the preferred terms of a pod's node affinity.
const PREFERRED: [&str; 4] =
    ["spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Adds the terms to what was decided about a pod before.
pub(super) fn add(decision: &mut Decision, pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) {
    let is_left_alone = matches!(
        decision.answer.outcome,
        Outcome::Denied | Outcome::Error | Outcome::Skipped(Skip::Malformed)
    );
    if !context.settings.load_class || is_left_alone || !is_wanted(pod, namespace, context) {
        return;
    }
    // What the steps before make of it: they may have given the pod an affinity.
    let mut before = pod.clone();
    let applied = apply(&mut before.0, &decision.answer.patch).map_err(SelfCheckError::DoesNotApply);
    let checked = applied.and_then(|()| {
        let Some(operation) = prefer(&before.0)? else { return Ok(None) };
        check(&before, &operation)?;
        Ok(Some(operation))
    });
    let answer = &mut decision.answer;
    match checked {
        Ok(None) => {}
        Ok(Some(operation)) => {
            answer.outcome = Outcome::Applied;
            let words = "prefers nodes by their load";
            answer.changed = Some(match answer.changed.take() {
                Some(others) => format!("{others}; {words}"),
                None => words.to_owned(),
            });
            let annotations = answer.patch.iter().position(|known| known.path().starts_with("/metadata/"));
            answer.patch.insert(annotations.unwrap_or(answer.patch.len()), operation);
            decision.load_class = true;
        }
        Err(error) => {
            answer.warnings.push(format!("plimsoll: no preference for nodes by their load: {error}"));
            decision.self_check.get_or_insert(error);
        }
    }
}

/// Whether the namespace asks for it, and the pod is one that a scheduler has a choice for.
fn is_wanted(pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) -> bool {
    if context.settings.excluded_namespaces.contains(namespace) {
        return false;
    }
    let found = context.namespace.or_else(|| context.objects.namespace(namespace).map(Arc::as_ref));
    let Some(home) = found else { return false };
    let opts_out = |value: Option<&str>| value.is_some_and(|value| OPT_OUT_VALUES.contains(&value));
    let of_home = [&home.labels, &home.annotations].map(|map| map.get(keys::OVERCOMMIT).map(String::as_str));
    let of_pod = |part: &str, key: &str| pod.0.get("metadata")?.get(part)?.get(key)?.as_str();
    home.labels.get(keys::LOAD_AWARE).map(String::as_str) == Some("true")
        && !of_home.into_iter().any(opts_out)
        && !opts_out(of_pod("annotations", keys::OVERCOMMIT))
        && !opts_out(of_pod("annotations", keys::LOAD_AWARE))
        && !opts_out(of_pod("labels", keys::LOAD_AWARE))
        && !is_of_daemon_set(pod)
}

fn is_of_daemon_set(pod: &Pruned<'_>) -> bool {
    let references = pod.0.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    let Some(Json::List(references)) = references else { return false };
    references.iter().any(|reference| {
        reference.get("controller") == Some(&Json::Bool(true))
            && reference.get("kind").and_then(Json::as_str) == Some("DaemonSet")
    })
}

/// The greatest weight that a term may have.
const GREATEST: i64 = 100;

/// The terms, beside those that are there: together [`GREATEST`] for a node of class `low`, half of it for one that is
/// neither `low` nor `high`, nothing for `high`. What the author wishes comes first: where terms are there, both together
/// weigh at most as much as the heaviest of these, but each at least 1.
fn terms(known: &[Json<'_>]) -> [Value; 2] {
    let heaviest = known.iter().filter_map(weight).max().unwrap_or(GREATEST);
    let weight = (heaviest / 2).max(1);
    let term = |operator: &str, class: &str| {
        json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": keys::LOAD_CLASS, "operator": operator, "values": [class]},
        ]}})
    };
    [term("In", "low"), term("NotIn", "high")]
}

fn weight(term: &Json<'_>) -> Option<i64> {
    let Json::Number(number) = term.get("weight")? else { return None };
    number.as_i64().filter(|weight| (1..=GREATEST).contains(weight))
}

/// What makes a pod prefer nodes by their load; nothing if it says something about their class already, which it does
/// when it comes again.
fn prefer(pod: &Json<'_>) -> Result<Option<Operation>, SelfCheckError> {
    let malformed = || SelfCheckError::Differs(PREFERRED.join("."));
    let mut at = pod;
    let mut present = 0;
    for key in PREFERRED {
        match at.get(key) {
            None | Some(Json::Null) => break,
            Some(below) => at = below,
        }
        present += 1;
    }
    let present_path = PREFERRED.get(..present).unwrap_or_default();
    if present == PREFERRED.len() {
        let Json::List(known) = at else { return Err(malformed()) };
        if known.iter().any(is_about_load) {
            return Ok(None);
        }
        let all: Vec<Value> = known.iter().map(Json::to_value).chain(terms(known)).collect();
        return Ok(Some(Operation::Add { path: pointer(&PREFERRED), value: all.into() }));
    }
    if present == 0 || !matches!(at, Json::Object(_)) {
        return Err(malformed());
    }
    // What is missing is added whole, from the inside out.
    let missing = PREFERRED.get(present + 1..).unwrap_or_default();
    let value =
        missing.iter().rev().fold(Value::from(terms(&[]).to_vec()), |value, key| json!({*key: value}));
    let path = present_path.iter().chain(PREFERRED.get(present)).copied().collect::<Vec<_>>();
    Ok(Some(Operation::Add { path: pointer(&path), value }))
}

fn is_about_load(term: &Json<'_>) -> bool {
    let expressions = term.get("preference").and_then(|preference| preference.get("matchExpressions"));
    let Some(Json::List(expressions)) = expressions else { return false };
    expressions
        .iter()
        .any(|expression| expression.get("key").and_then(Json::as_str) == Some(keys::LOAD_CLASS))
}

fn pointer(path: &[&str]) -> String {
    path.iter().flat_map(|key| ["/", key]).collect()
}

/// Checks the operation against the pod that it was made for: it adds our terms behind those that are there, changes
/// nothing else of the affinity, and what comes back after it needs nothing more.
fn check(before: &Pruned<'_>, operation: &Operation) -> Result<(), SelfCheckError> {
    const PLACE: &str = "/spec/affinity";
    let path = operation.path();
    if !path.strip_prefix(PLACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(SelfCheckError::ForeignPath(path.to_owned()));
    }
    let operations = [operation.clone()];
    let mut after = before.clone();
    apply(&mut after.0, &operations).map_err(SelfCheckError::DoesNotApply)?;
    let required = |pod: &Pruned<'_>| {
        let affinity = pod.0.get("spec")?.get("affinity")?.get("nodeAffinity")?;
        affinity.get(REQUIRED).map(Json::to_value)
    };
    let known = preferred(before);
    let expected: Vec<Value> = known.iter().map(Json::to_value).chain(terms(known)).collect();
    let settled = prefer(&after.0).is_ok_and(|more| more.is_none());
    let added = preferred(&after).iter().map(Json::to_value).collect::<Vec<_>>();
    if settled && added == expected && required(before) == required(&after) {
        Ok(())
    } else {
        Err(SelfCheckError::Differs(PREFERRED.join(".")))
    }
}

fn preferred<'a, 'b>(pod: &'b Pruned<'a>) -> &'b [Json<'a>] {
    let found = PREFERRED.iter().try_fold(&pod.0, |at, key| at.get(key));
    match found {
        Some(Json::List(terms)) => terms,
        _ => &[],
    }
}
