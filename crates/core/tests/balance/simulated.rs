//! Whatever a cluster looks like.

use std::collections::HashSet;

use plimsoll_core::balance::{Round, State};
use plimsoll_core::placement::{Metric, Window};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{SECOND, World, pod};

/// Pods as (node, cores); nodes are as busy as their pods make them.
#[derive(Clone, Debug)]
struct Cluster {
    nodes: usize,
    pods: Vec<(usize, f64)>,
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (3_usize..7)
        .prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec((0..nodes, 1_u32..20), 1..30)))
        .prop_map(|(nodes, pods)| Cluster {
            nodes,
            pods: pods.into_iter().map(|(node, tenths)| (node, f64::from(tenths) / 10.0)).collect(),
        })
}

impl Cluster {
    fn busy(&self, node: usize) -> f64 {
        let cores: f64 = self.pods.iter().filter(|(on, _)| *on == node).map(|(_, cores)| cores).sum();
        (cores / 10.0).min(1.0)
    }

    /// The cluster at a time, with nodes in the order that is given.
    fn world(&self, now: i64, shown: impl Fn(usize) -> f64, backwards: bool) -> World {
        let mut world = World::new();
        world.now = now;
        world.settings.load.windows = vec![Window { name: "1h".into(), seconds: 3_600, weight: 1.0 }];
        world.settings.load.metrics = vec![(Metric::Cpu, 1.0)];
        let mut order: Vec<usize> = (0..self.nodes).collect();
        if backwards {
            order.reverse();
        }
        for node in order {
            world.node(&format!("n{node}"), &json!({}));
            world.busy(&format!("n{node}"), shown(node));
        }
        for (index, (node, cores)) in self.pods.iter().enumerate() {
            let name = format!("p{index}");
            world.pod_like(
                &format!("n{node}"),
                &name,
                *cores,
                &json!({"spec": {"containers": [{"name": "app"}]}}),
            );
        }
        world
    }

    fn unevenness(&self) -> f64 {
        (0..self.nodes).map(|node| self.busy(node).powi(2)).sum()
    }

    fn index(name: &str) -> usize {
        name[1..].parse().unwrap()
    }

    fn maximum(&self) -> f64 {
        (0..self.nodes).map(|node| self.busy(node)).fold(0.0, f64::max)
    }
}

fn check(cluster: &Cluster, round: &Round) -> Result<(), TestCaseError> {
    let Some(source) = &round.source else { return Ok(()) };
    prop_assert!(source.usage > round.mean, "the source is never below the mean");
    let others: HashSet<_> = round.spared.iter().map(|(pod, _)| pod.clone()).collect();
    for goes in &round.candidates {
        prop_assert!(!others.contains(&goes.pod), "it goes or it stays");
        prop_assert!(goes.target != source.name);
        let mut then = cluster.clone();
        let pod = Cluster::index(&goes.pod.name);
        prop_assert_eq!(then.pods[pod].0, Cluster::index(&source.name));
        then.pods[pod].0 = Cluster::index(&goes.target);
        prop_assert!(then.maximum() <= cluster.maximum() + 1e-9, "the maximum does not rise");
        let (from, to) = (Cluster::index(&source.name), Cluster::index(&goes.target));
        let of_both = |cluster: &Cluster| cluster.busy(from).max(cluster.busy(to));
        prop_assert!(of_both(&then) < of_both(cluster), "and that of the two falls");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_round_makes_nothing_worse(cluster in cluster()) {
        // A node that is full to the brim uses more than can be measured.
        prop_assume!((0..cluster.nodes).all(|node| cluster.busy(node) < 1.0));
        let world = cluster.world(crate::support::NOW, |node| cluster.busy(node), false);
        let round = world.rounds(3);
        check(&cluster, &round)?;
        let other = cluster.world(crate::support::NOW, |node| cluster.busy(node), true).rounds(3);
        prop_assert_eq!(&other.candidates, &round.candidates, "the order of nodes does not matter");
        prop_assert_eq!(&other.spared, &round.spared);
        prop_assert_eq!(&other.verdict, &round.verdict);
    }

    #[test]
    fn nobody_is_sent_back_and_forth(cluster in cluster()) {
        prop_assume!((0..cluster.nodes).all(|node| cluster.busy(node) < 1.0));
        let mut cluster = cluster;
        // How busy each node was, minute by minute; before that as at the beginning.
        let mut history: Vec<Vec<f64>> = vec![(0..cluster.nodes).map(|node| cluster.busy(node)).collect()];
        let mut bound = vec![0_i64; cluster.pods.len()];
        let mut state = State::default();
        for minute in 0..13 {
            let now = crate::support::NOW + minute * 60;
            let shown = |node: usize| {
                let past: f64 = history[1..].iter().map(|then| then[node]).sum();
                let before = 60.0 - (history.len() - 1) as f64;
                (past + before * history[0][node]) / 60.0
            };
            let mut world = cluster.world(now, shown, false);
            for (index, time) in bound.iter().enumerate().filter(|(_, time)| **time > 0) {
                // What was moved is new on its node, and its workload is left alone.
                let time = jiff::Timestamp::from_second(*time).unwrap().to_string();
                let name = format!("p{index}");
                world.pods.retain(|known| known.name.as_ref() != name);
                let cores = cluster.pods[index].1;
                let limits = json!({"cpu": format!("{}m", (cores * 1000.0).round())});
                let moved = pod(&format!("n{}", cluster.pods[index].0), &name, &json!({
                    "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]},
                    "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
                                              {"type": "Ready", "status": "True"}]},
                }));
                world.put(&moved, cores);
            }
            let round = world.plan(&state);
            state = round.state.clone();
            if let Some(goes) = round.candidates.first() {
                let source = &round.source.as_ref().unwrap().name;
                state.note(goes.past(source, now * SECOND, true));
                let (from, to) = (Cluster::index(source), Cluster::index(&goes.target));
                let before = (cluster.busy(from).max(cluster.busy(to)), cluster.unevenness());
                let moved = Cluster::index(&goes.pod.name);
                prop_assert_eq!(bound[moved], 0, "nobody is moved twice");
                cluster.pods[moved].0 = to;
                bound[moved] = now;
                prop_assert!(cluster.busy(from).max(cluster.busy(to)) < before.0, "the busier of the two is less busy");
                // What falls with each move cannot come back to where it was.
                prop_assert!(cluster.unevenness() < before.1 - 1e-9, "and all are less uneven");
            }
            history.push((0..cluster.nodes).map(|node| cluster.busy(node)).collect());
        }
    }
}
