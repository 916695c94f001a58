//! `/api/v1/recommendations`.

use std::sync::Arc;

use plimsoll_core::objects::{Objects, Recommendation};
use plimsoll_core::recommender::{Amounts, UserProfile};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct List<'a> {
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    namespace: &'a str,
    name: &'a str,
    profile: &'a str,
    target_ref: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_profile: Option<&'static str>,
    containers: &'a RawValue,
    conditions: &'a RawValue,
}

pub(super) fn all(objects: &Objects) -> String {
    list(objects, objects.all_recommendations())
}

pub(super) fn of_namespace(objects: &Objects, namespace: &str) -> String {
    list(objects, objects.recommendations_in(namespace))
}

/// Those about one workload, of which there may be one for each pod, and of each API group; nothing if there are none.
pub(super) fn of_workload(objects: &Objects, namespace: &str, kind: &str, name: &str) -> Option<String> {
    let mut found = objects
        .recommendations_in(namespace)
        .filter(|found| found.target.name == name && found.target.kind.eq_ignore_ascii_case(kind))
        .peekable();
    found.peek()?;
    Some(list(objects, found))
}

fn list<'a>(objects: &'a Objects, found: impl Iterator<Item = &'a Arc<Recommendation>>) -> String {
    // What the nodes have is not watched; what all workloads need together has nearly the same proportions.
    let total: Amounts = objects.all_recommendations().map(|found| Amounts::of(found)).sum();
    let mut items: Vec<_> = found.filter_map(|found| item(found, total)).collect();
    items.sort_by_key(|item| (item.namespace, item.name));
    serde_json::to_string(&List { items }).unwrap_or_default()
}

fn item(found: &Recommendation, total: Amounts) -> Option<Item<'_>> {
    // Written by us from what was JSON: it is JSON.
    let raw = |text| serde_json::from_str::<&RawValue>(text).ok();
    Some(Item {
        namespace: &found.namespace,
        name: &found.name,
        profile: &found.profile,
        target_ref: raw(&found.shown.target)?,
        pod_name: found.pod_name.as_deref(),
        user_profile: UserProfile::of(Amounts::of(found), total).map(UserProfile::as_str),
        containers: raw(&found.shown.containers)?,
        conditions: raw(&found.shown.conditions)?,
    })
}
