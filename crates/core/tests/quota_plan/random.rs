//! What must hold for every tree, every set of pods and every claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::pod::{Owner, Workload};
use plimsoll_core::quota::{
    Amounts, Candidates, Honour, Node, Plan, QuotaPod, Situation, Tree, blocks, is_entitled, plan,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::Model;
use crate::support::{World, node, pod};

const UNIT: i128 = 1_000_000_000;
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Three levels: for each node of the second its leaves, and for each leaf its minimum by resource.
fn trees() -> impl Strategy<Value = Arc<Tree>> {
    let leaf = (0..6_i128, 0..4_i128);
    let shape = vec(vec(leaf, 1..4), 2..4);
    // How much of what its leaves own a node of the second level owns beyond it, and how tight its maximum is.
    (shape, vec((0..3_i128, 0..12_i128), 4), any::<bool>()).prop_map(|(shape, extra, memory)| {
        let list = |cpu: i128, of_memory: i128| {
            if memory { format!("cpu={cpu} memory={of_memory}") } else { format!("cpu={cpu}") }
        };
        let mut below = Vec::new();
        let (mut cpu, mut of_memory) = (0, 0);
        for (leaves, (more, _)) in shape.iter().zip(&extra) {
            let sum = |of: fn(&(i128, i128)) -> i128| leaves.iter().map(of).sum::<i128>() + more;
            below.push((sum(|leaf| leaf.0), sum(|leaf| leaf.1)));
            cpu += sum(|leaf| leaf.0);
            of_memory += sum(|leaf| leaf.1);
        }
        let whole = list(cpu, of_memory);
        let mut nodes: Vec<Node> = vec![node(&[], "root", None, &whole, &whole, "")];
        let mut leaf_number = 0;
        for ((leaves, min), (_, room)) in shape.iter().zip(below).zip(&extra) {
            let above = nodes.len();
            let max = list((min.0 + room).min(cpu), (min.1 + room).min(of_memory));
            let name = format!("n{above}");
            nodes.push(node(&nodes, &name, Some(0), &list(min.0, min.1), &max, ""));
            for (cpu, of_memory) in leaves {
                let name = format!("l{leaf_number}");
                nodes.push(node(
                    &nodes,
                    &name,
                    Some(above),
                    &list(*cpu, *of_memory),
                    "",
                    &format!("ns{leaf_number}"),
                ));
                leaf_number += 1;
            }
        }
        Arc::new(Tree::new("t", "", 1, nodes))
    })
}

fn pods() -> impl Strategy<Value = Vec<(usize, QuotaPod)>> {
    let one = (
        0..9_usize,
        (0..5_i128, 0..4_i128),
        select(&[0, 0, 0, 1, -5, 2_000_000_000][..]),
        any::<bool>(),
        0..4_i64,
        0..24_u8,
    );
    vec(one, 0..24).prop_map(|all| {
        let pods =
            all.into_iter().enumerate().map(|(n, (leaf, (cpu, memory), priority, ready, created, flag))| {
                let daemon = Workload { group: "apps".into(), kind: "DaemonSet".into(), name: "d".into() };
                let daemon = Owner { workload: daemon, api_version: "apps/v1".into(), uid: String::new() };
                let mut pod = pod("", &format!("p{n}"), &format!("cpu={cpu} memory={memory}"), created);
                pod.charge = pod.charge.positive();
                pod.priority = priority;
                pod.ready = ready;
                pod.terminating = flag == 0;
                pod.terminal = flag == 1;
                pod.not_preemptible = flag == 2;
                pod.do_not_evict = flag == 3;
                pod.controller = (flag == 4).then_some(daemon);
                (leaf, pod)
            });
        pods.collect()
    })
}

/// A world that admission could have made, as far as maxima go, and a pod that is refused although its leaf owns it.
fn situations() -> impl Strategy<Value = (World, String, Amounts)> {
    let charge = (1..8_i128, 0..4_i128);
    let other = (0..9_usize, 0..4_i128);
    (trees(), pods(), 0..9_usize, charge, other.clone(), other, any::<bool>(), 0..24_usize).prop_filter_map(
        "not refused, or not entitled",
        |(tree, pods, leaf, charge, claim, unseen, heeded, excluded)| {
            let leaves = tree.namespaces().count();
            let namespace = |leaf: usize| format!("ns{}", leaf % leaves);
            let cpu = |amount: i128| Amounts::from_iter([("cpu", amount * UNIT)]);
            let mut world = World::new(Arc::clone(&tree));
            world.honour = if heeded { Honour::Everywhere } else { Honour::Nowhere };
            world.claims.push((namespace(claim.0), cpu(claim.1)));
            world.unseen.push((namespace(unseen.0), cpu(unseen.1)));
            world.reserved.push((namespace(unseen.0), cpu(unseen.1)));
            world.excluded = [(namespace(excluded).into(), format!("p{excluded}").into())].into();
            for (leaf, mut pod) in pods {
                pod.namespace = namespace(leaf).into();
                let leaf = tree.leaf_of(&pod.namespace).unwrap();
                if blocks(&tree, &world.used(), &world.sum(&[]), leaf, &pod.charge).is_empty() {
                    world.put(pod);
                }
            }
            let namespace = namespace(leaf);
            let charge: Amounts = RESOURCES
                .into_iter()
                .zip([charge.0, charge.1])
                .map(|(name, amount)| (name, amount * UNIT))
                .collect();
            let leaf = tree.leaf_of(&namespace).unwrap();
            let (used, claimed) = (world.used(), world.sum(&world.claims));
            let found = blocks(&tree, &used, &claimed, leaf, &charge);
            is_entitled(&tree, &used, &claimed, leaf, &charge, &found).then_some((world, namespace, charge))
        },
    )
}

fn planned(world: &World, candidates: &Candidates, namespace: &str, charge: &Amounts) -> Plan {
    let tree = &world.tree;
    let leaf = tree.leaf_of(namespace).unwrap();
    let (used, claimed, unseen) = (world.used(), world.sum(&world.claims), world.sum(&world.unseen));
    let blocks = blocks(tree, &used, &claimed, leaf, charge);
    plan(&Situation {
        pods: candidates,
        used: &used,
        claimed: &claimed,
        unseen: &unseen,
        leaf,
        charge,
        blocks: &blocks,
        honour: &world.honour,
        excluded: &world.excluded,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn plans((world, namespace, charge) in situations()) {
        let model = Model::new(&world, &namespace, &charge);
        let found = planned(&world, &world.candidates(), &namespace, &charge);
        let names: Vec<&str> = found.victims().iter().map(|victim| victim.pod.name.as_ref()).collect();
        let all: BTreeSet<&str> = names.iter().copied().collect();

        let expected = if model.is_covered(&BTreeSet::new()) {
            prop_assert_eq!(&found, &Plan::Nothing);
            Some((vec![], true))
        } else {
            model.plan()
        };
        prop_assert_eq!(&names, &expected.clone().map_or(vec![], |(names, _)| names), "as said plainly");
        prop_assert_eq!(found == Plan::Impossible, expected.is_none());

        if !names.is_empty() {
            prop_assert!(model.is_covered(&all), "the whole room");
            for name in &names {
                let mut fewer = all.clone();
                fewer.remove(name);
                prop_assert!(!model.is_covered(&fewer), "{} dies in vain", name);
                prop_assert!(!model.is_protected(&world.pods[*name]), "{} is protected", name);
            }
            let keep_min = expected.is_some_and(|(_, keep_min)| keep_min);
            let (before, after) = (model.left(&BTreeSet::new()), model.left(&all));
            for victim in found.victims() {
                prop_assert!(victim.leaf != model.leaf, "not of the claimant's leaf");
                let min = &world.tree.node(victim.leaf).unwrap().min;
                for block in &model.blocks {
                    let resource = block.resource.as_ref();
                    let (before, after) = (before.at(victim.leaf).of(resource), after.at(victim.leaf).of(resource));
                    prop_assert!(!keep_min || before == after || after >= min.of(resource), "falls below its min");
                }
            }
        }
    }

    #[test]
    fn plans_do_not_depend_on_the_order_of_pods(
        (world, namespace, charge) in situations(),
        keys in vec(any::<u32>(), 24),
        replaced in any::<bool>(),
    ) {
        let mut pods: Vec<_> = world.pods.values().cloned().collect();
        let mut keys = keys.into_iter();
        pods.sort_by_cached_key(|_| keys.next());
        let mut candidates = Candidates::new(Arc::clone(&world.tree));
        for pod in pods {
            if replaced {
                candidates.put(Arc::new(QuotaPod { priority: 7, terminating: !pod.terminating, ..pod.clone() }));
            }
            candidates.put(Arc::new(pod));
        }
        let expected = planned(&world, &world.candidates(), &namespace, &charge);
        prop_assert_eq!(planned(&world, &candidates, &namespace, &charge), expected);
    }
}
