//! Any bytes as a table of usage, packed or not: never a panic, errors name a place, and answers are numbers.
#![no_main]

// The reader lives in the server's crate. It is taken alone, so that fuzzing need not build all of that.
#[allow(dead_code, unused_imports)]
#[path = "../../src/usage/mod.rs"]
mod usage;

use libfuzzer_sys::fuzz_target;
use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Aggregate, Dropped, Model, Scan, Track};

fuzz_target!(|bytes: &[u8]| {
    let tuned = bytes.len() % 2 == 0;
    let spec = serde_json::json!({"dynamic": {"preset": if tuned { "Tuned" } else { "Seed" }}});
    let model = Model::from_policy(&from_spec("fuzz", &spec).unwrap().dynamic).unwrap();
    let mut rows = match usage::Rows::packed(bytes, "fuzz") {
        Ok(rows) => rows,
        Err(error) => return assert!(error.to_string().starts_with("fuzz: ")),
    };
    let (mut aggregate, mut track, mut dropped) =
        (Aggregate::default(), Track::default(), Dropped::default());
    for _ in 0..10_000 {
        match rows.next_row() {
            Ok(Some(row)) => {
                assert!(!row.series.is_empty() && row.line > 0);
                let scan = Scan::new(&model, row.nanos);
                aggregate.observe(&mut track, &model, &scan, row.usage, None, &mut dropped);
            }
            Ok(None) => break,
            Err(error) => {
                assert!(error.to_string().starts_with("fuzz: "));
                break;
            }
        }
    }
    for resource in [Resource::Cpu, Resource::Memory] {
        if let Some(estimate) = aggregate.estimate(&model, resource) {
            assert!(estimate.target.is_finite() && estimate.lower <= estimate.target);
        }
    }
});
