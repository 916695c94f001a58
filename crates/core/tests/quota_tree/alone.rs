//! Rules that need nothing but the tree.

use plimsoll_core::objects::{Fact, read_manifest};
use plimsoll_core::quota::{MOST_DEPTH, MOST_NODES, StoredTree};
use serde_json::{Value, json};

use crate::{blocked, changed, rules, tree_t, warned};

#[test]
fn the_tree_of_the_specification_is_good() {
    let stored = StoredTree::read(&tree_t());
    assert_eq!((rules(&stored), warned(&stored)), (vec![], vec![]));
    assert_eq!((stored.name.as_str(), stored.namespace.as_str()), ("quota", "kube-system"));
    assert_eq!((stored.created, stored.tree.no_reclaim.clone()), (1_767_225_600, None));
    let paths: Vec<&str> = stored.tree.nodes().iter().map(|node| node.path.as_ref()).collect();
    assert_eq!(paths, ["root", "root.a", "root.a.a1", "root.a.a2", "root.b", "root.b.b1", "root.b.b2"]);
    let leaf = stored.tree.node(stored.tree.leaf_of("namespace2").unwrap()).unwrap();
    assert_eq!(leaf.max.to_string(), "cpu=20, memory=40Gi, nvidia.com/gpu=2");
    let Ok(Some(Fact::QuotaTree(read))) = read_manifest(&tree_t()) else { panic!("no tree") };
    assert_eq!(*read, stored);
}

