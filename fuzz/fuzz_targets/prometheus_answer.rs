//! Any bytes as an answer of Prometheus, joined with itself: never a panic, and what is delivered can be usage, with
//! times that rise.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use recommender::sources::{Sample, Skipped};

// The readers live in the server's crate. They are taken alone, so that fuzzing need not build all of that.
#[allow(dead_code)]
#[path = "../../src/recommender/sources/prometheus/answer.rs"]
mod answer;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/prometheus/containers.rs"]
mod containers;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/sample.rs"]
mod sample;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/scalar.rs"]
mod scalar;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/prometheus/table.rs"]
mod table;

/// Where the server has them.
mod recommender {
    pub mod sources {
        pub use crate::sample::{Sample, Sink, Skipped};
        pub(crate) use crate::scalar;
    }
}

/// Reads an answer into a table.
fn read(
    body: &[u8],
    labels: &containers::Labels,
    table: &mut table::Table,
    skipped: &mut Skipped,
) -> Result<answer::Answer, serde_json::Error> {
    answer::read(body, &mut containers::Containers { labels, table, skipped, points: 0 })
}

fuzz_target!(|body: &[u8]| {
    let (mut cpu, mut memory) = (table::Table::default(), table::Table::default());
    let (mut skipped, labels) = (Skipped::default(), containers::Labels::default());
    match read(body, &labels, &mut cpu, &mut skipped) {
        Ok(answer) => assert!(answer.warnings.len() <= 5),
        Err(error) => return assert!(!error.to_string().is_empty()),
    }
    // The second half of the series is missing there.
    let _ = read(&body[..body.len() / 2], &labels, &mut memory, &mut skipped);
    let (mut delivered, mut last) = (0, HashMap::new());
    let samples = table::join(&cpu, &memory, &mut skipped, &mut |sample: &Sample<'_>| {
        delivered += 1;
        let name = [sample.namespace, sample.pod, sample.container].map(str::to_owned);
        assert!(!name.contains(&String::new()));
        let before = last.insert(name, sample.nanos);
        assert!(before.is_none_or(|before| before < sample.nanos));
        assert!(sample.cpu.is_some() || sample.memory.is_some());
        assert!(sample.cpu.into_iter().chain(sample.memory).all(|value| value.is_finite() && value >= 0.0));
    });
    assert_eq!(samples, delivered);
});
