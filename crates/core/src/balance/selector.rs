//! Selectors and taints as they stand in pods, against the labels and taints of what they may select.

use crate::hpa::OF_ONE_POD;
use crate::objects::Taint;
use crate::pod::{Json, Members};

/// Looks a label up by its key.
pub(super) type Labels<'l> = &'l dyn Fn(&str) -> Option<&'l str>;

/// The items of a list; none of what is no list.
pub(super) fn items<'p, 'j>(json: Option<&'p Json<'j>>) -> &'p [Json<'j>] {
    if let Some(Json::List(items)) = json { items } else { &[] }
}

/// Follows keys; null is absent.
pub(super) fn at<'p, 'j>(json: &'p Json<'j>, path: &[&str]) -> Option<&'p Json<'j>> {
    path.iter().try_fold(json, |json, key| json.get(key)).filter(|json| !json.is_null())
}

pub(super) fn text<'p>(json: &'p Json<'_>, key: &str) -> &'p str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// What an expression says of a label's value; nothing if it is not understood.
fn holds(expression: &Json<'_>, label: Option<&str>) -> Option<bool> {
    let values = || items(expression.get("values")).iter().filter_map(Json::as_str);
    let number = |text: Option<&str>| text?.parse::<i64>().ok();
    Some(match text(expression, "operator") {
        "In" => label.is_some_and(|label| values().any(|value| value == label)),
        "NotIn" => label.is_none_or(|label| values().all(|value| value != label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        operator @ ("Gt" | "Lt") => match (number(label), number(values().next())) {
            (Some(label), Some(bound)) => {
                if operator == "Gt" {
                    label > bound
                } else {
                    label < bound
                }
            }
            _ => false,
        },
        _ => return None,
    })
}

/// Whether a label selector selects; an absent one selects nothing. `unsure` is the answer where it depends on a label
/// that pods of one template do not share, which is not kept, or on what is not understood.
pub(super) fn selects(selector: Option<&Json<'_>>, labels: Labels<'_>, unsure: bool) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return false };
    let known = |key: &str| !OF_ONE_POD.contains(&key);
    let pairs = selector.get("matchLabels").and_then(Json::as_object);
    let all_pairs = pairs.into_iter().flat_map(Members::iter).all(|(key, value)| {
        if known(key) { value.as_str().is_some_and(|value| labels(key) == Some(value)) } else { unsure }
    });
    all_pairs
        && items(selector.get("matchExpressions")).iter().all(|expression| {
            let key = text(expression, "key");
            if known(key) { holds(expression, labels(key)).unwrap_or(unsure) } else { unsure }
        })
}

/// Whether a node satisfies `nodeSelectorTerms` (one of them is enough; an empty one is satisfied by none). What is not
/// understood is not satisfied.
pub(super) fn node_terms(required: &Json<'_>, name: &str, labels: Labels<'_>) -> bool {
    items(required.get("nodeSelectorTerms")).iter().any(|term| {
        let expressions = items(term.get("matchExpressions"));
        let fields = items(term.get("matchFields"));
        let all = |list: &[Json<'_>], value: &dyn Fn(&str) -> Option<Option<String>>| {
            list.iter().all(|expression| {
                value(text(expression, "key"))
                    .and_then(|value| holds(expression, value.as_deref()))
                    .unwrap_or(false)
            })
        };
        !(expressions.is_empty() && fields.is_empty())
            && all(expressions, &|key| Some(labels(key).map(str::to_owned)))
            && all(fields, &|key| (key == "metadata.name").then(|| Some(name.to_owned())))
    })
}

/// Whether every pair of a `nodeSelector` is among a node's labels.
pub(super) fn node_selector(selector: Option<&Json<'_>>, labels: Labels<'_>) -> bool {
    let pairs = selector.and_then(Json::as_object);
    pairs
        .into_iter()
        .flat_map(Members::iter)
        .all(|(key, value)| value.as_str().is_some_and(|value| labels(key) == Some(value)))
}

/// The first taint that keeps a pod with these tolerations away.
pub(super) fn untolerated<'t>(taints: &'t [Taint], tolerations: &[Json<'_>]) -> Option<&'t Taint> {
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(keeps_away).find(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
}

fn tolerates(toleration: &Json<'_>, taint: &Taint) -> bool {
    let [key, effect, operator, value] =
        ["key", "effect", "operator", "value"].map(|member| text(toleration, member));
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && operator == "Exists")
        && match operator {
            "Exists" => true,
            "" | "Equal" => value == taint.value,
            // Comparisons of numbers, and whatever comes after them.
            _ => false,
        }
}
