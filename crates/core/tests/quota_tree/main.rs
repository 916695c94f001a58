//! What a quota tree may say, what it is refused for, and what of a bad one is in force.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod alone;
mod place;
mod random;
mod review;

use plimsoll_core::quota::StoredTree;
use serde_json::{Value, json};

/// The tree of the specification: 40 cpu, two halves, four leaves.
fn tree_t() -> Value {
    let leaf = |name: &str, namespace: &str| {
        json!({"name": name, "namespaces": [namespace],
            "max": {"cpu": 20, "memory": "20Gi", "nvidia.com/gpu": 2},
            "min": {"cpu": 10, "memory": "10Gi", "nvidia.com/gpu": 1}})
    };
    let half = |name: &str, children: Value| {
        json!({"name": name, "namespaces": [],
            "max": {"cpu": 40, "memory": "40Gi", "nvidia.com/gpu": 4},
            "min": {"cpu": 20, "memory": "20Gi", "nvidia.com/gpu": 2}, "children": children})
    };
    let mut tree = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree",
        "metadata": {"name": "quota", "namespace": "kube-system", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"root": {"name": "root",
            "max": {"cpu": 40, "memory": "40Gi", "nvidia.com/gpu": 4},
            "min": {"cpu": "40", "memory": "40Gi", "nvidia.com/gpu": "4000m"},
            "children": [
                half("a", json!([leaf("a1", "namespace1"), leaf("a2", "namespace2")])),
                half("b", json!([leaf("b1", "namespace3"), leaf("b2", "namespace4")])),
            ]}},
    });
    tree["spec"]["root"]["children"][0]["children"][1]["max"]["memory"] = json!("40Gi");
    tree
}

/// The tree T with one value replaced, by JSON pointer below `spec.root`.
fn changed(changes: &[(&str, Value)]) -> Value {
    let mut tree = tree_t();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = tree.pointer_mut(&format!("/spec/root{parent}")).unwrap_or_else(|| panic!("{pointer}"));
        match parent {
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[key.replace("~1", "/")] = value.clone(),
        }
    }
    tree
}

fn rules(tree: &StoredTree) -> Vec<&'static str> {
    tree.problems.iter().map(|problem| problem.rule).collect()
}

fn warned(tree: &StoredTree) -> Vec<&'static str> {
    tree.warnings.iter().map(|problem| problem.rule).collect()
}

fn blocked(tree: &StoredTree) -> Vec<&str> {
    tree.tree.blocked.keys().map(AsRef::as_ref).collect()
}
