//! What is kept over a restart, and what is refused.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::float_cmp,
    clippy::unreadable_literal,
    reason = "a test that fails this way says where; the figures stand as they were given"
)]

use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{
    Aggregate, Checkpoint, CheckpointError, Dropped, HalfLife, Model, Oom, Scan, Track, Usage, nanos_of,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn model(dynamic: &Value) -> Model {
    Model::from_policy(&from_spec("p", &json!({ "dynamic": dynamic })).unwrap().dynamic).unwrap()
}

fn seed() -> Model {
    model(&json!({"cpuSampleWeight": "0.1"}))
}

fn nanos(time: &str) -> i64 {
    nanos_of(time.parse().unwrap())
}

fn fed(model: &Model, samples: &[(i64, Usage)]) -> Aggregate {
    let (mut aggregate, mut track) = (Aggregate::default(), Track::default());
    for (at, usage) in samples {
        let scan = Scan::new(model, *at);
        aggregate.observe(&mut track, model, &scan, *usage, None, &mut Dropped::default());
    }
    aggregate
}

fn cpu(time: &str, cores: f64) -> (i64, Usage) {
    (nanos(time), Usage { cpu: Some(cores), ..Usage::default() })
}

fn a() -> Aggregate {
    fed(&seed(), &[cpu("2024-03-01T10:00:00Z", 0.1), cpu("2024-03-01T22:00:00Z", 0.5)])
}

fn saved(aggregate: &Aggregate) -> Checkpoint {
    Checkpoint::of(aggregate, &seed())
}

#[test]
fn a_the_stored_form() {
    let aggregate = a();
    let found = serde_json::to_value(saved(&aggregate)).unwrap();
    let total = aggregate.histogram(Resource::Cpu).unwrap().total();
    assert_eq!(
        found,
        json!({
            "version": 1,
            "samples": 2,
            "firstSample": "2024-03-01T10:00:00Z",
            "lastSample": "2024-03-01T22:00:00Z",
            "cpu": {
                "halfLifeSeconds": 86400,
                "reference": "2024-03-01T00:00:00Z",
                "totalWeight": format!("{total}"),
                "weights": "8:7071 25:10000",
            },
        })
    );
    assert!(total.to_string().starts_with("0.32225884795334"), "{total}");
}

#[test]
fn e_a_small_share_survives() {
    let mut samples = Vec::new();
    for (time, bytes, weight) in [("2024-03-01T00:00:00Z", 5e7, 1), ("2024-03-01T00:00:01Z", 5e8, 9999)] {
        for n in 0..weight {
            // One nanosecond apart: no decay.
            samples.push((nanos(time) + n, Usage { memory: Some(bytes), ..Usage::default() }));
        }
    }
    let aggregate = fed(&seed(), &samples);
    let loaded = saved(&aggregate).load(&seed()).unwrap();
    let found = loaded.percentile(&seed(), Resource::Memory, 90).unwrap();
    assert!((found - 511134537.589).abs() < 0.01, "{found}");
    let found = loaded.percentile(&seed(), Resource::Memory, 0).unwrap();
    assert!(found < 6e7, "the small share is still there: {found}");
}

#[test]
fn nothing_is_kept_of_nothing() {
    let empty = Aggregate::default();
    let checkpoint = saved(&empty);
    assert_eq!(serde_json::to_value(&checkpoint).unwrap(), json!({"version": 1, "samples": 0}));
    assert_eq!(checkpoint.load(&seed()), Ok(empty));
}

#[test]
fn what_cannot_be_is_refused_whole() {
    let good = serde_json::to_value(saved(&a())).unwrap();
    let rows = [
        ("unknown version", "/version", json!(2), "version 2 is not known"),
        ("no samples, but times", "/samples", json!(0), "samples: 0 samples, but"),
        ("samples without times", "/firstSample", Value::Null, "samples: 2 samples, but"),
        ("first after last", "/firstSample", json!("2024-03-02T00:00:00Z"), "firstSample: is later"),
        ("no time", "/lastSample", json!("yesterday"), "lastSample: \"yesterday\" is not a time"),
        ("a time of nowhere", "/lastSample", json!("9999-01-01T00:00:00Z"), "lastSample: \"9999"),
        (
            "a time too far",
            "/firstSample",
            json!("1800-01-01T00:00:00Z"),
            "firstSample: is more than 146 years",
        ),
        ("half-life 0", "/cpu/halfLifeSeconds", json!(0), "cpu.halfLifeSeconds: a half-life of 0 s"),
        (
            "negative half-life",
            "/cpu/halfLifeSeconds",
            json!(-86400),
            "cpu.halfLifeSeconds: a half-life of -86400 s",
        ),
        (
            "reference beside the grid",
            "/cpu/reference",
            json!("2024-03-01T00:00:01Z"),
            "cpu.reference: is not a whole",
        ),
        (
            "reference ahead",
            "/cpu/reference",
            json!("2024-03-05T00:00:00Z"),
            "cpu.reference: is later than any",
        ),
        ("negative total", "/cpu/totalWeight", json!("-0.3"), "cpu.totalWeight: \"-0.3\" is not a positive"),
        ("total 0", "/cpu/totalWeight", json!("0"), "cpu.totalWeight: \"0\""),
        ("total is no number", "/cpu/totalWeight", json!("NaN"), "cpu.totalWeight: \"NaN\""),
        ("infinite total", "/cpu/totalWeight", json!("inf"), "cpu.totalWeight: \"inf\""),
        ("no weights", "/cpu/weights", json!(""), "cpu.weights: \"\" is not BUCKET:WEIGHT"),
        (
            "bucket out of range",
            "/cpu/weights",
            json!("176:1"),
            "cpu.weights: bucket 176 is out of range; there are 176",
        ),
        ("run out of range", "/cpu/weights", json!("175:1,1"), "cpu.weights: bucket 176 is out of range"),
        ("huge bucket", "/cpu/weights", json!("65535:1,1"), "cpu.weights: bucket 65535 is out of range"),
        ("bucket is no number", "/cpu/weights", json!("-1:1"), "cpu.weights: \"-1\" is not a bucket"),
        ("weight 0", "/cpu/weights", json!("8:0"), "cpu.weights: \"0\" is not a weight"),
        ("weight too large", "/cpu/weights", json!("8:10001"), "cpu.weights: \"10001\" is not a weight"),
        ("signed weight", "/cpu/weights", json!("8:+1"), "cpu.weights: \"+1\" is not a weight"),
        ("falling buckets", "/cpu/weights", json!("8:1 7:1"), "cpu.weights: bucket 7 does not come after"),
        ("a bucket twice", "/cpu/weights", json!("8:1,2 9:1"), "cpu.weights: bucket 9 does not come after"),
    ];
    for (rule, pointer, value, message) in rows {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        let bad: Checkpoint = serde_json::from_value(bad).unwrap();
        let error = bad.load(&seed()).unwrap_err();
        assert!(error.to_string().starts_with(message), "{rule}: {error}");
        assert_eq!(matches!(error, CheckpointError::Version { .. }), rule == "unknown version");
    }
    let of_nobody: Checkpoint = serde_json::from_value(json!({"version": 1, "cpu": good["cpu"]})).unwrap();
    let error = of_nobody.load(&seed()).unwrap_err().to_string();
    assert_eq!(error, "cpu.weights: there are weights, but neither samples nor kills");
}

#[test]
fn another_half_life_may_be_in_force() {
    let samples = [
        cpu("2024-03-01T10:00:00Z", 0.1),
        cpu("2024-03-01T22:00:00Z", 0.5),
        cpu("2024-03-02T10:00:00Z", 0.25),
        cpu("2024-03-03T10:00:00Z", 1.0),
    ];
    let aggregate = fed(&seed(), &samples);
    let short = model(&json!({"halfLife": {"cpu": "6h"}}));
    let loaded = saved(&aggregate).load(&short).unwrap();
    let histogram = loaded.histogram(Resource::Cpu).unwrap();
    let six = HalfLife::from_seconds(6 * 3600).unwrap();
    // 10:00 lies between 6:00 and 12:00; 12:00 is nearer, 60 hours or 2.5 old half-lives after the old reference.
    assert_eq!(histogram.reference_time(six).unwrap().to_string(), "2024-03-03T12:00:00Z");
    let expected = 1.123162760455363 * 0.5_f64.powf(2.5);
    assert!((histogram.total() - expected).abs() < 1e-9 * expected, "{}", histogram.total());
    assert_eq!(
        loaded.percentile(&short, Resource::Cpu, 50),
        aggregate.percentile(&seed(), Resource::Cpu, 50),
        "no answer changes by it"
    );
}

#[test]
fn a_resumed_container_does_not_count_twice() {
    let model = seed();
    let start = nanos("2024-03-01T10:00:00Z");
    let samples = [cpu("2024-03-01T10:00:00Z", 0.1)];
    let mut aggregate = fed(&model, &samples);
    let kill = Oom { nanos: start, request: 1e8 };
    let dropped = &mut Dropped::default();
    assert!(aggregate.observe_oom(&mut Track::default(), &model, kill, None, dropped));
    let mut loaded = saved(&aggregate).load(&model).unwrap();
    let before = loaded.clone();
    let mut track = Track::resumed(&loaded);
    let scan = Scan::new(&model, start);
    assert!(!loaded.observe(&mut track, &model, &scan, samples[0].1, None, dropped));
    assert!(!loaded.observe_oom(&mut track, &model, kill, None, dropped));
    assert_eq!(*dropped, Dropped { duplicate: 2, ..Dropped::default() });
    assert_eq!(loaded, before);
    assert!(loaded.observe_oom(&mut track, &model, Oom { nanos: start + 1, request: 1e9 }, None, dropped));
}

fn usages() -> impl Strategy<Value = Vec<(i64, Usage)>> {
    let value = || prop::option::of(prop_oneof![0.0..2.0_f64, 0.0..2000.0_f64]);
    let step = prop_oneof![1..10_i64, 1..2000_i64];
    let sample = (step, value(), value(), value());
    prop::collection::vec(sample, 0..60).prop_map(|samples| {
        let mut at = nanos("2024-01-01T00:00:00Z");
        let usage = |(minutes, cpu, memory, cpu_request): (i64, _, Option<f64>, _)| {
            at += minutes * 60_000_000_123;
            (at, Usage { cpu, memory: memory.map(|m| m * 1e9), cpu_request })
        };
        samples.into_iter().map(usage).collect()
    })
}

proptest! {
    #[test]
    fn saving_what_was_loaded_changes_nothing(samples in usages(), dynamic in prop::sample::select(vec![
        json!({}), json!({"preset": "Tuned"}), json!({"halfLife": {"cpu": "7s", "memory": "1h"}}),
    ])) {
        let model = model(&dynamic);
        let aggregate = fed(&model, &samples);
        let once = Checkpoint::of(&aggregate, &model);
        let text = serde_json::to_string(&once).unwrap();
        let loaded = serde_json::from_str::<Checkpoint>(&text).unwrap().load(&model).unwrap();
        prop_assert_eq!(&Checkpoint::of(&loaded, &model), &once);
        for resource in [Resource::Cpu, Resource::Memory] {
            let (before, after) = (aggregate.histogram(resource).unwrap(), loaded.histogram(resource).unwrap());
            prop_assert_eq!(before.total(), after.total());
            // Every share below a bucket is what it was, within one part in 10000 of the largest weight.
            let (_, buckets) = model.of(resource).unwrap();
            let below = |histogram: &plimsoll_core::usage::Histogram, n: usize| {
                histogram.weights().filter(|(bucket, _)| *bucket < n).map(|(_, weight)| weight).sum::<f64>() / histogram.total()
            };
            for n in 0..buckets.count() {
                prop_assert!(before.is_empty() || (below(before, n) - below(after, n)).abs() <= 2e-4);
            }
        }
    }

    #[test]
    fn any_text_is_loaded_or_refused(
        total in "[0-9.e+-]{0,12}", weights in "[0-9:, ]{0,20}", half_life in any::<i64>(), reference in "2024-0[0-9]-01T0[0-9]:00:00Z",
    ) {
        let mut value = serde_json::to_value(saved(&a())).unwrap();
        value["cpu"] = json!({"halfLifeSeconds": half_life, "reference": reference, "totalWeight": total, "weights": weights});
        let checkpoint: Checkpoint = serde_json::from_value(value).unwrap();
        if let Ok(aggregate) = checkpoint.load(&seed()) {
            prop_assert!(aggregate.percentile(&seed(), Resource::Cpu, 95).unwrap().is_finite());
        }
    }
}
