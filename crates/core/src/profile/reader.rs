//! Reads parts of a JSON value and notes every problem instead of stopping at the first.

use serde_json::{Map, Value};

use crate::problem::Problem;

/// Collects problems while values are read. Null counts as absent throughout.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

/// A value, or nothing, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node<'v> {
    pub(super) value: Option<&'v Value>,
    pub(super) path: String,
}

impl<'v> Node<'v> {
    pub(super) fn root(value: &'v Value, path: &str) -> Self {
        Self { value: Some(value).filter(|v| !v.is_null()), path: path.to_owned() }
    }
}

impl Reader {
    pub(super) fn problem(&mut self, path: &str, rule: &'static str, message: impl Into<String>) {
        self.problems.push(Problem::new(path, rule, message));
    }

    /// The members of an object; every member that is not in `known` is a problem.
    pub(super) fn object<'v>(&mut self, node: &Node<'v>, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let map = self.map(node)?;
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            self.problem(
                &format!("{}.{}", node.path, shown(key)),
                "unknown-field",
                format!("unknown field; known here are {}", known.join(", ")),
            );
        }
        Some(map)
    }

    /// The members of an object whose keys are the user's.
    pub(super) fn map<'v>(&mut self, node: &Node<'v>) -> Option<&'v Map<String, Value>> {
        match node.value? {
            Value::Object(map) => Some(map),
            other => {
                self.problem(&node.path, "type", format!("{} is not an object", brief(other)));
                None
            }
        }
    }

    pub(super) fn list<'v>(&mut self, node: &Node<'v>) -> Option<&'v [Value]> {
        match node.value? {
            Value::Array(list) => Some(list),
            other => {
                self.problem(&node.path, "type", format!("{} is not a list", brief(other)));
                None
            }
        }
    }

    pub(super) fn text<'v>(&mut self, node: &Node<'v>) -> Option<&'v str> {
        match node.value? {
            Value::String(text) => Some(text),
            other => {
                self.problem(
                    &node.path,
                    "type",
                    format!("{} is not a string; write it in quotes", brief(other)),
                );
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node<'_>) -> Option<bool> {
        match node.value? {
            Value::Bool(value) => Some(*value),
            other => {
                self.problem(&node.path, "type", format!("{} is neither true nor false", brief(other)));
                None
            }
        }
    }

    pub(super) fn integer(&mut self, node: &Node<'_>, from: i64, to: i64) -> Option<i64> {
        let value = node.value?;
        let found = value.as_i64().filter(|v| (from..=to).contains(v));
        if found.is_none() {
            self.problem(
                &node.path,
                "range",
                format!("{} is not a whole number from {from} to {to}", brief(value)),
            );
        }
        found
    }

    /// One of a set of words.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node<'_>, choices: &[(&str, T)]) -> Option<T> {
        let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let value = node.value?;
        let Value::String(text) = value else {
            // YAML takes some bare words, Off among them, for booleans.
            let message = format!("{} is not one of {}; write the word in quotes", brief(value), words());
            self.problem(&node.path, "type", message);
            return None;
        };
        let found = choices.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
        if found.is_none() {
            self.problem(&node.path, "enum", format!("{:?} is not one of {}", shown(text), words()));
        }
        found
    }
}

/// The member `key` of a map that stands at `path`.
pub(super) fn member<'v>(map: Option<&'v Map<String, Value>>, path: &str, key: &str) -> Node<'v> {
    Node { value: map.and_then(|m| m.get(key)).filter(|v| !v.is_null()), path: format!("{path}.{key}") }
}

/// A user's text, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// A JSON value, short enough for a message.
pub(super) fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => shown(&other.to_string()),
    }
}
