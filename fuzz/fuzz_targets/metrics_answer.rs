//! Any bytes as an answer of metrics-server: never a panic, and what is delivered can be usage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recommender::sources::{Sample, Skipped};

// The readers live in the server's crate. They are taken alone, so that fuzzing need not build all of that.
#[allow(dead_code)]
#[path = "../../src/recommender/sources/metrics_server/answer.rs"]
mod answer;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/sample.rs"]
mod sample;
#[allow(dead_code)]
#[path = "../../src/recommender/sources/scalar.rs"]
mod scalar;

/// Where the server has them.
mod recommender {
    pub mod sources {
        pub use crate::sample::{Sample, Sink, Skipped};
        pub(crate) use crate::scalar;
    }
}

fuzz_target!(|body: &[u8]| {
    let (mut delivered, mut skipped) = (0, Skipped::default());
    let result = answer::read_pod_metrics(body, &mut skipped, &mut |sample: &Sample<'_>| {
        delivered += 1;
        assert!(![sample.namespace, sample.pod, sample.container].contains(&""));
        assert!(sample.cpu.is_some() || sample.memory.is_some());
        assert!(sample.cpu.into_iter().chain(sample.memory).all(|value| value.is_finite() && value >= 0.0));
    });
    match result {
        Ok(samples) => assert_eq!(samples, delivered),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
