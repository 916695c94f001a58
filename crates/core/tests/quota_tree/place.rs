//! Rules that depend on where a tree is stored.

use std::sync::Arc;

use plimsoll_core::quota::{Amounts, Judgement, StoredTree, TreePlace, UsageByNamespace};
use serde_json::{Value, json};

use crate::{changed, tree_t};

const UNIT: i128 = 1_000_000_000;

fn nowhere<'a>() -> TreePlace<'a> {
    TreePlace {
        own_namespace: Some("plimsoll-system"),
        allocatable: None,
        refuse_above_cluster: false,
        has_flavor: None,
        stored: &[],
        usage: None,
        old: None,
        forced: false,
    }
}

fn rules(judgement: &Judgement) -> (Vec<&str>, Vec<&str>) {
    (
        judgement.problems.iter().map(|problem| problem.rule).collect(),
        judgement.warnings.iter().map(|problem| problem.rule).collect(),
    )
}

fn named(name: &str, namespace: &str, created: &str) -> StoredTree {
    let mut tree = tree_t();
    tree["metadata"] = json!({"name": name, "namespace": namespace, "creationTimestamp": created});
    StoredTree::read(&tree)
}

#[test]
fn t4_more_than_the_cluster_has() {
    let sample = changed(&[
        ("/min/cpu", json!(999_900)),
        ("/max/cpu", json!(999_900)),
        ("/max/kube-queue~1max-jobs", json!(1)),
        ("/min/kube-queue~1max-jobs", json!(1)),
    ]);
    let tree = StoredTree::read(&sample);
    let cluster: Amounts =
        [("cpu", 56 * UNIT), ("memory", UNIT << 40), ("nvidia.com/gpu", 8 * UNIT)].into_iter().collect();
    let enough: Amounts =
        [("cpu", 999_900 * UNIT), ("memory", UNIT << 40), ("nvidia.com/gpu", 8 * UNIT)].into_iter().collect();
    let none: &[&str] = &[];
    for (rule, allocatable, refuse, problems, warnings) in [
        ("no node was seen", None, true, none, none),
        ("above, Y6", Some(&cluster), false, none, &["T4"][..]),
        ("above, refused", Some(&cluster), true, &["T4"][..], none),
        ("just enough", Some(&enough), true, none, none),
    ] {
        let place = TreePlace { allocatable, refuse_above_cluster: refuse, ..nowhere() };
        let judgement = place.judge(&tree);
        assert_eq!(rules(&judgement), (problems.to_vec(), warnings.to_vec()), "{rule}");
    }
    let judgement = TreePlace { allocatable: Some(&cluster), ..nowhere() }.judge(&tree);
    let text = judgement.warnings[0].to_string();
    assert!(text.starts_with("spec.root.max.cpu: node root: cpu: max 999900 is above 56, "), "{text}");
}

#[test]
fn t8_one_tree_counts() {
    let old = Arc::new(named("old", "kube-system", "2026-01-01T00:00:00Z"));
    let young = Arc::new(named("young", "kube-system", "2026-02-01T00:00:00Z"));
    let elsewhere = Arc::new(named("old", "team", "2025-01-01T00:00:00Z"));
    let both = [Arc::clone(&old), Arc::clone(&young), Arc::clone(&elsewhere)];
    let none: &[&str] = &[];
    let empty = UsageByNamespace::new();
    for (rule, tree, stored, is_new, problems, warnings) in [
        ("the first", &old, &both[2..], true, none, none),
        ("a second", &young, &both[..1], true, &["T8"][..], none),
        ("a second, though its clock says older", &old, &both[1..], true, &["T8"][..], none),
        ("the one that counts is changed", &old, &both[..], false, none, none),
        ("the other is changed", &young, &both[..], false, &["T8"][..], none),
        ("elsewhere", &elsewhere, &both[..], true, none, &["T8"][..]),
    ] {
        let old = (!is_new).then_some(tree.as_ref());
        let judgement = TreePlace { stored, old, usage: Some(&empty), ..nowhere() }.judge(tree);
        assert_eq!(rules(&judgement), (problems.to_vec(), warnings.to_vec()), "{rule}");
    }
}

