//! Who goes must be able to come back: the quota tree.

use plimsoll_core::balance::Spared;
use plimsoll_core::quota::ledger::{Claim, Claimant, Ledger, Reservation, ReservationKey, ReservationKind};
use plimsoll_core::quota::{Amounts, Node, Tree};
use plimsoll_quantity::Quantity;
use serde_json::json;

use crate::support::World;

/// `cpu=5 memory=1Gi`
fn amounts(text: &str) -> Amounts {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name, Quantity::parse(value).unwrap().nanos())).collect()
}

/// root above a (shop) and b (other), each with a maximum.
fn tree(root: &str, a: &str) -> Tree {
    let node = |name: &str, max: &str, namespaces: &[&str], all: &[Node]| Node {
        name: name.into(),
        parent: Tree::new("", "", 0, all.iter().cloned()).id(0).filter(|_| !all.is_empty()),
        max: amounts(max),
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        ..Node::default()
    };
    let mut all = vec![node("root", root, &[], &[])];
    let leaves = [node("a", a, &["shop"], &all), node("b", "", &["other"], &all)];
    all.extend(leaves);
    Tree::new("t", "", 1, all)
}

fn claim(namespace: &str, charge: &str) -> Claim {
    let claimant = Claimant {
        namespace: namespace.to_owned(),
        uid: "uid".to_owned(),
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: "first".to_owned(),
    };
    Claim { number: 1, claimant, charge: amounts(charge), created: 0, retried: 0 }
}

fn promised(namespace: &str, charge: &str) -> (ReservationKey, Reservation) {
    let key = ReservationKey { uid: "new".into(), kind: ReservationKind::Create };
    let reservation = Reservation {
        namespace: namespace.into(),
        name: "new".into(),
        from: Amounts::new(),
        to: amounts(charge),
        asked: 0,
    };
    (key, reservation)
}

#[test]
fn who_could_not_come_back_stays() {
    let ledger = |shop: &str, other: &str| Ledger {
        initialised: true,
        committed: [("shop".into(), amounts(shop)), ("other".into(), amounts(other))].into(),
        ..Ledger::default()
    };
    let full = "cpu=10 memory=10Gi";
    let of = |resource: &str, node: &str, used: &str, max: &str| {
        Some(format!(
            "quota would refuse its replacement: of {resource} at node {node} {used} of {max} are used"
        ))
    };
    for (rule, root, a, ledger, why) in [
        ("room", full, full, ledger("cpu=5", "cpu=2"), None),
        ("full to the brim: it takes its own place", full, full, ledger("cpu=10", ""), None),
        ("the maximum was lowered", full, "cpu=4", ledger("cpu=5", ""), of("cpu", "root.a", "5", "4")),
        ("above the leaf", "cpu=6", full, ledger("cpu=5", "cpu=2"), of("cpu", "root", "7", "6")),
        ("of what it does not ask for", full, "memory=1Gi", ledger("cpu=5 memory=2Gi", ""), None),
        ("without a maximum", "", "", ledger("cpu=500", ""), None),
        (
            "with what was promised",
            full,
            "cpu=6",
            Ledger { reservations: [promised("shop", "cpu=2")].into(), ..ledger("cpu=5", "") },
            of("cpu", "root.a", "7", "6"),
        ),
        (
            "a claim in the leaf",
            full,
            "cpu=6",
            Ledger { claims: vec![claim("shop", "cpu=2")], ..ledger("cpu=5", "") },
            of("cpu", "root.a", "5", "6").map(|why| format!("{why}, and 2 are claimed")),
        ),
        (
            "a claim of another leaf, in what both share",
            full,
            full,
            Ledger { claims: vec![claim("other", "cpu=6")], ..ledger("cpu=5", "") },
            of("cpu", "root", "5", "10").map(|why| format!("{why}, and 6 are claimed")),
        ),
        (
            "a claim that leaves room",
            full,
            full,
            Ledger { claims: vec![claim("other", "cpu=5")], ..ledger("cpu=5", "") },
            None,
        ),
        (
            "what is used was not counted yet",
            full,
            full,
            Ledger { initialised: false, ..ledger("cpu=1", "") },
            Some("the quota tree admits nothing before what is used was counted".to_owned()),
        ),
    ] {
        let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
        let asks =
            json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}});
        world.pod_like("n1", "web", 1.0, &asks);
        world.quota = Some((tree(root, a), ledger));
        let round = world.rounds(3);
        let found = round.spared.iter().find(|(pod, _)| &*pod.name == "web").map(|(_, why)| why);
        assert_eq!(found.map(ToString::to_string), why, "{rule}");
        assert!(found.is_none_or(|why| matches!(why, Spared::Quota(_)) && why.name() == "quota"), "{rule}");
        assert_eq!(round.candidates.len(), usize::from(why.is_none()), "{rule}");
    }
}

#[test]
fn a_namespace_without_a_leaf_has_no_quota() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod_like("n1", "web", 1.0, &json!({"metadata": {"namespace": "free"}}));
    world.quota = Some((tree("cpu=1", "cpu=1"), Ledger::default()));
    assert_eq!(world.goes(), ["web"]);
}
