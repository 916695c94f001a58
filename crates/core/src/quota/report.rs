//! A tree with what is used at each node, as its status has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::quota::ledger::Ledger;
use crate::quota::{Amounts, Node, NodeId, PODS, Tree, Used};

/// The tree in a status, as far as there is room.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The root with its used and request, and the nodes below it.
    pub root: Value,
    /// So many levels of nodes it has; those below were cut off.
    pub levels: usize,
    /// Whether any were.
    pub is_cut: bool,
    /// What all leaves together borrow, as [`Borrowing`] has it.
    pub borrowed: Amounts,
}

/// The tree with what is used and what is requested (used, and what open claims wait for) at each node, cut to the
/// levels that are no more than so many bytes of JSON.
pub fn report(tree: &Tree, ledger: &Ledger, most_bytes: usize) -> Report {
    let used = ledger.used(tree);
    let claimed = ledger.claimed(tree);
    let own: Vec<Map<String, Value>> = tree.ids().map(|id| own_part(tree, id, &used, &claimed)).collect();
    let mut by_level: Vec<usize> = Vec::new();
    for (node, part) in tree.nodes().iter().zip(&own) {
        // Brackets, a comma and the list of children come with each node.
        let bytes = Value::Object(part.clone()).to_string().len() + 20;
        if by_level.len() <= node.depth {
            by_level.resize(node.depth + 1, 0);
        }
        if let Some(sum) = by_level.get_mut(node.depth) {
            *sum += bytes;
        }
    }
    let mut sum = 0_usize;
    let fitting = by_level.iter().take_while(|bytes| {
        sum = sum.saturating_add(**bytes);
        sum <= most_bytes
    });
    let levels = fitting.count().max(1);
    let is_cut = levels < by_level.len();
    Report { root: assembled(tree, own, levels), levels, is_cut, borrowed: borrowed(tree, &used) }
}

/// What can be borrowed in a tree: what somebody there guarantees or bounds. How many pods there are is borrowed only
/// where a number of them is guaranteed; a bound alone says nothing of whose they are.
#[derive(Clone, Debug)]
pub struct Borrowing(BTreeSet<Arc<str>>);

impl Borrowing {
    /// That of a tree.
    pub fn of(tree: &Tree) -> Self {
        let guaranteed = tree.nodes().iter().flat_map(|node| node.min.iter());
        let bounded = tree.nodes().iter().flat_map(|node| node.max.iter());
        let bounded = bounded.filter(|(name, _)| ***name != *PODS);
        Self(guaranteed.chain(bounded).map(|(name, _)| Arc::clone(name)).collect())
    }

    /// What a node that uses so much has beyond its minimum; only what is more than nothing. There is nobody above the
    /// root to borrow from.
    pub fn at(&self, node: &Node, used: &Amounts) -> Amounts {
        let mut borrowed = Amounts::new();
        if node.parent.is_none() {
            return borrowed;
        }
        for (resource, nanos) in used.iter() {
            let min = node.min.get(resource);
            let counts = self.0.contains(resource) && (**resource != *PODS || min.is_some());
            let beyond = nanos.saturating_sub(min.unwrap_or(0));
            if counts && beyond > 0 {
                borrowed.add_one(resource, beyond);
            }
        }
        borrowed
    }
}

fn borrowed(tree: &Tree, used: &Used) -> Amounts {
    let borrowing = Borrowing::of(tree);
    let mut sum = Amounts::new();
    for resource in &borrowing.0 {
        sum.add_one(resource, 0);
    }
    for (id, node) in tree.ids().zip(tree.nodes()) {
        if node.children.is_empty() {
            sum.add(&borrowing.at(node, used.at(id)));
        }
    }
    sum
}

fn own_part(tree: &Tree, id: NodeId, used: &Used, claimed: &Used) -> Map<String, Value> {
    let mut part = Map::new();
    let Some(node) = tree.node(id) else { return part };
    part.insert("name".to_owned(), json!(node.name.as_ref()));
    if !node.namespaces.is_empty() {
        let names: Vec<&str> = node.namespaces.iter().map(AsRef::as_ref).collect();
        part.insert("namespaces".to_owned(), json!(names));
    }
    let mut shown = |key: &str, amounts: &Amounts| {
        part.insert(key.to_owned(), json!(amounts.quantities()));
    };
    shown("min", &node.min);
    shown("max", &node.max);
    let used_here =
        with_bounds(used.at(id), node.max.iter().chain(node.min.iter()).map(|(name, _)| name.as_ref()));
    let mut request = used_here.clone();
    request.add(claimed.at(id));
    shown("used", &used_here);
    shown("request", &request);
    part
}

/// The amounts, with 0 for what is bounded and not used: a column should not be empty.
fn with_bounds<'a>(amounts: &Amounts, names: impl Iterator<Item = &'a str>) -> Amounts {
    let mut all = amounts.clone();
    for name in names {
        if all.get(name).is_none() {
            all.set(name, 0);
        }
    }
    all
}

