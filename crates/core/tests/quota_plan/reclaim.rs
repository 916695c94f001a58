//! Who makes room for a pod whose leaf owns it.

use std::sync::Arc;

use plimsoll_core::pod::{Owner, Workload};
use plimsoll_core::quota::{Candidates, Honour, Plan, QuotaPod};

use crate::support::{Judged, World, amounts, pod, tree, tree_of};

fn names(judged: &Judged) -> Vec<&str> {
    judged.victims.iter().map(String::as_str).collect()
}

fn controlled_by(kind: &str, group: &str) -> Owner {
    let workload = Workload { group: group.to_owned(), kind: kind.to_owned(), name: "x".to_owned() };
    Owner { workload, api_version: format!("{group}/v1"), uid: String::new() }
}

const ALL_OF_1: &str = "1-1 1-2 1-3 1-4";
const ALL_OF_2: &str = "2-1 2-2 2-3 2-4";
const ALL: &str = "1-1 1-2 1-3 1-4 2-1 2-2 2-3 2-4";

/// M1: a1 of priority 10, of a2 one of priority 1 and three of 100.
fn priorities() -> World {
    World::full()
        .change(ALL_OF_1, |pod| pod.priority = 10)
        .change("2-1", |pod| pod.priority = 1)
        .change("2-2 2-3 2-4", |pod| pod.priority = 100)
}

fn excluding(mut world: World, pods: &[(&str, &str)]) -> World {
    world.excluded = pods.iter().map(|(namespace, name)| (Arc::from(*namespace), Arc::from(*name))).collect();
    world
}

#[test]
fn vectors() {
    let system = |pod: &mut QuotaPod| pod.priority = 2_000_000_000;
    let all_of_2 = ALL_OF_2.split(' ').map(|name| ("namespace2", name)).collect::<Vec<_>>();
    let huge = World::new(tree()).with([
        pod("namespace1", "one", "cpu=12", 1),
        pod("namespace2", "two", "cpu=18", 2),
        pod("namespace4", "four", "cpu=10", 3),
    ]);
    let half = World::full().change("1-1 1-2 1-3 1-4 2-1 2-2 2-3", |pod| pod.priority = 2_000_000_000);
    let rows: Vec<(&str, World, &str, &str, Vec<&str>)> = vec![
        ("M1 the lowest priority", priorities(), "cpu=5", "reclaim", vec!["2-1"]),
        ("M1 and then the next", priorities(), "cpu=10", "reclaim", vec!["2-1", "1-4"]),
        ("M2 pods of the system", World::full().change(ALL, system), "cpu=5", "refuse", vec![]),
        ("M3 one huge pod", huge, "cpu=5", "reclaim", vec!["two"]),
        (
            "M13 a budget over all of a leaf",
            excluding(World::full(), &all_of_2),
            "cpu=5",
            "reclaim",
            vec!["1-4"],
        ),
        (
            "M13 a budget over one pod",
            excluding(World::full(), &[("namespace2", "2-4")]),
            "cpu=5",
            "reclaim",
            vec!["2-3"],
        ),
        (
            "M14 not Ready before Ready",
            World::full().change("1-2", |pod| pod.ready = false),
            "cpu=5",
            "reclaim",
            vec!["1-2"],
        ),
        (
            "M15 asked again before the victim has gone",
            World::full().change("2-4", |pod| pod.terminating = true),
            "cpu=5",
            "reclaim",
            vec![],
        ),
        ("M20 half of the room", half, "cpu=10", "refuse", vec![]),
    ];
    for (rule, world, charge, verdict, victims) in rows {
        let judged = world.judge("namespace3", charge);
        assert_eq!((judged.verdict, names(&judged)), (verdict, victims), "{rule}");
    }
}

#[test]
fn m15_the_room_comes_by_itself() {
    let world = World::full().change("2-4", |pod| pod.terminating = true);
    assert_eq!(
        world.judge("namespace3", "cpu=5").plan,
        Some(Plan::Nothing),
        "the victim of the first time ends"
    );
    let judged = world.judge("namespace3", "cpu=10");
    assert_eq!(names(&judged), ["1-4"], "more is needed: from the leaf that keeps more");
}

