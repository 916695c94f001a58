//! A pod's required node affinity and node selector, and what they allow of a label.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::{Json, Malformed, Members};
use crate::quota::flavor::Requirement;

/// JSON pointer of a pod's required node affinity.
pub(super) const REQUIRED: [&str; 4] =
    ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
const TERMS: &str = "nodeSelectorTerms";

/// What a pod says about its nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affinity<'p> {
    /// The terms, of which one is enough; empty if there are none.
    pub(super) terms: &'p [Json<'p>],
    /// How many of [`REQUIRED`], each below the last, are there.
    pub(super) present: usize,
    /// `spec.nodeSelector`
    pub(super) selector: Option<&'p Members<'p>>,
}

impl<'p> Affinity<'p> {
    /// Reads a pod's. Null is absent.
    pub(super) fn read(pod: &'p Json<'p>) -> Result<Self, Malformed> {
        let object = |value: Option<&'p Json<'p>>, path: &[&str]| match value {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Object(members)) => Ok(Some(members)),
            Some(_) => Err(malformed(path.join("."), "an object")),
        };
        let mut at = object(Some(pod), &["pod"])?;
        let mut selector = None;
        let mut present = 0;
        for (index, key) in REQUIRED.iter().enumerate() {
            let path = REQUIRED.get(..=index).unwrap_or_default();
            at = object(at.and_then(|members| members.get(key)), path)?;
            if index == 0 {
                at.ok_or_else(|| malformed("spec".to_owned(), "an object"))?;
                selector = object(at.and_then(|spec| spec.get("nodeSelector")), &["spec", "nodeSelector"])?;
            }
            present += usize::from(at.is_some());
        }
        let terms = match at.and_then(|required| required.get(TERMS)) {
            None | Some(Json::Null) => &[][..],
            Some(Json::List(terms)) => terms,
            Some(_) => return Err(malformed(terms_path(), "a list")),
        };
        Ok(Self { terms, present, selector })
    }
}

/// The path of the terms, for people.
pub(super) fn terms_path() -> String {
    format!("{}.{TERMS}", REQUIRED.join("."))
}

/// The JSON pointer of the terms.
pub(super) fn terms_pointer() -> String {
    format!("/{}/{TERMS}", REQUIRED.join("/"))
}

fn malformed(path: String, expected: &'static str) -> Malformed {
    Malformed { path, expected }
}

/// A term: all of its expressions hold together.
#[derive(Clone, Debug, Default)]
pub(super) struct Term<'p> {
    /// `matchExpressions`
    pub(super) expressions: &'p [Json<'p>],
    /// Whether it has neither expressions nor fields: it matches no node.
    pub(super) empty: bool,
    by_key: BTreeMap<&'p str, Allowed<'p>>,
}

/// What the expressions about one label allow together.
#[derive(Clone, Debug, Default)]
struct Allowed<'p> {
    /// It must be one of these.
    within: Option<BTreeSet<&'p str>>,
    /// It must be none of these.
    without: BTreeSet<&'p str>,
    /// It must be absent.
    absent: bool,
    /// It must be a number above this.
    above: Option<i64>,
    /// It must be a number below this.
    below: Option<i64>,
}

impl<'p> Term<'p> {
    /// Reads the term at an index.
    pub(super) fn read(term: &'p Json<'p>, index: usize) -> Result<Self, Malformed> {
        let list = |key: &str| match term.get(key) {
            None | Some(Json::Null) => Ok(&[][..]),
            Some(Json::List(list)) => Ok(list.as_slice()),
            Some(_) => Err(malformed(format!("{}[{index}].{key}", terms_path()), "a list")),
        };
        if !matches!(term, Json::Null | Json::Object(_)) {
            return Err(malformed(format!("{}[{index}]", terms_path()), "an object"));
        }
        let expressions = list("matchExpressions")?;
        let empty = expressions.is_empty() && list("matchFields")?.is_empty();
        let mut read = Self { expressions, empty, by_key: BTreeMap::new() };
        for expression in expressions {
            read.note(expression);
        }
        Ok(read)
    }

