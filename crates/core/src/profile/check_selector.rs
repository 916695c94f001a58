//! Checks label selectors, label keys and values, and names.

use serde_json::Value;

use crate::problem::Problem;
use crate::profile::Selector;
use crate::profile::reader::{Node, Reader, member, shown};
use crate::profile::selector::{Operator, Requirement};

/// The label selector of another object, which stands at `path` in it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_selector(value: &Value, path: &str) -> Result<Selector, Vec<Problem>> {
    let mut reader = Reader::default();
    let selector = selector(&mut reader, &Node::root(value, path));
    if reader.problems.is_empty() { Ok(selector) } else { Err(reader.problems) }
}

pub(super) fn selector(r: &mut Reader, node: &Node<'_>) -> Selector {
    let map = r.object(node, &["matchLabels", "matchExpressions"]);
    let mut requirements = Vec::new();
    let labels = member(map, &node.path, "matchLabels");
    for (key, value) in r.map(&labels).into_iter().flatten() {
        let item = Node { value: Some(value), path: format!("{}.{}", labels.path, shown(key)) };
        check_label_key(r, &item.path, key);
        if let Some(text) = r.text(&item) {
            if !is_label_value(text) {
                r.problem(&item.path, "label", format!("{:?} is not a label value", shown(text)));
            }
            requirements
                .push(Requirement { key: key.clone(), operator: Operator::In(vec![text.to_owned()]) });
        }
    }
    let expressions = member(map, &node.path, "matchExpressions");
    for (index, value) in r.list(&expressions).unwrap_or_default().iter().enumerate() {
        let item = Node { value: Some(value), path: format!("{}[{index}]", expressions.path) };
        requirements.extend(requirement(r, &item));
    }
    Selector { requirements }
}

fn requirement(r: &mut Reader, node: &Node<'_>) -> Option<Requirement> {
    #[derive(Clone, Copy)]
    enum Kind {
        In,
        NotIn,
        Exists,
        DoesNotExist,
    }
    let map = r.object(node, &["key", "operator", "values"])?;
    let key_node = member(Some(map), &node.path, "key");
    let key = r.text(&key_node).unwrap_or_default();
    check_label_key(r, &key_node.path, key);
    let operator_node = member(Some(map), &node.path, "operator");
    if operator_node.value.is_none() {
        r.problem(&operator_node.path, "required", "missing; write In, NotIn, Exists or DoesNotExist");
    }
    let kind = r.choice(
        &operator_node,
        &[
            ("In", Kind::In),
            ("NotIn", Kind::NotIn),
            ("Exists", Kind::Exists),
            ("DoesNotExist", Kind::DoesNotExist),
        ],
    )?;
    let values_node = member(Some(map), &node.path, "values");
    let mut values = Vec::new();
    for (index, value) in r.list(&values_node).unwrap_or_default().iter().enumerate() {
        let item = Node { value: Some(value), path: format!("{}[{index}]", values_node.path) };
        if let Some(text) = r.text(&item) {
            if !is_label_value(text) {
                r.problem(&item.path, "label", format!("{:?} is not a label value", shown(text)));
            }
            values.push(text.to_owned());
        }
    }
    match (kind, values.is_empty()) {
        (Kind::In | Kind::NotIn, true) => {
            r.problem(&values_node.path, "required", "In and NotIn need at least one value");
            None
        }
        (Kind::Exists | Kind::DoesNotExist, false) => {
            r.problem(&values_node.path, "forbidden", "Exists and DoesNotExist take no values");
            None
        }
        (Kind::In, _) => Some(Operator::In(values)),
        (Kind::NotIn, _) => Some(Operator::NotIn(values)),
        (Kind::Exists, _) => Some(Operator::Exists),
        (Kind::DoesNotExist, _) => Some(Operator::DoesNotExist),
    }
    .map(|operator| Requirement { key: key.to_owned(), operator })
}

fn check_label_key(r: &mut Reader, path: &str, key: &str) {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.is_empty() || !is_label_value(name) || prefix.is_some_and(|p| !is_dns_subdomain(p)) {
        r.problem(path, "label", format!("{:?} is not a label key", shown(key)));
    }
}

pub(super) fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

pub(super) fn is_dns_subdomain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}
