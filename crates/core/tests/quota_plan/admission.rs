//! Whether a pod fits: the maximum of its leaf and of every node above it.

use std::sync::Arc;

use plimsoll_core::pod::{PodView, Pruned};
use plimsoll_core::quota::{Amounts, Tree, charge};
use serde_json::{Value, json};

use crate::support::{World, amounts, pod, tree, tree_of};

/// What is used: namespace and amounts.
fn used(tree: Arc<Tree>, state: &[(&str, &str)]) -> World {
    let pods =
        state.iter().enumerate().map(|(n, (namespace, charge))| pod(namespace, &n.to_string(), charge, 1));
    World::new(tree).with(pods)
}

fn shared_leaf() -> Arc<Tree> {
    tree_of(&[("root", None, "cpu=10", "cpu=10", ""), ("leaf", Some(0), "cpu=4", "cpu=10", "nsA nsB")])
}

fn bytes_leaf() -> Arc<Tree> {
    tree_of(&[
        ("root", None, "memory=40Gi", "memory=40Gi", ""),
        ("a1", Some(0), "", "memory=20Gi", "namespace1"),
    ])
}

/// Rule, tree, what is used, namespace, charge, verdict, where it is blocked.
type Row = (
    &'static str,
    Arc<Tree>,
    Vec<(&'static str, &'static str)>,
    &'static str,
    &'static str,
    &'static str,
    Vec<&'static str>,
);

#[test]
fn verdicts() {
    let (a1, a2) = ("namespace1", "namespace2");
    let rows: Vec<Row> = vec![
        ("P1 exactly the maximum", tree(), vec![], a1, "cpu=20", "admit", vec![]),
        ("P2 a thousandth above it", tree(), vec![], a1, "cpu=20001m", "refuse", vec!["root.a.a1 cpu"]),
        (
            "P3 one resource of two",
            tree(),
            vec![],
            a1,
            "cpu=5 memory=21Gi",
            "refuse",
            vec!["root.a.a1 memory"],
        ),
        ("P4 another maximum", tree(), vec![], a2, "memory=40Gi", "admit", vec![]),
        (
            "P8 only ancestors are full",
            tree(),
            vec![(a2, "memory=30Gi")],
            a1,
            "memory=11Gi",
            "refuse",
            vec!["root.a memory", "root memory"],
        ),
        (
            "P9 a full resource that is not requested",
            tree(),
            vec![(a2, "memory=30Gi"), (a1, "memory=10Gi")],
            "namespace3",
            "cpu=20",
            "admit",
            vec![],
        ),
        ("P10 no requests", tree(), vec![(a1, "cpu=20")], a1, "pods=1", "admit", vec![]),
        ("P14 in no leaf", tree(), vec![], "elsewhere", "cpu=100", "admit", vec![]),
        (
            "P22 two namespaces of one leaf",
            shared_leaf(),
            vec![("nsA", "cpu=6")],
            "nsB",
            "cpu=5",
            "refuse",
            vec!["root.leaf cpu", "root cpu"],
        ),
        ("P24 the last byte", bytes_leaf(), vec![], a1, "memory=21474836480", "admit", vec![]),
        (
            "P24 a byte too much",
            bytes_leaf(),
            vec![],
            a1,
            "memory=21474836481",
            "refuse",
            vec!["root.a1 memory"],
        ),
        ("a request of 0 is never blocked", tree(), vec![(a1, "cpu=20")], a1, "cpu=0", "admit", vec![]),
        ("a resource without maximum", tree(), vec![], a1, "example.com/fpga=1000", "admit", vec![]),
        (
            "a node above its maximum",
            bytes_leaf(),
            vec![(a1, "memory=30Gi")],
            a1,
            "memory=1",
            "refuse",
            vec!["root.a1 memory"],
        ),
    ];
    for (rule, tree, state, namespace, charge, verdict, blocked) in rows {
        let judged = used(tree, &state).judge(namespace, charge);
        assert_eq!(
            (judged.verdict, &judged.blocked),
            (verdict, &blocked.iter().map(ToString::to_string).collect()),
            "{rule}"
        );
        assert_eq!(judged.plan, None, "{rule}: nothing is reclaimed");
        assert_eq!(judged.text.contains("exceeded quota"), verdict == "refuse", "{rule}");
    }
}

#[test]
fn the_pods_of_a_namespace_are_limited_too() {
    let tree = tree_of(&[("root", None, "", "pods=2", ""), ("a", Some(0), "", "", "ns")]);
    let mut world = World::new(tree);
    for n in 0..2 {
        assert_eq!(world.judge("ns", "pods=1").verdict, "admit");
        world.put(pod("ns", &n.to_string(), "", 1));
    }
    assert_eq!(world.judge("ns", "pods=1").blocked, ["root pods"]);
}

#[test]
fn what_can_never_fit_is_told_so() {
    let judged = World::new(tree()).judge("namespace1", "cpu=20001m");
    assert!(judged.text.contains("exceeds max of the leaf"), "{}", judged.text);
    let judged = used(tree(), &[("namespace1", "cpu=20")]).judge("namespace1", "cpu=5");
    assert!(!judged.text.contains("exceeds max of the leaf"), "{}", judged.text);
    assert!(judged.text.contains("root.a.a1: cpu requested 5, used 20, max 20"), "{}", judged.text);
}

fn charge_of(spec: &Value) -> Amounts {
    let pod = json!({"metadata": {"name": "p", "namespace": "namespace1"}, "spec": spec});
    charge(&PodView::read(&Pruned::of(&pod)).unwrap()).unwrap()
}

fn cpu(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(name: &str, value: &str) -> Value {
    let mut container = cpu(name, value);
    container["restartPolicy"] = json!("Always");
    container
}

#[test]
fn verdicts_of_whole_pods() {
    let with_init = |init: &str| json!({"containers": [cpu("a", "2"), cpu("b", "2")], "initContainers": [sidecar("s", "500m"), cpu("i", init)]});
    for (rule, before, spec, expected, verdict, after) in [
        ("P18", "cpu=15", with_init("6"), "cpu=6500m", "refuse", "15"),
        ("P19", "cpu=15", with_init("4"), "cpu=4500m", "admit", "19500m"),
        (
            "P20",
            "cpu=19",
            json!({"containers": [cpu("a", "750m")], "overhead": {"cpu": "250m"}}),
            "cpu=1",
            "admit",
            "20",
        ),
        ("P10", "cpu=20", json!({"containers": [{"name": "a"}]}), "", "admit", "20"),
    ] {
        let mut world = used(tree(), &[("namespace1", before)]);
        let charge = charge_of(&spec);
        let mut wanted = amounts(expected);
        wanted.set("pods", 1_000_000_000);
        assert_eq!(charge, wanted, "{rule}");
        assert_eq!(world.judge_amounts("namespace1", &charge).verdict, verdict, "{rule}");
        if verdict == "admit" {
            let mut admitted = pod("namespace1", "new", "", 1);
            admitted.charge = charge;
            world.put(admitted);
        }
        let leaf = world.tree.leaf_of("namespace1").unwrap();
        assert_eq!(world.used().at(leaf).quantities()["cpu"], after, "{rule}");
    }
}