/// Puts nodes into the nodes above them; the last come first, because parents stand before their children.
fn assembled(tree: &Tree, own: Vec<Map<String, Value>>, levels: usize) -> Value {
    let mut children: Vec<Vec<Value>> = vec![Vec::new(); own.len()];
    let mut root = Value::Null;
    for ((index, mut part), node) in own.into_iter().enumerate().rev().zip(tree.nodes().iter().rev()) {
        if node.depth >= levels {
            continue;
        }
        let mut below = children.get_mut(index).map(std::mem::take).unwrap_or_default();
        below.reverse();
        if !below.is_empty() {
            part.insert("children".to_owned(), Value::Array(below));
        }
        match node.parent {
            Some(parent) => {
                if let Some(list) = children.get_mut(parent.index()) {
                    list.push(Value::Object(part));
                }
            }
            None => root = Value::Object(part),
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Node;
    use crate::resource::UNIT;

    fn tree() -> Tree {
        let cpu = |units: i128| -> Amounts { [("cpu", units * UNIT)].into_iter().collect() };
        let node = |name: &str, max, namespaces: &[&str]| Node {
            name: name.into(),
            max: cpu(max),
            namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
            ..Node::default()
        };
        let nodes = [
            (None, node("root", 40, &[])),
            (Some(0), node("a", 20, &[])),
            (Some(0), node("b", 20, &["three"])),
            (Some(1), node("a1", 10, &["one"])),
            (Some(1), node("a2", 10, &["two"])),
        ];
        let flat = Tree::new("t", "", 1, nodes.iter().map(|(_, node)| node.clone()));
        Tree::new(
            "t",
            "",
            1,
            nodes.into_iter().map(|(above, node)| Node { parent: above.and_then(|i| flat.id(i)), ..node }),
        )
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::unknown(&tree(), 1);
        ledger.committed.insert("one".into(), [("cpu", 3 * UNIT), ("pods", UNIT)].into_iter().collect());
        ledger
    }

    #[test]
    fn a_whole_tree() {
        let Report { root, levels, is_cut, borrowed } = report(&tree(), &ledger(), 1 << 20);
        assert_eq!((levels, is_cut), (3, false));
        assert_eq!(borrowed, [("cpu", 3 * UNIT)].into_iter().collect(), "no minimum, so all of it");
        assert_eq!(root.pointer("/used/cpu"), Some(&json!("3")));
        let names = |pointer: &str| -> Vec<String> {
            let list = root.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
            list.iter().filter_map(|node| Some(node.get("name")?.as_str()?.to_owned())).collect()
        };
        assert_eq!(names("/children"), ["a", "b"], "in the tree's order");
        assert_eq!(names("/children/0/children"), ["a1", "a2"]);
        assert_eq!(root.pointer("/children/0/children/0/used/cpu"), Some(&json!("3")));
        assert_eq!(
            root.pointer("/children/0/children/1/used/cpu"),
            Some(&json!("0")),
            "nothing used is said"
        );
    }

    #[test]
    fn what_is_borrowed_is_guaranteed_or_bounded_somewhere() {
        let amounts = |list: &[(&'static str, i128)]| -> Amounts {
            list.iter().map(|(name, units)| (*name, units * UNIT)).collect()
        };
        let used = amounts(&[("cpu", 3), ("memory", 3), ("pods", 3), ("example.com/fpga", 3)]);
        let root = Node { name: "root".into(), max: amounts(&[("cpu", 9), ("pods", 9)]), ..Node::default() };
        let flat = Tree::new("t", "", 1, [root.clone()]);
        for (rule, min, expected) in [
            ("nothing is guaranteed", amounts(&[]), amounts(&[("cpu", 3)])),
            ("a part", amounts(&[("cpu", 2), ("memory", 1)]), amounts(&[("cpu", 1), ("memory", 2)])),
            ("all", amounts(&[("cpu", 3), ("memory", 4)]), amounts(&[])),
            ("a number of pods", amounts(&[("cpu", 3), ("pods", 1)]), amounts(&[("pods", 2)])),
        ] {
            let leaf = Node { name: "leaf".into(), parent: flat.id(0), min, ..Node::default() };
            let borrowing = Borrowing::of(&Tree::new("t", "", 1, [root.clone(), leaf.clone()]));
            assert_eq!(borrowing.at(&leaf, &used), expected, "{rule}");
            assert_eq!(borrowing.at(&root, &used), Amounts::new(), "{rule}: nobody is above the root");
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_by_levels() {
        for (bytes, expected) in [(0, 1), (150, 1), (400, 2), (5_000, 3)] {
            let Report { root, levels, is_cut, .. } = report(&tree(), &ledger(), bytes);
            assert_eq!((levels, is_cut), (expected, expected < 3), "{bytes}");
            assert!(levels == 1 || root.to_string().len() <= bytes, "{bytes}");
        }
    }
}
