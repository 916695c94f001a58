//! Merges a placement into a pod's required node affinity, and checks that a pod implies it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::pod::{Json, Malformed, Members};
use crate::quota::flavor::affinity::{Affinity, REQUIRED, Term, shown, terms_path, terms_pointer};
use crate::quota::flavor::{Flavor, FlavorRefusal, MOST_TERMS, Placement, Requirement};
use crate::quota::{NodeId, Tree};

/// How large the terms may become, in bytes of JSON. The API server stores no object of 1.5 MiB.
const MOST_BYTES: usize = 1 << 20;

/// What to change in a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injection {
    /// Members to set, by JSON pointer. Every parent is there.
    pub set: Vec<(String, Value)>,
    /// What is odd about the pod.
    pub warnings: Vec<String>,
}

/// What makes a pod imply its placement: nothing if each of its terms holds an alternative already. Preferred terms and
/// everything else are untouched; a term that matches nothing is left as it is.
///
/// # Errors
/// The node selector leaves no alternative, the affinity is not of Kubernetes' form, or it would become too large.
pub fn inject(pod: &Json<'_>, placement: &Placement) -> Result<Injection, FlavorRefusal> {
    let affinity = Affinity::read(pod).map_err(|error| malformed(placement, error))?;
    refuse_selector(&affinity, placement)?;
    let alternatives: Vec<Vec<Value>> = placement
        .alternatives()
        .iter()
        .map(|all| all.iter().map(Requirement::expression).collect())
        .collect();
    let too_large = || FlavorRefusal::TooLarge {
        leaf: placement.leaf().to_string(),
        levels: placement.levels(),
        most: MOST_BYTES,
    };
    if affinity.terms.is_empty() {
        if bytes_of(&alternatives) > MOST_BYTES {
            return Err(too_large());
        }
        let terms = alternatives.into_iter().map(|all| json!({"matchExpressions": all})).collect();
        return Ok(Injection { set: vec![whole(&affinity, terms)], warnings: Vec::new() });
    }
    let terms = read_terms(&affinity, placement)?;
    let wanting: Vec<bool> = terms.iter().map(|term| !term.empty && !holds(term, placement, None)).collect();
    let more = wanting.iter().filter(|wants| **wants).count();
    let mut injection = Injection { set: Vec::new(), warnings: warnings(&terms, placement) };
    if more > 0 {
        let count = more.saturating_mul(alternatives.len()).saturating_add(terms.len().saturating_sub(more));
        if count > MOST_TERMS {
            return Err(placement.too_many_terms());
        }
        let terms = affinity.terms.iter().zip(&terms).zip(wanting);
        let terms = terms.map(|((source, term), wants)| (source, term, wants));
        injection.set = multiply(terms, &alternatives).ok_or_else(too_large)?;
    }
    Ok(injection)
}

/// Every term that wants it, with every alternative. With one alternative only expressions are set; with several all
/// terms are. Nothing if that would be too large.
fn multiply<'p>(
    terms: impl Iterator<Item = (&'p Json<'p>, &'p Term<'p>, bool)>,
    alternatives: &[Vec<Value>],
) -> Option<Vec<(String, Value)>> {
    let more_bytes = bytes_of(alternatives);
    let mut bytes = 0_usize;
    let mut set = Vec::new();
    let mut all = Vec::new();
    for (index, (source, term, wants)) in terms.enumerate() {
        let source = source.to_value();
        if !wants {
            all.push(source);
            continue;
        }
        // Before it is built: a large term times many alternatives.
        let own = source.to_string().len().saturating_mul(alternatives.len());
        bytes = bytes.saturating_add(own).saturating_add(more_bytes);
        if bytes > MOST_BYTES {
            return None;
        }
        let own: Vec<Value> = term.expressions.iter().map(Json::to_value).collect();
        for more in alternatives {
            let expressions: Value = own.iter().chain(more).cloned().collect();
            if alternatives.len() == 1 {
                set.push((format!("{}/{index}/matchExpressions", terms_pointer()), expressions));
            } else {
                let mut term = source.clone();
                if let Some(term) = term.as_object_mut() {
                    term.insert("matchExpressions".to_owned(), expressions);
                }
                all.push(term);
            }
        }
    }
    if alternatives.len() > 1 {
        set.push((terms_pointer(), Value::Array(all)));
    }
    Some(set)
}

/// About how many bytes of JSON the alternatives are.
fn bytes_of(alternatives: &[Vec<Value>]) -> usize {
    alternatives.iter().flatten().map(|expression| expression.to_string().len()).sum()
}

/// Whether a pod of a leaf can run only where the leaf's flavors allow it: for each term that is not empty, together
/// with the node selector, one alternative is certain. What is odd about it is returned.
///
/// # Errors
/// It can run elsewhere, or what the flavors allow cannot be said (see [`Placement::of`]).
pub fn check(
    pod: &Json<'_>,
    tree: &Tree,
    leaf: NodeId,
    lookup: impl Fn(&str) -> Option<Arc<Flavor>>,
) -> Result<Vec<String>, FlavorRefusal> {
    match Placement::of(tree, leaf, lookup)? {
        Some(placement) => placement.check(pod),
        None => Ok(Vec::new()),
    }
}