#[test]
fn m16_freed_room_is_kept_for_who_claimed_it() {
    let mut world = World::full();
    world.pods.remove("2-4");
    assert_eq!(world.judge("namespace2", "cpu=5").verdict, "admit", "without a claim");
    world.claims.push(("namespace3".to_owned(), amounts("cpu=5")));
    let judged = world.judge("namespace2", "cpu=5");
    assert_eq!((judged.verdict, &judged.blocked[..]), ("refuse", &["root cpu".to_owned()][..]));
    assert!(judged.text.contains("claimed by others 5"), "{}", judged.text);
    world.claims.clear();
    assert_eq!(
        world.judge("namespace3", "cpu=5").verdict,
        "admit",
        "its own claim does not hinder the claimant"
    );
}

#[test]
fn never() {
    let change = |names: &str, change: fn(&mut QuotaPod)| World::full().change(names, change);
    let heeding = |mut world: World, namespaces: &[&str]| {
        world.honour = Honour::of(namespaces);
        world
    };
    let kept = |pod: &mut QuotaPod| pod.do_not_evict = true;
    for (rule, world, victim) in [
        ("DaemonSet", change("2-4", |pod| pod.controller = Some(controlled_by("DaemonSet", "apps"))), "2-3"),
        (
            "a DaemonSet of another group",
            change("2-4", |pod| pod.controller = Some(controlled_by("DaemonSet", "x.io"))),
            "2-4",
        ),
        ("priority of the system", change("2-4", |pod| pod.priority = 2_000_000_000), "2-3"),
        ("priority below that, the others equal", change(ALL, |pod| pod.priority = 1_999_999_999), "2-4"),
        ("label, by default", change("2-4", |pod| pod.not_preemptible = true), "2-4"),
        ("annotation, by default", change("2-4", kept), "2-4"),
        ("label, heeded", heeding(change("2-4", |pod| pod.not_preemptible = true), &["namespace2"]), "2-3"),
        ("annotation, heeded", heeding(change("2-4", kept), &["namespace2"]), "2-3"),
        ("annotation, heeded everywhere", heeding(change("2-4", kept), &["*"]), "2-3"),
        ("annotation, heeded elsewhere", heeding(change("2-4", kept), &["namespace1"]), "2-4"),
    ] {
        assert_eq!(names(&world.judge("namespace3", "cpu=5")), [victim], "{rule}");
    }
}

#[test]
fn order() {
    let created = |names: &str, time: i64| World::full().change(names, move |pod| pod.created = time);
    for (rule, world, victims) in [
        ("newest first", World::full(), vec!["2-4"]),
        ("newest first, whatever the name", created("1-1", 99), vec!["1-1"]),
        ("namespace before name", created(ALL, 5), vec!["1-1"]),
        ("name", created("2-1 2-2", 99), vec!["2-1"]),
        ("priority before readiness", priorities().change("1-2", |pod| pod.ready = false), vec!["2-1"]),
        ("readiness before age", World::full().change("1-1 1-2", |pod| pod.ready = false), vec!["1-2"]),
    ] {
        assert_eq!(names(&world.judge("namespace3", "cpu=5")), victims, "{rule}");
    }
    let judged = World::full().judge("namespace3", "cpu=10");
    assert_eq!(names(&judged), ["2-4", "1-4"], "after each pick the excess is counted anew");
}

