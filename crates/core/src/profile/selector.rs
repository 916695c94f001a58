//! Label selectors, as Kubernetes defines them.

use std::collections::BTreeMap;
use std::fmt;

use crate::pod::Members;

/// Labels of an object.
pub trait Labels: fmt::Debug {
    /// The value of a label; one that is no string is none.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// `None` is no labels.
impl Labels for Option<&Members<'_>> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.get(key)?.as_str()
    }
}

/// A label selector. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// All must hold.
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must be true of its value.
    pub operator: Operator,
}

/// What must be true of a label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// There is one, and it is among these.
    In(Vec<String>),
    /// There is none, or it is not among these.
    NotIn(Vec<String>),
    /// There is one.
    Exists,
    /// There is none.
    DoesNotExist,
}

impl Selector {
    /// Whether the labels satisfy every requirement.
    pub fn selects(&self, labels: &dyn Labels) -> bool {
        self.requirements.iter().all(|Requirement { key, operator }| {
            let value = labels.label(key);
            let listed = |values: &[String], value: &str| values.iter().any(|listed| listed == value);
            match operator {
                Operator::In(values) => value.is_some_and(|v| listed(values, v)),
                Operator::NotIn(values) => value.is_none_or(|v| !listed(values, v)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Operator, Requirement, Selector};
    use std::collections::BTreeMap;

    #[test]
    fn requirements() {
        let labels: BTreeMap<String, String> = [("a".to_owned(), "1".to_owned())].into();
        let values = || vec!["1".to_owned(), "2".to_owned()];
        for (rule, key, operator, expected) in [
            ("in", "a", Operator::In(values()), true),
            ("in, other value", "a", Operator::In(vec!["2".to_owned()]), false),
            ("in, label missing", "b", Operator::In(values()), false),
            ("not in", "a", Operator::NotIn(values()), false),
            ("not in, label missing", "b", Operator::NotIn(values()), true),
            ("exists", "a", Operator::Exists, true),
            ("exists, missing", "b", Operator::Exists, false),
            ("does not exist", "a", Operator::DoesNotExist, false),
            ("does not exist, missing", "b", Operator::DoesNotExist, true),
        ] {
            let selector = Selector { requirements: vec![Requirement { key: key.to_owned(), operator }] };
            assert_eq!(selector.selects(&labels), expected, "{rule}");
        }
        assert!(Selector::default().selects(&labels), "the empty selector selects everything");
    }
}