impl Placement {
    /// As [`check`], with the placement at hand.
    ///
    /// # Errors
    /// The pod can run elsewhere, or its affinity is not of Kubernetes' form.
    pub fn check(&self, pod: &Json<'_>) -> Result<Vec<String>, FlavorRefusal> {
        let affinity = Affinity::read(pod).map_err(|error| malformed(self, error))?;
        refuse_selector(&affinity, self)?;
        let selector = Term::of_selector(affinity.selector);
        let not_implied = |place: String| FlavorRefusal::NotImplied {
            leaf: self.leaf().to_string(),
            levels: self.levels(),
            place,
            allowed: self.to_string(),
        };
        if affinity.terms.is_empty() {
            if holds(&selector, self, None) {
                return Ok(Vec::new());
            }
            return Err(not_implied("a pod without required node affinity".to_owned()));
        }
        let terms = read_terms(&affinity, self)?;
        let outside = terms.iter().position(|term| !term.empty && !holds(term, self, Some(&selector)));
        match outside {
            Some(index) => Err(not_implied(format!("{}[{index}]", terms_path()))),
            None => Ok(warnings(&terms, self)),
        }
    }
}

fn malformed(placement: &Placement, error: Malformed) -> FlavorRefusal {
    FlavorRefusal::Malformed { leaf: placement.leaf().to_string(), error }
}

fn read_terms<'p>(affinity: &Affinity<'p>, placement: &Placement) -> Result<Vec<Term<'p>>, FlavorRefusal> {
    if affinity.terms.len() > MOST_TERMS {
        return Err(placement.too_many_terms());
    }
    let terms = affinity.terms.iter().enumerate().map(|(index, term)| Term::read(term, index));
    terms.collect::<Result<_, _>>().map_err(|error| malformed(placement, error))
}

fn holds(term: &Term<'_>, placement: &Placement, selector: Option<&Term<'_>>) -> bool {
    placement.alternatives().iter().any(|all| term.implies(all, selector))
}

/// The terms at the deepest place whose parent is there.
fn whole(affinity: &Affinity<'_>, terms: Vec<Value>) -> (String, Value) {
    let (there, missing) = REQUIRED.split_at(affinity.present.min(REQUIRED.len()));
    let Some((at, below)) = missing.split_first() else { return (terms_pointer(), Value::Array(terms)) };
    let value =
        below.iter().rev().fold(json!({"nodeSelectorTerms": terms}), |value, key| json!({*key: value}));
    let path: Vec<&str> = there.iter().chain([at]).copied().collect();
    (format!("/{}", path.join("/")), value)
}

fn refuse_selector(affinity: &Affinity<'_>, placement: &Placement) -> Result<(), FlavorRefusal> {
    let wanted = |key: &str| affinity.selector.and_then(|selector: &Members<'_>| selector.get(key)?.as_str());
    let mut conflict = None;
    for all in placement.alternatives() {
        let excluded = all.iter().find_map(|requirement| {
            let value = wanted(&requirement.key)?;
            let allowed = requirement.values.iter().any(|allowed| allowed.as_ref() == value);
            (!allowed).then_some((requirement, value))
        });
        match excluded {
            Some(found) => conflict = conflict.or(Some(found)),
            None => return Ok(()),
        }
    }
    let Some((requirement, value)) = conflict else { return Ok(()) };
    Err(FlavorRefusal::NodeSelector {
        leaf: placement.leaf().to_string(),
        levels: placement.levels(),
        key: requirement.key.to_string(),
        value: value.to_owned(),
        allowed: placement.to_string(),
    })
}

/// A pod may ask only for nodes that its quota does not have: it would wait for ever. The same is said before and after
/// flavors were added.
fn warnings(terms: &[Term<'_>], placement: &Placement) -> Vec<String> {
    let text = |expression| {
        format!(
            "plimsoll: the pod's node affinity has {expression}, which no node of quota {} has ({placement}): it cannot \
             be scheduled",
            placement.leaf()
        )
    };
    let mut terms = terms.iter().filter(|term| !term.empty);
    let Some(first) = terms.next() else { return Vec::new() };
    let contradiction = contradiction(first, placement);
    if contradiction.is_some() && terms.all(|term| contradicts(term, placement)) {
        contradiction.map(text).into_iter().collect()
    } else {
        Vec::new()
    }
}

fn contradicts(term: &Term<'_>, placement: &Placement) -> bool {
    placement.alternatives().iter().all(|all| term.contradicted(all).is_some())
}

/// The first expression of a term that contradicts every alternative, about the label that makes it contradict the
/// first of them.
fn contradiction(term: &Term<'_>, placement: &Placement) -> Option<String> {
    let about = term.contradicted(placement.alternatives().first()?)?;
    let excludes = |expression: &&Json<'_>| {
        Term::of_expression(expression).contradicted(std::slice::from_ref(about)).is_some()
    };
    let mut own = term
        .expressions
        .iter()
        .filter(|expression| expression.get("key").and_then(Json::as_str) == Some(about.key.as_ref()));
    let first = own.clone().next();
    contradicts(term, placement).then(|| own.find(excludes).or(first)).flatten().map(shown)
}
