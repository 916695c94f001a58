//! Disruption budgets that allow no eviction now.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::problem;
use plimsoll_core::profile::{Selector, read_selector};
use plimsoll_core::quota::PodNames;
use serde_json::Value;

use crate::input::Document;

/// The pods that cannot be evicted: a budget over them allows no disruption, or two budgets stand over them, which the
/// API server does not serve. How many of a budget go together is not looked at.
///
/// # Errors
/// A selector that cannot be read; where, and what is wrong.
pub(super) fn guarded(documents: &[Document]) -> Result<PodNames, String> {
    let mut budgets: HashMap<&str, Vec<(Selector, bool)>> = HashMap::new();
    for Document { value, origin } in
        documents.iter().filter(|document| is(&document.value, "policy/v1", "PodDisruptionBudget"))
    {
        let name = text(value, "/metadata/name");
        let selector = match value.pointer("/spec/selector") {
            // Unlike the empty one, the absent selector selects nothing.
            None | Some(Value::Null) => continue,
            Some(selector) => read_selector(selector, "spec.selector"),
        };
        let selector = selector.map_err(|problems| {
            format!("{origin}: PodDisruptionBudget {}/{name}: {}", namespace(value), problem::join(&problems))
        })?;
        budgets.entry(namespace(value)).or_default().push((selector, allows_none(value)));
    }
    let mut guarded = PodNames::new();
    if budgets.is_empty() {
        return Ok(guarded);
    }
    for Document { value, .. } in documents.iter().filter(|document| is(&document.value, "v1", "Pod")) {
        let labels = labels(value);
        let over = budgets.get(namespace(value)).into_iter().flatten();
        let over: Vec<bool> =
            over.filter(|(selector, _)| selector.selects(&labels)).map(|(_, none)| *none).collect();
        if over.len() > 1 || over.contains(&true) {
            guarded.insert((namespace(value).into(), text(value, "/metadata/name").into()));
        }
    }
    Ok(guarded)
}

/// By its status, which the disruption controller writes, or else by what holds whatever pods there are.
fn allows_none(budget: &Value) -> bool {
    if let Some(allowed) = budget.pointer("/status/disruptionsAllowed") {
        return allowed.as_i64().is_some_and(|allowed| allowed <= 0);
    }
    let is = |pointer: &str, number: Option<i64>, share: &str| {
        let value = budget.pointer(pointer);
        value.is_some_and(|value| {
            (number.is_some() && value.as_i64() == number) || value.as_str() == Some(share)
        })
    };
    is("/spec/maxUnavailable", Some(0), "0%") || is("/spec/minAvailable", None, "100%")
}

fn is(value: &Value, version: &str, kind: &str) -> bool {
    text(value, "/apiVersion") == version && text(value, "/kind") == kind
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn namespace(value: &Value) -> &str {
    value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default")
}

fn labels(pod: &Value) -> BTreeMap<String, String> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
