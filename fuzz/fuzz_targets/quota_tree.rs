//! Any JSON as a quota tree: never a panic; what is refused says why and where; of what is in force every node is
//! below the root, every namespace at one leaf, and nothing stands in the way of a good tree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::nesting::{Deeper, from_str};
use plimsoll_core::quota::{
    MOST_DEPTH, MOST_NODES, MOST_PATH, StoredTree, TREE_NAMESPACE, TreePlace, UsageByNamespace, is_queue_key,
};

fuzz_target!(|text: &str| {
    let Ok(mut value) = from_str(text, Deeper::Cut) else { return };
    // A tree is more often found below a head that is right.
    if let Some(manifest) = value.as_object_mut()
        && !manifest.contains_key("apiVersion")
    {
        manifest.insert("apiVersion".to_owned(), "scheduling.sigs.k8s.io/v1beta1".into());
        manifest.insert("metadata".to_owned(), serde_json::json!({"name": "t", "namespace": TREE_NAMESPACE}));
    }
    let stored = StoredTree::read(&value);
    let tree = &stored.tree;
    for problem in stored.problems.iter().chain(&stored.warnings) {
        assert!(!problem.path.is_empty() && !problem.message.is_empty() && !problem.rule.is_empty());
    }
    assert_eq!(tree.no_reclaim.is_some(), !stored.problems.is_empty());
    assert!(tree.nodes().len() <= MOST_NODES);
    assert!(!stored.problems.is_empty() || !tree.nodes().is_empty(), "a good tree has a root");
    assert!(!stored.problems.is_empty() || tree.blocked.is_empty(), "a good tree blocks nobody");
    for (id, node) in tree.ids().zip(tree.nodes()) {
        assert!(node.depth <= MOST_DEPTH && node.path.len() <= MOST_PATH);
        assert_eq!(tree.upwards(id).last().map(|(id, _)| id.index()), Some(0));
        assert_eq!(tree.upwards(id).count(), node.depth + 1);
        for (resource, amount) in node.min.iter().chain(node.max.iter()) {
            assert!(amount >= 0 && !is_queue_key(resource));
        }
        if stored.problems.is_empty() {
            assert!(node.children.is_empty() || node.namespaces.is_empty());
            assert!(node.max.iter().all(|(resource, max)| node.min.of(resource) <= max));
            for resource in node.min.iter().map(|(resource, _)| resource) {
                let below = node.children.iter().filter_map(|child| tree.node(*child));
                let sum = below.fold(0_i128, |sum, child| sum.saturating_add(child.min.of(resource)));
                assert!(sum <= node.min.of(resource));
            }
        }
    }
    for (namespace, leaf) in tree.namespaces() {
        assert!(tree.node(leaf).is_some() && namespace.as_ref() != TREE_NAMESPACE);
    }
    let usage = UsageByNamespace::new();
    let none = |_: &str| false;
    let place = TreePlace {
        own_namespace: Some("plimsoll-system"),
        allocatable: None,
        refuse_above_cluster: true,
        has_flavor: Some(&none),
        stored: &[],
        usage: Some(&usage),
        old: Some(&stored),
        forced: false,
    };
    assert!(place.judge(&stored).problems.len() >= stored.problems.len());
    assert!(place.judge_deletion(&stored).problems.is_empty(), "nothing is in use");
});