/// Problems by rule, warnings by rule, and namespaces that are blocked.
type Row<'a> = (&'a str, Vec<(&'a str, Value)>, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

#[test]
fn every_rule() {
    let all: &[&str] = &["namespace1", "namespace2", "namespace3", "namespace4"];
    let first: &[&str] = &["namespace1"];
    let half: &[&str] = &["namespace1", "namespace2"];
    let rows: Vec<Row<'_>> = vec![
        ("T1 and T2 (Y2)", vec![("/children/0/children/0/min/cpu", json!(21))], &["T1", "T2"], &[], &[]),
        (
            "T1, suffixes of two kinds (Y17)",
            vec![
                ("/children/0/children/0/min/memory", json!("40Gi")),
                ("/children/0/children/0/max/memory", json!("40G")),
            ],
            &["T1", "T2"],
            &[],
            &[],
        ),
        (
            "T2, no min above it (Y13)",
            vec![("/children/0/min", json!({"cpu": 20, "memory": "20Gi"}))],
            &["T2"],
            &[],
            &[],
        ),
        ("T3 and T2 (Y4)", vec![("/min/cpu", json!(39))], &["T3", "T2"], &[], &[]),
        (
            "T3, equal as values",
            vec![("/min/cpu", json!("40000m")), ("/max/cpu", json!(40.0))],
            &[],
            &[],
            &[],
        ),
        (
            "T3, no min at the root",
            vec![("/min", Value::Null)],
            &["T3", "T3", "T3", "T2", "T2", "T2"],
            &[],
            &[],
        ),
        ("T3, no max at the root", vec![("/max", Value::Null)], &["T3", "T3", "T3"], &[], &[]),
        ("T3, one resource more", vec![("/max/x", json!(1))], &["T3"], &[], &[]),
        (
            "T5 (Y7)",
            vec![("/children/1/children/0/namespaces", json!(["namespace3", "namespace1"]))],
            &["T5"],
            &[],
            first,
        ),
        ("T6", vec![("/children/0/namespaces", json!(["namespace9"]))], &["T6"], &[], &["namespace9"]),
        (
            "T6, of a leaf too: both count as said",
            vec![("/children/0/namespaces", json!(["namespace1"]))],
            &["T6"],
            &[],
            first,
        ),
        ("T7, siblings", vec![("/children/0/children/0/name", json!("a2"))], &["T7"], &[], half),
        ("T7, the root's", vec![("/children/0/children/0/name", json!("root"))], &["T7"], &[], all),
        ("T7, empty", vec![("/children/0/children/0/name", json!(""))], &["T7"], &[], first),
        ("T7, none", vec![("/children/0/children/0/name", Value::Null)], &["T7"], &[], first),
        ("T9", vec![("/children/0/children/0/max/cpu", json!(41))], &[], &["T9"], &[]),
        ("T11, negative (Y15)", vec![("/children/0/children/0/min/cpu", json!("-1"))], &["T11"], &[], first),
        (
            "T11, a number that is negative",
            vec![("/children/0/children/0/min/cpu", json!(-1))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, no number (Y15)",
            vec![("/children/0/children/0/min/cpu", json!("abc"))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, too large (Y15)",
            vec![("/children/0/children/0/min/cpu", json!("1e400"))],
            &["T11"],
            &[],
            first,
        ),
        ("T11, empty text", vec![("/children/0/children/0/min/cpu", json!(""))], &["T11"], &[], first),
        ("T11, null", vec![("/children/0/children/0/min/cpu", Value::Null)], &["T11"], &[], first),
        ("T11, true", vec![("/children/0/children/0/min/cpu", json!(true))], &["T11"], &[], first),
        ("T11, a list", vec![("/children/0/children/0/min/cpu", json!([1]))], &["T11"], &[], first),
        (
            "T11, half a piece (Y15)",
            vec![("/children/0/children/0/min", json!({"nvidia.com/gpu": "1.5"}))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, half a piece as a number",
            vec![("/children/0/children/0/min", json!({"example.org/x": 0.5}))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, half a pod",
            vec![("/children/0/children/0/max", json!({"pods": "500m"}))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, half a huge page",
            vec![("/children/0/children/0/max", json!({"hugepages-2Mi": "0.5"}))],
            &["T11"],
            &[],
            first,
        ),
        ("a fraction of cpu", vec![("/children/0/children/0/min/cpu", json!(1.5))], &[], &[], &[]),
        (
            "8Ei and above is read",
            vec![("/children/0/children/0/max/memory", json!("8Ei"))],
            &[],
            &["T9"],
            &[],
        ),
        (
            "T11, unknown field of a node",
            vec![("/children/0/children/0/weight", json!(1))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, unknown field of an inner node",
            vec![("/children/0/scheduler", json!("x"))],
            &["T11"],
            &[],
            half,
        ),
        ("T11, unknown field of the root", vec![("/parent", json!(null))], &["T11"], &[], all),
        ("T11, name no text", vec![("/children/0/children/0/name", json!(5))], &["T11"], &[], first),
        (
            "T11, name too long",
            vec![("/children/0/children/0/name", json!("x".repeat(254)))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, namespaces no list",
            vec![("/children/0/children/0/namespaces", json!("namespace1"))],
            &["T11"],
            &["T13"],
            &[],
        ),
        (
            "T11, a namespace no text",
            vec![("/children/0/children/0/namespaces", json!(["namespace1", 1]))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, no namespace has this name",
            vec![("/children/0/children/0/namespaces", json!(["namespace1", "Team_A"]))],
            &["T11"],
            &[],
            first,
        ),
        ("T11, min no map", vec![("/children/0/children/0/min", json!([]))], &["T11"], &[], first),
        ("T11, max no map", vec![("/children/0/children/0/max", json!("40"))], &["T11"], &[], first),
        (
            "T11, attributes no map",
            vec![("/children/0/children/0/attributes", json!("spot"))],
            &["T11"],
            &[],
            first,
        ),
        (
            "T11, an attribute no text",
            vec![("/children/0/children/0/attributes", json!({"resourceflavors": ["spot"]}))],
            &["T11"],
            &[],
            first,
        ),
        ("T11, children no list", vec![("/children/0/children/0/children", json!({}))], &["T11"], &[], first),
        (
            "T11, a child no node",
            vec![("/children/0/children/0", Value::Null)],
            &["T11"],
            &[],
            &["namespace2"],
        ),
        (
            "T12",
            vec![("/children/0/children/0/namespaces", json!(["namespace1", "kube-system"]))],
            &["T12"],
            &[],
            &[],
        ),
        (
            "T13, leaf without namespaces",
            vec![("/children/0/children/0/namespaces", json!([]))],
            &[],
            &["T13"],
            &[],
        ),
        (
            "T13, namespace twice",
            vec![("/children/0/children/0/namespaces", json!(["namespace1", "namespace1"]))],
            &[],
            &["T13"],
            &[],
        ),
        (
            "T15",
            vec![
                ("/children/0/children/0/children", Value::Null),
                ("/children/0/children/0/attributes", Value::Null),
                ("/children/0/children/0/min", Value::Null),
            ],
            &[],
            &[],
            &[],
        ),
        (
            "T15, nulls elsewhere",
            vec![
                ("/attributes", Value::Null),
                ("/namespaces", Value::Null),
                ("/children/0/children/0/max", Value::Null),
            ],
            &[],
            &[],
            &[],
        ),
        (
            "queue keys are numbers",
            vec![("/children/0/children/0/max", json!({"kube-queue/max-jobs": "x", "koord-queue/a": "0.5"}))],
            &["T11"],
            &[],
            first,
        ),
        (
            "queue keys are compared",
            vec![
                ("/children/0/children/0/max", json!({"kube-queue/max-jobs": 1})),
                ("/children/0/children/0/min", json!({"kube-queue/max-jobs": 2})),
            ],
            &["T1", "T2"],
            &[],
            &[],
        ),
    ];
    for (rule, changes, problems, warnings, expected) in rows {
        let stored = StoredTree::read(&changed(&changes));
        let sorted = |mut rules: Vec<&'static str>| {
            rules.sort_unstable();
            rules
        };
        let mut wanted = problems.to_vec();
        wanted.sort_unstable();
        assert_eq!(sorted(rules(&stored)), wanted, "{rule}: {:?}", stored.problems);
        assert_eq!(warned(&stored), warnings, "{rule}: {:?}", stored.warnings);
        assert_eq!(blocked(&stored), expected, "{rule}");
        assert_eq!(stored.tree.no_reclaim.is_some(), !problems.is_empty(), "{rule}");
        for problem in stored.problems.iter().chain(&stored.warnings) {
            assert!(problem.path.starts_with("spec.root"), "{rule}: {problem}");
            assert!(problem.message.starts_with("node "), "{rule}: {problem}");
        }
    }
}

#[test]
fn messages_name_the_node_the_path_and_both_numbers() {
    for (rule, changes, expected) in [
        (
            "T1",
            vec![("/children/0/children/0/max/cpu", json!(9))],
            "spec.root.children[0].children[0].min.cpu: node root.a.a1: cpu: min 10 is above max 9; lower min or raise max [T1]",
        ),
        (
            "T2",
            vec![("/children/0/children/0/min/cpu", json!(11))],
            "spec.root.children[0].min.cpu: node root.a: cpu: min of its children adds up to 21, above its own min 20; lower theirs or raise its own [T2]",
        ),
        (
            "T3",
            vec![("/max/cpu", json!("40001m"))],
            "spec.root.min.cpu: node root: cpu: min 40 differs from max 40001m; at the root both are the same [T3]",
        ),
        (
            "T5",
            vec![("/children/1/children/0/namespaces", json!(["namespace1"]))],
            "spec.root.children[1].children[0].namespaces[0]: node root.b.b1: namespace namespace1 is bound to root.a.a1 and to root.b.b1; a namespace belongs to one leaf [T5]",
        ),
        (
            "T7",
            vec![("/children/1/children/0/name", json!("a1"))],
            "spec.root.children[1].children[0].name: node root.b.a1: the name \"a1\" is that of root.a.a1 too; every node has a name of its own [T7]",
        ),
        (
            "T11",
            vec![("/children/0/children/0/min", json!({"nvidia.com/gpu": "1.5"}))],
            "spec.root.children[0].children[0].min.nvidia.com/gpu: node root.a.a1: \"1.5\" is no whole number; nvidia.com/gpu is counted in whole pieces [T11]",
        ),
    ] {
        let stored = StoredTree::read(&changed(&changes));
        assert_eq!(stored.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected], "{rule}");
    }
}

#[test]
fn a_root_that_cannot_be_read() {
    let mut manifests: Vec<(Value, &str)> =
        vec![(json!({}), "spec"), (json!([]), "spec"), (Value::Null, "spec")];
    for other in [Value::Null, json!(1), json!("x"), json!([]), json!(true)] {
        manifests.push((json!({ "spec": other }), "spec"));
        manifests.push((json!({"spec": {"root": other}}), "spec.root"));
    }
    manifests.push((json!({"spec": {}}), "spec.root"));
    for (manifest, path) in manifests {
        let stored = StoredTree::read(&manifest);
        let first = stored.problems.first().unwrap();
        assert_eq!((first.path.as_str(), first.rule), (path, "T11"), "{manifest}");
        assert!(stored.tree.nodes().is_empty() && stored.tree.no_reclaim.is_some(), "{manifest}");
    }
    let odd = json!({"spec": {"root": {"name": "root"}, "other": 1}});
    let stored = StoredTree::read(&odd);
    assert!(rules(&stored).contains(&"T11"));
    let metadata = json!({"metadata": 5, "spec": {"root": {"name": null}}, "apiVersion": [1]});
    assert_eq!(rules(&StoredTree::read(&metadata)), ["version", "T7"]);
}

#[test]
fn what_counts_is_told_apart_from_what_does_not() {
    let mut tree =
        changed(&[("/children/0/attributes", json!({"resourceflavors": " spot, od,,spot , ", "x": null}))]);
    for node in ["", "/children/0"] {
        for field in ["min", "max"] {
            tree.pointer_mut(&format!("/spec/{}{node}/{field}", "root")).unwrap()["kube-queue/max-jobs"] =
                json!("10");
        }
    }
    let stored = StoredTree::read(&tree);
    assert_eq!(rules(&stored), Vec::<&str>::new());
    let a = &stored.tree.nodes()[1];
    assert_eq!(a.flavors.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["spot", "od"]);
    assert_eq!(a.max.get("kube-queue/max-jobs"), None);
    assert_eq!(a.max.to_string(), "cpu=40, memory=40Gi, nvidia.com/gpu=4");
    let none = StoredTree::read(&changed(&[("/attributes", json!({"resourceflavors": " ,, "}))]));
    assert!(none.tree.nodes()[0].flavors.is_empty(), "a list of only empties is none");
}

#[test]
fn kube_system_is_never_bound_and_trees_elsewhere_hold_nothing() {
    let bad = changed(&[("/children/0/children/0/namespaces", json!(["kube-system", "namespace1"]))]);
    let stored = StoredTree::read(&bad);
    assert_eq!(stored.tree.leaf_of("kube-system"), None);
    assert!(stored.tree.leaf_of("namespace1").is_some() && stored.tree.blocked.is_empty());
    let mut elsewhere = tree_t();
    elsewhere["metadata"]["namespace"] = json!("team");
    assert_eq!(StoredTree::read(&elsewhere).tree.nodes().len(), 7);
    let Ok(Some(Fact::QuotaTree(kept))) = read_manifest(&elsewhere) else { panic!("no tree") };
    assert!(kept.tree.nodes().is_empty());
}

fn chain(depth: usize) -> Value {
    let mut node = json!({"name": format!("n{depth}"), "namespaces": ["deep"]});
    for level in (0..depth).rev() {
        node = json!({"name": format!("n{level}"), "children": [node]});
    }
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "spec": {"root": node}})
}

fn wide(leaves: usize) -> Value {
    let children: Vec<Value> = (0..leaves)
        .map(|leaf| json!({"name": format!("l{leaf}"), "namespaces": [format!("ns-{leaf}")]}))
        .collect();
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "spec": {"root": {"name": "root", "children": children}}})
}

#[test]
fn depth_and_size_have_stated_limits() {
    for (rule, tree, expected, below) in [
        ("depth 100", chain(100), vec![], "deep"),
        ("the deepest", chain(MOST_DEPTH), vec![], "deep"),
        ("one deeper", chain(MOST_DEPTH + 1), vec!["T11"], "deep"),
        ("far deeper", chain(600), vec!["T11"], "deep"),
        ("10,000 leaves", wide(10_000), vec![], "ns-9999"),
        ("the largest", wide(MOST_NODES - 1), vec![], "ns-9999"),
        ("one larger", wide(MOST_NODES), vec!["T11"], "ns-19999"),
    ] {
        let stored = StoredTree::read(&tree);
        assert_eq!(rules(&stored), expected, "{rule}");
        // Whoever stands beyond the limit is not let through unbound.
        assert!(stored.tree.leaf_of(below).is_some(), "{rule}");
        assert_eq!(stored.tree.blocked.contains_key(below), !expected.is_empty(), "{rule}");
    }
}

#[test]
fn long_names_do_not_multiply() {
    let mut node = json!({"name": "leaf", "namespaces": ["deep"]});
    for level in 0..100 {
        node = json!({"name": format!("{level:0>200}"), "children": [node]});
    }
    let stored =
        StoredTree::read(&json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "spec": {"root": node}}));
    assert_eq!(rules(&stored), ["T11"]);
    assert!(stored.tree.nodes().iter().all(|node| node.path.len() <= 4_096));
    assert_eq!(blocked(&stored), ["deep"]);
}

#[test]
fn very_many_problems_are_counted() {
    let fields: serde_json::Map<String, Value> = (0..2_000).map(|n| (format!("f{n}"), json!(1))).collect();
    let mut root = Value::Object(fields);
    root["name"] = json!("root");
    let stored =
        StoredTree::read(&json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "spec": {"root": root}}));
    assert_eq!(stored.problems.len(), 500);
    assert!(stored.problems.last().unwrap().message.ends_with("; and 1500 more"));
}
