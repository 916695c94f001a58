use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::World;

fn node() -> impl Strategy<Value = Value> {
    let share = || prop_oneof![4 => (0..=100_u32).prop_map(|share| json!(f64::from(share) / 100.0)), 1 => Just(Value::Null)];
    (share(), share(), share(), share(), share()).prop_map(|(cpu, memory, disk, load, long)| {
        json!({"cpu": {"15m": cpu, "1d": long}, "memory": {"15m": memory, "1h": memory}, "disk": {"1h": disk}, "load": {"15m": load},
               "total": {"cpu": "8", "memory": "32Gi"}})
    })
}

fn world(nodes: &[Value]) -> (World, Vec<String>) {
    let names: Vec<String> = (0..nodes.len()).map(|index| format!("n{index}")).collect();
    let file: serde_json::Map<_, _> = names.iter().cloned().zip(nodes.iter().cloned()).collect();
    (World::of(&json!({"nodes": file})), names)
}

fn scores(world: &World, names: &[String]) -> Vec<(f64, u8)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.score(&names).nodes.iter().map(|node| (node.score, node.points)).collect()
}

proptest! {
    #[test]
    fn more_load_is_never_a_better_score(
        nodes in prop::collection::vec(node(), 1..12),
        metric in prop::sample::select(vec!["/cpu/15m", "/cpu/1d", "/memory/15m", "/disk/1h", "/load/15m"]),
        by in 1..60_u32,
    ) {
        let (before, names) = world(&nodes);
        let before = scores(&before, &names);
        let mut nodes = nodes;
        let Some(share) = nodes[0].pointer(metric).and_then(Value::as_f64) else { return Ok(()) };
        *nodes[0].pointer_mut(metric).unwrap() = json!((share + f64::from(by) / 100.0).min(1.0));
        let (after, names) = world(&nodes);
        let after = scores(&after, &names);
        prop_assert!(after[0].0 <= before[0].0 + 1e-9, "{} -> {}", before[0].0, after[0].0);
        prop_assert!(after[0].1 <= before[0].1, "points {} -> {}", before[0].1, after[0].1);
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(nodes in prop::collection::vec(node(), 1..12), policy in 0..3_usize) {
        let (mut world, names) = world(&nodes);
        let mut parts = [0.0; 3];
        parts[policy] = 1.0;
        world = world.policies(parts[0], parts[1], parts[2]);
        let forth = scores(&world, &names);
        let reversed: Vec<String> = names.iter().rev().cloned().collect();
        let mut back = scores(&world, &reversed);
        back.reverse();
        for (forth, back) in forth.iter().zip(&back) {
            prop_assert!((forth.0 - back.0).abs() < 1e-9 && forth.1 == back.1);
        }
    }

    #[test]
    fn what_is_not_measured_is_never_better_than_the_best_that_is(nodes in prop::collection::vec(node(), 2..12)) {
        let mut nodes = nodes;
        nodes[0] = json!({});
        let (world, names) = world(&nodes);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let decision = world.score(&names);
        let measured = || decision.nodes.iter().filter(|node| node.usage.is_some()).map(|node| node.score);
        if measured().next().is_some() {
            let (best, worst) = (measured().fold(0.0, f64::max), measured().fold(100.0, f64::min));
            prop_assert!(decision.nodes[0].score <= best + 1e-9 && decision.nodes[0].score >= worst - 1e-9);
        }
    }

    #[test]
    fn scores_and_points_keep_their_ranges(
        nodes in prop::collection::vec(node(), 0..12),
        policies in prop::collection::vec(0..4_u32, 3),
        bindings in prop::collection::vec(0..40_u32, 12),
    ) {
        let (world, names) = world(&nodes);
        let mut world = world.policies(f64::from(policies[0]), f64::from(policies[1]), f64::from(policies[2]));
        world.file.bindings = Some(names.iter().cloned().zip(bindings).collect());
        let found = scores(&world, &names);
        prop_assert_eq!(found.len(), names.len());
        for (score, points) in found {
            prop_assert!((0.0..=100.0).contains(&score) && points <= 10, "{} {}", score, points);
        }
    }
}