#[test]
fn who_is_spared() {
    let tree = || {
        tree_of(&[
            ("root", None, "cpu=20", "cpu=20", ""),
            ("x", Some(0), "cpu=5", "cpu=20", "x"),
            ("y", Some(0), "cpu=5", "cpu=20", "y"),
            ("z", Some(0), "cpu=10", "cpu=20", "z"),
        ])
    };
    let low = |mut pod: QuotaPod, priority: i32| {
        pod.priority = priority;
        pod
    };
    for (rule, pods, charge, victims) in [
        (
            "picks that turn out unneeded are given back, the last first",
            vec![
                low(pod("x", "small", "cpu=1", 9), -2),
                low(pod("x", "middle", "cpu=4", 8), -1),
                pod("x", "keep", "cpu=5", 1),
                pod("y", "large", "cpu=5", 7),
                pod("y", "base", "cpu=5", 1),
            ],
            "cpu=5",
            vec!["small", "middle"],
        ),
        (
            "what was picked first is given back if the last alone is enough",
            vec![
                low(pod("x", "small", "cpu=1", 9), -2),
                low(pod("x", "keep", "cpu=5", 1), 0),
                low(pod("y", "large", "cpu=6", 7), -1),
                pod("y", "base", "cpu=8", 1),
            ],
            "cpu=6",
            vec!["large"],
        ),
        (
            "two of one priority are replaced by one",
            vec![
                pod("x", "new", "cpu=2", 9),
                pod("x", "newer", "cpu=3", 10),
                pod("x", "one", "cpu=5", 2),
                pod("y", "base", "cpu=10", 1),
            ],
            "cpu=5",
            vec!["one"],
        ),
        (
            "not by one of a higher priority",
            vec![
                pod("x", "new", "cpu=2", 9),
                pod("x", "newer", "cpu=3", 10),
                low(pod("x", "one", "cpu=5", 2), 1),
                low(pod("y", "base", "cpu=10", 1), 1),
            ],
            "cpu=5",
            vec!["newer", "new"],
        ),
        (
            "by the smallest",
            vec![
                pod("x", "new", "cpu=2", 9),
                pod("x", "newer", "cpu=2", 10),
                pod("x", "four", "cpu=4", 2),
                pod("y", "three", "cpu=3", 2),
                pod("y", "base", "cpu=9", 1),
            ],
            "cpu=3",
            vec!["three"],
        ),
    ] {
        assert_eq!(pods.iter().map(|pod| pod.charge.of("cpu")).sum::<i128>(), 20_000_000_000, "{rule}: full");
        let judged = World::new(tree()).with(pods).judge("z", charge);
        assert_eq!(names(&judged), victims, "{rule}");
    }
}

#[test]
fn guarantees_of_nodes_between() {
    // `x` as a whole has what it owns, so its leaves owe each other and not `z`.
    let tree = tree_of(&[
        ("root", None, "cpu=30", "cpu=30", ""),
        ("x", Some(0), "cpu=10", "cpu=30", ""),
        ("y", Some(0), "cpu=10", "cpu=30", "y"),
        ("z", Some(0), "cpu=10", "cpu=30", "z"),
        ("x1", Some(1), "cpu=2", "cpu=30", "x1"),
        ("x2", Some(1), "cpu=8", "cpu=30", "x2"),
    ]);
    let mut world = World::new(tree).with([
        pod("x1", "x1-a", "cpu=5", 9),
        pod("x1", "x1-b", "cpu=5", 8),
        pod("y", "y-a", "cpu=10", 2),
        pod("y", "y-b", "cpu=10", 1),
    ]);
    assert_eq!(names(&world.judge("z", "cpu=5")), ["y-a"], "x is not above its min");
    world.put(pod("z", "z-a", "cpu=0", 3));
    assert_eq!(names(&world.judge("z", "cpu=10")), ["y-a"]);
    assert_eq!(names(&world.judge("x2", "cpu=5")), ["y-a"], "larger excess: of y, seen from x2");
    let world = world.change("y-a y-b", |pod| pod.priority = 2_000_000_000);
    assert_eq!(names(&world.judge("x2", "cpu=3")), ["x1-a"], "within x its leaves give back to each other");
    assert_eq!(world.judge("z", "cpu=3").plan, Some(Plan::Impossible), "x owes nothing to z");
}

#[test]
fn what_may_never_come_evicts_nobody() {
    let mut world = World::full();
    world.pods.remove("2-4");
    world.reserved.push(("namespace2".to_owned(), amounts("cpu=5")));
    assert_eq!(names(&world.judge("namespace3", "cpu=5")), ["2-3"], "a young reservation counts like a pod");
    world.unseen.push(("namespace2".to_owned(), amounts("cpu=5")));
    assert_eq!(world.judge("namespace3", "cpu=5").plan, Some(Plan::Nothing), "an old one does not");
    assert_eq!(names(&world.judge("namespace3", "cpu=10")), ["1-4"], "nor does it make its leaf a borrower");
}

