//! Any JSON as a pod of a quota with some flavors: never a panic; what is added applies to the pod that was sent, passes
//! the check of the other stage, and needs nothing more when it comes again.
//!
//! The first three bytes say which flavors the leaf, its parent and the root name, a bit for each; the rest is the pod.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use plimsoll_core::pod::{Json, Pruned};
use plimsoll_core::quota::flavor::{FlavorRefusal, Placement, check, inject};
use plimsoll_core::quota::{Flavor, Node, Tree};
use serde_json::{Value, json};

const FLAVORS: [(&str, &[(&str, &str)]); 8] = [
    ("spot", &[("instance-type", "spot")]),
    ("ondemand", &[("instance-type", "ondemand")]),
    ("again", &[("instance-type", "spot")]),
    ("za", &[("zone", "a"), ("disk", "ssd")]),
    ("zb", &[("zone", "b")]),
    ("five", &[("cores", "5")]),
    ("odd", &[("", "~/\u{e9}\"")]),
    ("any", &[]),
];

fn lookup(name: &str) -> Option<Arc<Flavor>> {
    let (name, labels) = FLAVORS.iter().find(|(known, _)| *known == name)?;
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Some(Arc::new(Flavor { name: (*name).into(), labels }))
}

fuzz_target!(|data: &[u8]| {
    let Some((levels, text)) = data.split_first_chunk::<3>() else { return };
    let shape = Tree::new("t", "", 0, (0..3).map(|_| Node::default()));
    let nodes = levels.iter().rev().enumerate().map(|(index, bits)| Node {
        name: format!("n{index}").into(),
        parent: index.checked_sub(1).and_then(|above| shape.id(above)),
        namespaces: if index == 2 { vec!["shop".into()] } else { Vec::new() },
        flavors: (0..8).filter(|bit| bits & (1 << bit) != 0).map(|bit| FLAVORS[bit].0.into()).collect(),
        ..Node::default()
    });
    let tree = Tree::new("t", "", 0, nodes);
    let leaf = tree.leaf_of("shop").unwrap();
    let placement = match Placement::of(&tree, leaf, lookup) {
        Ok(Some(placement)) => placement,
        Ok(None) => return,
        Err(refusal) => return assert!(matches!(refusal, FlavorRefusal::Contradiction { .. }), "{refusal}"),
    };
    let Ok(pod) = serde_json::from_slice::<Value>(text) else { return };
    let Ok(injection) = inject(&Pruned::of(&pod).0, &placement) else { return };
    let operations: Vec<Value> = injection
        .set
        .iter()
        .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
        .collect();
    let patch: json_patch::Patch = serde_json::from_value(Value::from(operations)).unwrap();
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    let again = inject(&Json::borrowed(&after), &placement).unwrap();
    assert!(again.set.is_empty(), "our own result needs nothing");
    let checked = check(&Json::borrowed(&after), &tree, leaf, lookup);
    assert_eq!(checked.as_ref(), Ok(&injection.warnings), "the other stage says the same");
});
