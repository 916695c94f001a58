//! One finding about an object that somebody wrote: where, by which rule, and what would be right.

use std::fmt;

use serde::Serialize;

/// A violation found while an object was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where in the object, as in `spec.static.factors.cpu`.
    pub path: String,
    /// The name of the rule, stable across versions.
    pub rule: &'static str,
    /// The value found and what would be right.
    pub message: String,
}

impl Problem {
    /// A violation of `rule` at `path`.
    pub fn new(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.path, self.message, self.rule)
    }
}

/// All problems of one object on one line, as an API error message has them.
pub fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