    /// What a node selector says, as a term.
    pub(super) fn of_selector(selector: Option<&'p Members<'p>>) -> Self {
        let mut term = Self::default();
        for (key, value) in selector.into_iter().flat_map(Members::iter) {
            // What is no text is refused by the API server.
            if let Some(value) = value.as_str() {
                term.by_key.entry(key).or_default().within(BTreeSet::from([value]));
            }
        }
        term
    }

    /// A term of one expression.
    pub(super) fn of_expression(expression: &'p Json<'p>) -> Self {
        let mut term = Self::default();
        term.note(expression);
        term
    }

    fn note(&mut self, expression: &'p Json<'p>) {
        let text = |key: &str| expression.get(key).and_then(Json::as_str);
        // The API server refuses an expression without them, and operators it does not know.
        let (Some(key), Some(operator)) = (text("key"), text("operator")) else { return };
        let values: BTreeSet<&str> = match expression.get("values") {
            Some(Json::List(values)) => values.iter().filter_map(Json::as_str).collect(),
            _ => BTreeSet::new(),
        };
        let number = || values.first().and_then(|value| value.parse::<i64>().ok());
        let allowed = self.by_key.entry(key).or_default();
        match operator {
            "In" => allowed.within(values),
            "NotIn" => allowed.without.extend(values),
            "DoesNotExist" => allowed.absent = true,
            "Gt" => allowed.above = allowed.above.max(number()),
            "Lt" => allowed.below = [allowed.below, number()].into_iter().flatten().min(),
            _ => {}
        }
    }

    /// Whether every node that it matches satisfies all of these; with `selector`, every node that both match.
    pub(super) fn implies(&self, all: &[Requirement], selector: Option<&Self>) -> bool {
        let fixed = |term: &Self, requirement: &Requirement| {
            let allowed = term.by_key.get(requirement.key.as_ref());
            allowed.and_then(|allowed| allowed.within.as_ref()).is_some_and(|within| {
                within.len() <= requirement.values.len()
                    && within.iter().all(|value| requirement.values.iter().any(|v| v.as_ref() == *value))
            })
        };
        all.iter().all(|requirement| {
            fixed(self, requirement) || selector.is_some_and(|selector| fixed(selector, requirement))
        })
    }

    /// The first of these that no node satisfies that it matches.
    pub(super) fn contradicted<'r>(&self, all: &'r [Requirement]) -> Option<&'r Requirement> {
        all.iter().find(|requirement| {
            self.by_key
                .get(requirement.key.as_ref())
                .is_some_and(|allowed| !requirement.values.iter().any(|value| allowed.allows(value)))
        })
    }
}

impl<'p> Allowed<'p> {
    fn within(&mut self, values: BTreeSet<&'p str>) {
        self.within = Some(match self.within.take() {
            Some(before) => before.intersection(&values).copied().collect(),
            None => values,
        });
    }

    fn allows(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        !self.absent
            && self.within.as_ref().is_none_or(|within| within.contains(value))
            && !self.without.contains(value)
            && self.above.is_none_or(|bound| number().is_some_and(|number| number > bound))
            && self.below.is_none_or(|bound| number().is_some_and(|number| number < bound))
    }
}

/// An expression, as in `zone NotIn [a]`.
pub(super) fn shown(expression: &Json<'_>) -> String {
    let text = |key: &str| expression.get(key).and_then(Json::as_str).unwrap_or_default();
    let values = match expression.get("values") {
        Some(Json::List(values)) if !values.is_empty() => {
            let text = |value: &Json<'_>| value.as_str().unwrap_or_default().to_owned();
            format!(" [{}]", super::placement::join(values, ", ", text))
        }
        _ => String::new(),
    };
    format!("{} {}{values}", text("key"), text("operator"))
}