#[test]
fn terminating_pods_are_no_longer_borrowed_room() {
    // Both pods above a2's min end already: none of the two below it goes for the second claim.
    let mut world = World::full().change("2-3 2-4", |pod| pod.terminating = true);
    world.claims.push(("namespace3".to_owned(), amounts("cpu=10")));
    let judged = world.judge("namespace4", "cpu=5");
    assert_eq!(names(&judged), ["1-4"]);
}

#[test]
fn a_borrower_in_the_claimants_leaf_is_no_candidate() {
    let tree = tree_of(&[
        ("root", None, "cpu=10 memory=10", "cpu=10 memory=10", ""),
        ("x", Some(0), "cpu=5 memory=5", "cpu=10 memory=10", "x1 x2"),
        ("y", Some(0), "cpu=5 memory=5", "cpu=10 memory=10", "y"),
    ]);
    let world = World::new(tree).with([pod("x1", "own", "memory=8", 9), pod("y", "other", "cpu=8", 1)]);
    assert_eq!(names(&world.judge("x2", "cpu=4")), ["other"]);
}

#[test]
fn several_resources() {
    let tree = tree_of(&[
        ("root", None, "cpu=10 memory=10", "cpu=10 memory=10", ""),
        ("x", Some(0), "", "cpu=10 memory=10", "x"),
        ("y", Some(0), "", "cpu=10 memory=10", "y"),
        ("z", Some(0), "cpu=5 memory=5", "cpu=10 memory=10", "z"),
    ]);
    let world = World::new(tree).with([
        pod("x", "cpu", "cpu=8", 1),
        pod("x", "disk", "ephemeral-storage=9", 9),
        pod("y", "memory", "memory=9", 1),
        pod("y", "both", "cpu=2 memory=1", 9),
    ]);
    assert_eq!(
        names(&world.judge("z", "cpu=1")),
        ["cpu"],
        "a newer pod that requests none of it does not help"
    );
    assert_eq!(
        names(&world.judge("z", "cpu=5 memory=5")),
        ["memory", "cpu"],
        "the largest excess of any of them"
    );
    assert_eq!(names(&world.judge("z", "cpu=2 memory=1")), ["both"], "one that makes all the room alone");
}

#[test]
fn small_pods_do_not_hide_the_one_that_is_large_enough() {
    let tree = tree_of(&[
        ("root", None, "cpu=20", "cpu=20", ""),
        ("x", Some(0), "cpu=11", "cpu=20", "x"),
        ("z", Some(0), "cpu=9", "cpu=20", "z"),
    ]);
    let world = World::new(tree).with([
        pod("x", "a", "cpu=4", 9),
        pod("x", "b", "cpu=6", 8),
        pod("x", "c", "cpu=10", 7),
    ]);
    assert_eq!(names(&world.judge("z", "cpu=9")), ["c"]);
}

#[test]
fn a_tree_with_violations_reclaims_nothing() {
    let mut world = World::full();
    Arc::make_mut(&mut world.tree).no_reclaim = Some("T2".to_owned());
    assert_eq!(world.judge("namespace3", "cpu=5").plan, Some(Plan::Impossible));
}

#[test]
fn candidates_follow_their_pods() {
    let tree = tree();
    let root = tree.id(0).unwrap();
    let mut candidates = Candidates::new(tree);
    let ending = |candidates: &Candidates| candidates.terminating().at(root).of("cpu") / 1_000_000_000;
    let new = pod("namespace3", "new", "cpu=1", 1);
    for (rule, change, expected) in [
        ("there", new.clone(), 0),
        ("ends", QuotaPod { terminating: true, ..new.clone() }, 1),
        ("resized while it ends", QuotaPod { terminating: true, charge: amounts("cpu=3"), ..new.clone() }, 3),
        ("has ended", QuotaPod { terminating: true, terminal: true, ..new.clone() }, 0),
        ("ends again", QuotaPod { terminating: true, ..new.clone() }, 1),
        ("elsewhere", QuotaPod { terminating: true, namespace: "elsewhere".into(), ..new.clone() }, 1),
    ] {
        candidates.put(Arc::new(change));
        assert_eq!(ending(&candidates), expected, "{rule}");
    }
    candidates.remove("elsewhere", "new");
    candidates.remove("namespace3", "new");
    candidates.remove("namespace3", "new");
    assert_eq!(ending(&candidates), 0, "gone");
}
