//! A tree of three nodes with flavors, and nodes to match pods against.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::pod::{Json, Pruned};
use plimsoll_core::quota::flavor::{FlavorRefusal, Injection, Placement, inject};
use plimsoll_core::quota::{Flavor, Node, NodeId, Tree};
use serde_json::{Value, json};

pub(crate) type Flavors = BTreeMap<String, Arc<Flavor>>;

pub(crate) fn flavor(name: &str, labels: &[(&str, &str)]) -> (String, Arc<Flavor>) {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    (name.to_owned(), Arc::new(Flavor { name: name.into(), labels }))
}

/// The flavors of the vectors, and some more.
pub(crate) fn flavors() -> Flavors {
    [
        flavor("spot", &[("instance-type", "spot")]),
        flavor("od", &[("instance-type", "ondemand")]),
        flavor("za", &[("zone", "a"), ("disk", "ssd")]),
        flavor("zb", &[("zone", "b")]),
        flavor("any", &[]),
        flavor("spot2", &[("instance-type", "spot")]),
        flavor("five", &[("cores", "5")]),
    ]
    .into()
}

/// `root.a.a1`, to which `namespace1` is bound; flavors as lists with commas, from the leaf upwards.
pub(crate) fn tree(levels: [&str; 3]) -> (Tree, NodeId) {
    let list = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(Arc::from).collect();
    let shape = Tree::new("t", "", 0, (0..3).map(|_| Node::default()));
    let node = |name: &str, parent, level: &str| Node {
        name: name.into(),
        parent,
        flavors: list(level),
        ..Node::default()
    };
    let leaf = Node { namespaces: vec!["namespace1".into()], ..node("a1", shape.id(1), levels[0]) };
    let tree =
        Tree::new("t", "", 0, [node("root", None, levels[2]), node("a", shape.id(0), levels[1]), leaf]);
    let leaf = tree.leaf_of("namespace1").unwrap();
    (tree, leaf)
}

pub(crate) fn placement(levels: [&str; 3], flavors: &Flavors) -> Result<Option<Placement>, FlavorRefusal> {
    let (tree, leaf) = tree(levels);
    Placement::of(&tree, leaf, |name| flavors.get(name).cloned())
}

/// What the flavors make of a pod.
pub(crate) fn injected(
    pod: &Value,
    levels: [&str; 3],
    flavors: &Flavors,
) -> Result<(Value, Injection), FlavorRefusal> {
    let Some(placement) = placement(levels, flavors)? else { return Ok((pod.clone(), Injection::default())) };
    // What is pruned away must not matter.
    let injection = inject(&Pruned::of(pod).0, &placement)?;
    assert_eq!(inject(&Json::borrowed(pod), &placement).unwrap(), injection);
    Ok((patched(pod, &injection), injection))
}

pub(crate) fn patched(pod: &Value, injection: &Injection) -> Value {
    let operations: Vec<Value> = injection
        .set
        .iter()
        .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
        .collect();
    let patch: json_patch::Patch = serde_json::from_value(Value::from(operations)).unwrap();
    let mut patched = pod.clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    patched
}

pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod with these required terms.
pub(crate) fn with_terms(terms: &Value) -> Value {
    pod(&json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}))
}

pub(crate) fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

pub(crate) fn terms_of(pod: &Value) -> &Value {
    &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
}

pub(crate) fn is_in(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// Terms of expressions only.
pub(crate) fn terms(terms: &[&[Value]]) -> Value {
    terms.iter().map(|all| json!({"matchExpressions": all})).collect()
}

/// Whether a node of these labels, named `n1`, may run a pod: as the scheduler decides it, for well-formed pods.
pub(crate) fn fits(pod: &Value, node: &BTreeMap<String, String>) -> bool {
    let selector = pod["spec"]["nodeSelector"].as_object();
    let selected = selector
        .into_iter()
        .flatten()
        .all(|(key, value)| node.get(key).map(String::as_str) == value.as_str());
    let required = &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED];
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let matches = |term: &Value| {
        let (expressions, fields) = (list(&term["matchExpressions"]), list(&term["matchFields"]));
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|expression| {
                let key = expression["key"].as_str().unwrap();
                holds(expression, node.get(key).map(String::as_str))
            })
            && fields.iter().all(|field| holds(field, Some("n1")))
    };
    let terms = required["nodeSelectorTerms"].as_array().unwrap_or(&empty);
    selected && (terms.is_empty() || terms.iter().any(matches))
}

fn holds(expression: &Value, label: Option<&str>) -> bool {
    let values: Vec<&str> =
        expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let numbers = || Some((label?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match expression["operator"].as_str().unwrap() {
        "In" => label.is_some_and(|label| values.contains(&label)),
        "NotIn" => label.is_none_or(|label| !values.contains(&label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => numbers().is_some_and(|(label, bound)| label > bound),
        "Lt" => numbers().is_some_and(|(label, bound)| label < bound),
        other => panic!("operator {other}"),
    }
}
