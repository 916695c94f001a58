//! A model of everything that writes the ledger: API server, replicas, leaders, pods that come and go, in random order
//! and with every failure between two steps. Whatever happens, no node passes its maximum, and every promise ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that fails this way says where"
)]

mod world;

use world::{Fault, World};

const SEEDS: u64 = 60;
const STEPS: usize = 4_000;

fn run(seed: u64, fault: Option<Fault>) -> Result<World, String> {
    let mut world = World::new(seed, fault);
    for step in 0..STEPS {
        world.step();
        world.check().map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    Ok(world)
}

#[test]
fn no_node_passes_its_maximum_and_every_promise_ends() {
    let mut admitted = 0;
    for seed in 0..SEEDS {
        let mut world = run(seed, None).unwrap();
        admitted += world.admitted;
        world.settle().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(admitted > SEEDS * 20, "the model does nearly nothing: {admitted} pods admitted");
}

/// The model finds what it is there to find: each rule that is left out lets a node pass its maximum.
#[test]
fn every_rule_is_needed() {
    for fault in Fault::ALL {
        let found = (0..SEEDS * 8).find_map(|seed| run(seed, Some(fault)).err());
        assert!(found.is_some(), "{fault:?}: nothing was overshot");
    }
}