#[test]
fn t10_flavors_that_do_not_exist() {
    let tree = StoredTree::read(&changed(&[
        ("/children/0/attributes", json!({"resourceflavors": "spot,ghost"})),
        ("/children/1/children/1/attributes", json!({"resourceflavors": "ghost"})),
    ]));
    let known = |name: &str| name == "spot";
    let judgement = TreePlace { has_flavor: Some(&known), ..nowhere() }.judge(&tree);
    let paths: Vec<&str> = judgement.warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.root.children[0].attributes.resourceflavors",
            "spec.root.children[1].children[1].attributes.resourceflavors"
        ]
    );
    assert!(judgement.problems.is_empty() && judgement.warnings[0].message.contains("root.a"));
    assert_eq!(rules(&nowhere().judge(&tree)), (vec![], vec![]), "not known");
}

#[test]
fn t12_the_server_s_own_namespace() {
    let tree =
        StoredTree::read(&changed(&[("/children/0/children/0/namespaces", json!(["plimsoll-system"]))]));
    assert_eq!(rules(&nowhere().judge(&tree)), (vec!["T12"], vec![]));
    assert_eq!(rules(&TreePlace { own_namespace: None, ..nowhere() }.judge(&tree)), (vec![], vec![]));
}

fn usage(namespace: &str, cpu: i128, pods: i128) -> UsageByNamespace {
    [(namespace.into(), [("cpu", cpu * UNIT), ("pods", pods * UNIT)].into_iter().collect())].into()
}

#[test]
fn t13_max_below_usage() {
    let tree = StoredTree::read(&changed(&[("/children/0/children/0/max/cpu", json!(12))]));
    let old = StoredTree::read(&tree_t());
    for (rule, cpu, warnings) in
        [("within", 12, vec![]), ("above", 13, vec!["T13"]), ("above a and a1", 41, vec!["T13"; 3])]
    {
        let usage = usage("namespace1", cpu, 1);
        let judgement = TreePlace { usage: Some(&usage), old: Some(&old), ..nowhere() }.judge(&tree);
        assert_eq!(rules(&judgement), (vec![], warnings), "{rule}");
    }
}

#[test]
fn t14_counted_pods_keep_their_quota() {
    let old = StoredTree::read(&tree_t());
    let a1 = "/children/0/children/0/namespaces";
    let same = StoredTree::read(&tree_t());
    let gone = StoredTree::read(&changed(&[(a1, json!([]))]));
    let moved = StoredTree::read(&changed(&[
        (a1, json!([])),
        ("/children/1/children/0/namespaces", json!(["namespace3", "namespace1"])),
        ("/children/1/name", json!("renamed")),
    ]));
    let (used, idle, other) =
        (usage("namespace1", 5, 1), usage("namespace1", 0, 0), usage("namespace3", 5, 1));
    let none: &[&str] = &[];
    let t14: &[&str] = &["T14"];
    for (rule, new, usage, forced, update, delete) in [
        ("nothing changes", &same, Some(&used), false, none, t14),
        ("moved and renamed", &moved, Some(&used), false, none, t14),
        ("leaves with pods", &gone, Some(&used), false, t14, t14),
        ("leaves with pods, forced", &gone, Some(&used), true, none, none),
        ("leaves without pods", &gone, Some(&idle), false, none, none),
        ("leaves, pods are elsewhere", &gone, Some(&other), false, none, t14),
        ("leaves, usage unknown", &gone, None, false, t14, t14),
        ("leaves, usage unknown, forced", &gone, None, true, none, none),
        ("nothing changes, usage unknown", &same, None, false, none, t14),
    ] {
        let place = TreePlace { usage, old: Some(&old), forced, ..nowhere() };
        assert_eq!(rules(&place.judge(new)).0, update, "{rule}: update");
        assert_eq!(rules(&place.judge_deletion(&old)).0, delete, "{rule}: delete");
    }
    let place = TreePlace { usage: Some(&used), old: Some(&old), ..nowhere() };
    let text = place.judge(&gone).problems[0].to_string();
    assert!(text.contains("namespace1 of root.a.a1 would leave the tree with 1 counted pods"), "{text}");

    let young = named("young", "kube-system", "2026-02-01T00:00:00Z");
    let stored = [Arc::new(old.clone())];
    let place = TreePlace { usage: Some(&used), stored: &stored, ..nowhere() };
    assert_eq!(rules(&place.judge_deletion(&young)).0, none, "one that does not count may go");
    assert_eq!(rules(&place.judge_deletion(&named("x", "team", ""))).0, none, "elsewhere");
}

#[test]
fn force_is_an_annotation_of_exactly_this_value() {
    for (value, expected) in
        [(json!("true"), true), (json!("True"), false), (json!(true), false), (Value::Null, false)]
    {
        let manifest = json!({"metadata": {"annotations": {"plimsoll.dev/force": value}}});
        assert_eq!(StoredTree::is_forced(&manifest), expected, "{manifest}");
    }
}
