//! Trees that are good by how they were made, and what one change makes of them.

use plimsoll_core::quota::StoredTree;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{rules, warned};

/// A shape: how many children each node has, down to a depth, by a list of numbers.
#[derive(Clone, Debug)]
struct Shape {
    seed: Vec<u8>,
}

struct Maker<'s> {
    seed: std::iter::Cycle<std::slice::Iter<'s, u8>>,
    made: usize,
}

impl Maker<'_> {
    /// A good node that guarantees `min` and may use `max`; both in milli-cores.
    fn node(&mut self, min: u64, max: u64, depth: usize) -> Value {
        let number = self.made;
        self.made += 1;
        let children = if depth == 0 { 0 } else { u64::from(self.seed.next().unwrap() % 4) };
        let mut node = json!({
            "name": format!("n{number}"),
            "min": {"cpu": format!("{min}m"), "memory": min, "example.org/x": min},
            "max": {"cpu": format!("{max}m"), "memory": max, "example.org/x": max},
        });
        if children == 0 {
            node["namespaces"] = json!([format!("ns-{number}")]);
            return node;
        }
        let list: Vec<Value> = (0..children)
            .map(|_| {
                let min = min / children;
                let more = u64::from(*self.seed.next().unwrap()) % (max - min + 1);
                self.node(min, min + more, depth - 1)
            })
            .collect();
        node["children"] = json!(list);
        node
    }
}

fn manifest(shape: &Shape) -> Value {
    let mut maker = Maker { seed: shape.seed.iter().cycle(), made: 0 };
    let root = maker.node(1_000_000, 1_000_000, 5);
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree",
        "metadata": {"name": "t", "namespace": "kube-system"}, "spec": {"root": root}})
}

/// Pointers to every node, leaves apart.
fn nodes(value: &Value, path: &str, inner: &mut Vec<String>, leaves: &mut Vec<String>) {
    let children = value["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    if children.is_empty() {
        leaves.push(path.to_owned());
    } else {
        inner.push(path.to_owned());
    }
    for (index, child) in children.iter().enumerate() {
        nodes(child, &format!("{path}/children/{index}"), inner, leaves);
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec(any::<u8>(), 1..60).prop_map(|seed| Shape { seed })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_trees_have_no_problem(shape in shape()) {
        let tree = manifest(&shape);
        let stored = StoredTree::read(&tree);
        prop_assert_eq!(rules(&stored), Vec::<&str>::new());
        prop_assert_eq!(warned(&stored), Vec::<&str>::new());
        let (mut inner, mut leaves) = (Vec::new(), Vec::new());
        nodes(&tree["spec"]["root"], "/spec/root", &mut inner, &mut leaves);
        prop_assert_eq!(stored.tree.nodes().len(), inner.len() + leaves.len());
        prop_assert_eq!(stored.tree.namespaces().count(), leaves.len());
    }

    #[test]
    fn one_change_breaks_exactly_its_rule(shape in shape(), which in 0_usize..9, pick in any::<prop::sample::Index>()) {
        let mut tree = manifest(&shape);
        let (mut inner, mut leaves) = (Vec::new(), Vec::new());
        nodes(&tree["spec"]["root"], "/spec/root", &mut inner, &mut leaves);
        let leaf = leaves[pick.index(leaves.len())].clone();
        let below_root = leaf != "/spec/root";
        let at = tree.pointer_mut(&leaf).unwrap();
        let rule = match which {
            0 => { at["max"]["memory"] = json!(at["min"]["memory"].as_u64().unwrap() - 1); "T1" }
            1 => { at["min"]["cpu"] = json!("-1"); "T11" }
            2 => { at["max"]["example.org/x"] = json!("0.5"); "T11" }
            3 => { at["weight"] = json!(1); "T11" }
            4 => { at["name"] = json!(""); "T7" }
            5 if below_root => { at["name"] = json!("n0"); "T7" }
            6 if below_root => { tree["spec"]["root"]["namespaces"] = json!(["other"]); "T6" }
            7 => { at["namespaces"].as_array_mut().unwrap().push(json!("kube-system")); "T12" }
            8 => { tree["spec"]["root"]["min"]["cpu"] = json!(1_000_001); "T1" }
            _ => return Ok(()),
        };
        let stored = StoredTree::read(&tree);
        let mut found = rules(&stored);
        found.sort_unstable();
        found.dedup();
        // What is not the same any more at the root, or is read no more, breaks T3 there as well.
        found.retain(|found| *found == rule || !(*found == "T3" && (!below_root || which == 8)));
        prop_assert_eq!(found, vec![rule], "{:?}", stored.problems);
    }
}
