//! Which samples of a container are taken, what peaks and kills become, and what is recommended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::unreadable_literal,
    reason = "a test that fails this way says where; the figures stand as they were given"
)]

use plimsoll_core::profile::MemorySamples::{self, PeakPerInterval as Peak, PerScan};
use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::buckets::MEMORY;
use plimsoll_core::usage::{
    Aggregate, CpuWeight, DAY, Dropped, HalfLife, Model, Oom, SECOND, Scan, Track, Usage, nanos_of, request,
    stated,
};
use plimsoll_quantity::Quantity;
use proptest::prelude::*;
use serde_json::{Value, json};

const MIB: f64 = 1_048_576.0;
const MINUTE: i64 = 60 * SECOND;

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs()
}

fn nanos(time: &str) -> i64 {
    nanos_of(time.parse().unwrap())
}

fn model(dynamic: &Value) -> Model {
    Model::from_policy(&from_spec("p", &json!({ "dynamic": dynamic })).unwrap().dynamic).unwrap()
}

fn peaks() -> Model {
    model(&json!({"memorySamples": "PeakPerInterval"}))
}

/// A container and what feeds it.
struct Fed {
    model: Model,
    aggregate: Aggregate,
    track: Track,
    dropped: Dropped,
    now: Option<i64>,
}

impl Fed {
    fn new(model: Model) -> Self {
        let (aggregate, track) = (Aggregate::default(), Track::default());
        Self { model, aggregate, track, dropped: Dropped::default(), now: None }
    }

    fn observe(&mut self, at: i64, usage: Usage) -> bool {
        let scan = Scan::new(&self.model, at);
        let Self { model, aggregate, track, dropped, now } = self;
        aggregate.observe(track, model, &scan, usage, *now, dropped)
    }

    fn cpu(&mut self, at: i64, cores: f64) -> bool {
        self.observe(at, Usage { cpu: Some(cores), ..Usage::default() })
    }

    fn memory(&mut self, at: i64, bytes: f64) -> bool {
        self.observe(at, Usage { memory: Some(bytes), ..Usage::default() })
    }

    fn oom(&mut self, at: i64, request: f64) -> bool {
        let Self { model, aggregate, track, dropped, now } = self;
        aggregate.observe_oom(track, model, Oom { nanos: at, request }, *now, dropped)
    }

    fn percentile(&self, resource: Resource, percent: u32) -> f64 {
        self.aggregate.percentile(&self.model, resource, percent).unwrap()
    }

    fn weights(&self, resource: Resource) -> Vec<(usize, f64)> {
        self.aggregate.histogram(resource).unwrap().weights().collect()
    }
}

#[test]
fn i_a_sample_from_the_future() {
    let start = nanos("2024-03-01T00:00:00Z");
    let mut fed = Fed::new(model(&json!({"cpuSampleWeight": "0.1"})));
    for minute in 0..100 {
        fed.now = Some(start + minute * MINUTE);
        assert!(fed.cpu(start + minute * MINUTE, 0.5));
    }
    assert!(!fed.cpu(start + 20 * DAY, 8.0));
    assert_eq!(fed.dropped, Dropped { future: 1, ..Dropped::default() });
    assert!(close(fed.percentile(Resource::Cpu, 50), 0.511134537589));
    // Clocks differ a little.
    let now = fed.now.unwrap();
    assert!(fed.cpu(now + 10 * MINUTE, 0.5));
    assert!(!fed.cpu(now + 10 * MINUTE + 1, 0.5));
    assert!(!fed.oom(now + 10 * MINUTE + 1, 1.0));
    assert_eq!(fed.dropped.future, 3);
    assert_eq!(fed.aggregate.samples(), 101);
}

#[test]
fn n_memory_peak_windows_and_oom() {
    let mut fed = Fed::new(peaks());
    let at = |hour: i64| nanos("2024-03-01T00:00:00Z") + hour * 60 * MINUTE;
    for (hour, mib) in [(10, 100.0), (15, 150.0), (20, 120.0)] {
        assert!(fed.memory(at(hour), mib * MIB));
    }
    assert!(fed.oom(at(21), 128.0 * MIB));
    assert!(fed.memory(at(22), 200.0 * MIB));
    assert!(fed.oom(at(23), 128.0 * MIB));
    assert!(fed.memory(at(34), 90.0 * MIB));

    let memory = fed.aggregate.histogram(Resource::Memory).unwrap();
    assert_eq!(memory.reference_time(HalfLife::DAY).unwrap().to_string(), "2024-03-02T00:00:00Z");
    let weights: Vec<_> = memory.weights().collect();
    assert_eq!((weights.len(), weights[0].0, weights[1].0), (2, 7, 17), "{weights:?}");
    assert!(close(weights[1].1, 1.33483985417003) && close(weights[0].1, 2.66967970834007), "{weights:?}");
    assert!(close(fed.percentile(Resource::Memory, 50), 95491088.7578));
    for percent in [90, 95, 99, 100] {
        assert!(close(fed.percentile(Resource::Memory, percent), 281323846.738));
    }
    assert_eq!(fed.dropped, Dropped::default());
}

#[test]
fn oom_bumps() {
    for (used, needed) in [(1.0, 101.0), (100.0, 200.0), (500.0, 600.0), (501.0, 601.2), (1000.0, 1200.0)] {
        for samples in [MemorySamples::PerScan, MemorySamples::PeakPerInterval] {
            // By the request, by what was used, and by the larger of the two.
            for (request, usage) in [(used, None), (0.0, Some(used)), (used, Some(0.5)), (0.5, Some(used))] {
                let mut fed = Fed::new(Model { memory_samples: samples, ..peaks() });
                if let Some(usage) = usage {
                    assert!(fed.memory(DAY, usage * MIB));
                }
                assert!(fed.oom(DAY + MINUTE, request * MIB));
                let found = fed.percentile(Resource::Memory, 100);
                let expected = MEMORY.end(MEMORY.find(needed * MIB));
                assert!(close(found, expected), "{used} MiB, {samples:?}: {found}, not {expected}");
            }
        }
    }
}

/// Rule, samples in MiB (m) and kills with their request (k) by hour, and the buckets that hold weight then.
type Row = (&'static str, MemorySamples, &'static [(i64, char, f64)], Vec<usize>);

#[test]
fn kills_are_never_lost() {
    let bytes = |mib: f64| MEMORY.find(mib * MIB);
    let rows: Vec<Row> = vec![
        ("first of all, a kill", Peak, &[(0, 'k', 100.0)], vec![bytes(200.0)]),
        (
            "a kill that is read after a later sample",
            Peak,
            &[(0, 'm', 40.0), (2, 'm', 50.0), (1, 'k', 100.0)],
            vec![bytes(200.0)],
        ),
        (
            "a kill before the first sample has a window of its own",
            Peak,
            &[(2, 'm', 50.0), (1, 'k', 100.0)],
            vec![bytes(50.0), bytes(200.0)],
        ),
        (
            "a kill of the last window that is read in the next",
            Peak,
            &[(0, 'm', 150.0), (24, 'm', 50.0), (23, 'k', 100.0)],
            vec![bytes(50.0), bytes(250.0)],
        ),
        (
            "a kill of long ago",
            Peak,
            &[(0, 'm', 150.0), (48, 'm', 50.0), (-30, 'k', 400.0)],
            vec![bytes(50.0), bytes(150.0), bytes(500.0)],
        ),
        (
            "the same kill read again",
            Peak,
            &[(0, 'k', 100.0), (1, 'm', 150.0), (0, 'k', 100.0)],
            vec![bytes(200.0)],
        ),
        (
            "kills do not compound",
            Peak,
            &[(0, 'm', 100.0), (1, 'k', 0.0), (2, 'k', 0.0), (3, 'k', 0.0)],
            vec![bytes(200.0)],
        ),
        (
            "a larger sample, then a kill",
            Peak,
            &[(0, 'm', 100.0), (1, 'k', 0.0), (2, 'm', 300.0), (3, 'k', 0.0)],
            vec![bytes(400.0)],
        ),
        (
            "each scan counts, and one kill",
            PerScan,
            &[(0, 'm', 100.0), (1, 'k', 0.0), (2, 'k', 0.0), (3, 'm', 150.0), (4, 'k', 0.0)],
            vec![bytes(100.0), bytes(150.0), bytes(200.0)],
        ),
        (
            "a higher kill takes the place of the lower",
            PerScan,
            &[(0, 'm', 100.0), (1, 'k', 0.0), (2, 'k', 300.0)],
            vec![bytes(100.0), bytes(400.0)],
        ),
        (
            "a sample that an earlier kill hides is no base for the next",
            PerScan,
            &[(0, 'm', 100.0), (1, 'k', 0.0), (2, 'm', 180.0), (3, 'k', 0.0)],
            vec![bytes(100.0), bytes(180.0), bytes(200.0)],
        ),
        (
            "the next day's kill is another",
            PerScan,
            &[(0, 'k', 100.0), (24, 'k', 100.0), (48, 'k', 200.0)],
            vec![bytes(200.0), bytes(300.0)],
        ),
    ];
    for (rule, memory_samples, events, expected) in rows {
        let mut fed = Fed::new(Model { memory_samples, ..peaks() });
        for (hour, kind, mib) in events {
            let at = nanos("2024-03-01T10:00:00Z") + hour * 60 * MINUTE;
            if *kind == 'm' {
                assert!(fed.memory(at, mib * MIB), "{rule}");
            } else {
                fed.oom(at, mib * MIB);
            }
        }
        let found: Vec<_> = fed.weights(Resource::Memory).iter().map(|(bucket, _)| *bucket).collect();
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn a_kill_is_seen_among_a_days_scans() {
    let mut fed = Fed::new(model(&json!({})));
    for minute in 0..1440 {
        assert!(fed.memory(minute * MINUTE, 100.0 * MIB));
    }
    assert!(close(fed.percentile(Resource::Memory, 99), MEMORY.end(MEMORY.find(100.0 * MIB))));
    assert!(fed.oom(1439 * MINUTE, 0.0));
    assert!(close(fed.percentile(Resource::Memory, 99), MEMORY.end(MEMORY.find(200.0 * MIB))));
    assert!(close(fed.percentile(Resource::Memory, 50), MEMORY.end(MEMORY.find(200.0 * MIB))));
}

#[test]
fn what_is_not_taken_is_counted() {
    let (cpu, memory) = (Some(0.5), Some(1e8));
    let none = Dropped::default();
    let rows = [
        ("nothing measured", 60, None, None, false, none),
        ("both", 60, cpu, memory, true, none),
        ("the first of one time counts", 0, cpu, memory, false, Dropped { duplicate: 1, ..none }),
        ("earlier than the last", -1, cpu, memory, false, Dropped { old: 1, ..none }),
        ("negative", 60, Some(-0.1), None, false, Dropped { invalid: 1, ..none }),
        ("not a number", 60, Some(f64::NAN), Some(f64::NAN), false, Dropped { invalid: 1, ..none }),
        ("infinite memory, but CPU", 60, cpu, Some(f64::INFINITY), true, Dropped { invalid: 1, ..none }),
        ("two reasons", 0, Some(f64::NAN), memory, false, Dropped { invalid: 1, duplicate: 1, ..none }),
    ];
    for (rule, seconds, cpu, memory, taken, dropped) in rows {
        let mut fed = Fed::new(model(&json!({})));
        assert!(fed.observe(DAY, Usage { cpu: Some(0.1), memory: Some(1e7), cpu_request: None }));
        let found = fed.observe(DAY + seconds * SECOND, Usage { cpu, memory, cpu_request: None });
        assert_eq!((found, fed.dropped), (taken, dropped), "{rule}");
        assert_eq!(fed.aggregate.samples(), 1 + u64::from(taken), "{rule}");
        let last = DAY + if taken { seconds * SECOND } else { 0 };
        assert_eq!(
            (fed.aggregate.first_sample(), fed.aggregate.last_sample()),
            (Some(DAY), Some(last)),
            "{rule}"
        );
    }

    let mut fed = Fed::new(model(&json!({})));
    assert!(!fed.cpu(i64::MIN, 0.5) && !fed.cpu(i64::MAX, 0.5));
    assert_eq!(fed.dropped.invalid, 2, "nonsense times");
    assert!(fed.cpu(DAY, 0.5) && fed.memory(DAY, 1e8), "one time for each resource");
    // Two containers of a workload, one of them with a clock of long ago.
    let Fed { model, aggregate, dropped, .. } = &mut fed;
    let usage = Usage { cpu: Some(0.5), ..Usage::default() };
    let long_ago = Scan::new(model, DAY - 102 * DAY);
    assert!(!aggregate.observe(&mut Track::default(), model, &long_ago, usage, None, dropped));
    assert_eq!(dropped.old, 1, "weighs nothing any more");
}

#[test]
fn cpu_weighs_by_request() {
    for (rule, weight, request, expected) in [
        ("by request", CpuWeight::Request, Some(2.0), 2.0),
        ("at least 0.1", CpuWeight::Request, Some(0.01), 0.1),
        ("none", CpuWeight::Request, None, 0.1),
        ("nonsense", CpuWeight::Request, Some(f64::NAN), 0.1),
        ("negative", CpuWeight::Request, Some(-1.0), 0.1),
        ("constant", CpuWeight::Fixed(0.3), Some(2.0), 0.3),
    ] {
        let mut fed = Fed::new(Model { cpu_weight: weight, ..model(&json!({})) });
        let usage = Usage { cpu: Some(0.5), memory: Some(1e8), cpu_request: request };
        assert!(fed.observe(nanos("2024-03-01T00:00:00Z"), usage), "{rule}");
        assert_eq!(fed.weights(Resource::Cpu), [(25, expected)], "{rule}");
        assert_eq!(fed.weights(Resource::Memory)[0].1, 1.0, "{rule}");
    }
}

#[test]
fn the_model_is_the_profiles() {
    let seed = model(&json!({}));
    assert_eq!((seed.cpu.percentile, seed.memory.percentile), (95, 99));
    assert_eq!((seed.cpu.half_life, seed.memory.half_life), (HalfLife::DAY, HalfLife::DAY));
    assert_eq!((seed.cpu_weight, seed.memory_samples), (CpuWeight::Request, MemorySamples::PerScan));
    let own =
        model(&json!({"cpuSampleWeight": "0.25", "halfLife": {"memory": "168h"}, "percentile": {"cpu": 90}}));
    assert_eq!((own.cpu_weight, own.cpu.percentile), (CpuWeight::Fixed(0.25), 90));
    assert_eq!((own.cpu.half_life.seconds(), own.memory.half_life.seconds()), (86_400, 604_800));
    let endless = from_spec("p", &json!({"dynamic": {"halfLife": {"memory": "1000000d"}}})).unwrap();
    let error = Model::from_policy(&endless.dynamic).unwrap_err().to_string();
    assert!(error.starts_with("spec.dynamic.halfLife.memory: a half-life of 86400000000 s"), "{error}");
}

#[test]
fn estimates_widen_with_little_history() {
    let mut fed = Fed::new(model(&json!({"cpuSampleWeight": "0.1"})));
    assert_eq!(fed.aggregate.estimate(&fed.model, Resource::Cpu), None, "nothing measured");
    for minute in 0..60 {
        fed.cpu(minute * MINUTE, 0.5);
    }
    let half = 0.5111345375890346;
    let estimate = |fed: &Fed| fed.aggregate.estimate(&fed.model, Resource::Cpu).unwrap();
    assert_eq!(estimate(&fed).upper, None, "59 minutes");
    assert!(close(estimate(&fed).lower, half) && close(estimate(&fed).target, half));
    fed.cpu(60 * MINUTE, 0.5);
    assert!(close(estimate(&fed).upper.unwrap(), half * 25.0), "an hour: times 25");
    for minute in 61..=2880 {
        fed.cpu(minute * MINUTE, 0.5);
    }
    assert!(close(estimate(&fed).upper.unwrap(), half * 1.5), "two days");
    assert_eq!(fed.aggregate.estimate(&fed.model, Resource::Memory), None);
    assert_eq!(fed.aggregate.estimate(&fed.model, Resource::EphemeralStorage), None);
}

#[test]
fn requests_from_targets() {
    let own = json!({"expansion": {"cpu": "2"}, "margin": {"cpu": "50m"}});
    let rows = [
        ("times expansion, up to milli", json!({}), Resource::Cpu, 1.01628138855, None, "1169m"),
        ("up to Mi", json!({}), Resource::Memory, 68019128.125, None, "75Mi"),
        ("not above the original", json!({}), Resource::Cpu, 1.9, Some("2"), "2"),
        ("below the original", json!({}), Resource::Cpu, 0.8, Some("2"), "920m"),
        ("at least the minimum", json!({}), Resource::Cpu, 0.001, None, "10m"),
        ("the original is below the minimum", json!({}), Resource::Cpu, 0.001, Some("5m"), "5m"),
        ("rounding would pass the original", json!({}), Resource::Memory, 1e6, Some("800Ki"), "800Ki"),
        ("margin after expansion", own.clone(), Resource::Cpu, 0.2, None, "450m"),
        (
            "a bucket's end is not lifted by its binary digits",
            own,
            Resource::Cpu,
            0.020500000000000004,
            None,
            "91m",
        ),
    ];
    for (rule, dynamic, resource, target, original, expected) in rows {
        let profile = from_spec("p", &json!({ "dynamic": dynamic })).unwrap();
        let original = original.map(|text| Quantity::parse(text).unwrap());
        let found = request(&profile, resource, target, original.as_ref()).unwrap();
        assert_eq!(found.to_string(), expected, "{rule}");
    }
    let profile = from_spec("p", &json!({})).unwrap();
    for nonsense in [f64::NAN, -1.0, f64::INFINITY, 1e300] {
        assert_eq!(request(&profile, Resource::Cpu, nonsense, None), None);
    }
    assert_eq!(stated(Resource::Cpu, 1.01628138855).unwrap().to_string(), "1017m");
    assert_eq!(stated(Resource::Memory, 68019128.125).unwrap().to_string(), "68019129");
}

/// What [`MemorySamples::PeakPerInterval`] means, said with lists.
fn peaks_of(samples: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let mut windows: Vec<(i64, f64)> = Vec::new();
    for (at, bytes) in samples {
        match windows.last_mut() {
            Some((end, peak)) if at < end => *peak = peak.max(*bytes),
            Some((end, _)) => {
                let mut next = *end;
                while next <= *at {
                    next += DAY;
                }
                windows.push((next, *bytes));
            }
            None => windows.push((at + DAY, *bytes)),
        }
    }
    windows
}

proptest! {
    #[test]
    fn each_window_leaves_its_peak(
        steps in prop::collection::vec((1..5000_i64, 0.0..1e10_f64), 1..80),
    ) {
        let mut at = 0;
        let samples: Vec<_> = steps.iter().map(|(minutes, bytes)| { at += minutes * MINUTE; (at, *bytes) }).collect();
        let mut fed = Fed::new(peaks());
        for (at, bytes) in &samples {
            prop_assert!(fed.memory(*at, *bytes));
        }
        let mut expected = vec![0.0; MEMORY.count()];
        let windows = peaks_of(&samples);
        let newest = windows.last().unwrap().0;
        for (end, peak) in windows {
            expected[MEMORY.find(peak)] += 0.5_f64.powf((newest - end) as f64 / DAY as f64);
        }
        let memory = fed.aggregate.histogram(Resource::Memory).unwrap();
        let unit = memory.total() / expected.iter().sum::<f64>();
        for (bucket, weight) in memory.weights() {
            let apart = (weight - expected[bucket] * unit).abs();
            prop_assert!(apart <= 1e-9 * memory.total(), "{bucket}: {weight} {}", expected[bucket] * unit);
        }
    }

    #[test]
    fn nothing_does_harm(
        events in prop::collection::vec(
            (any::<bool>(), any::<i64>(), prop::option::of(any::<f64>()), prop::option::of(any::<f64>()), any::<f64>()),
            0..30,
        ),
        per_scan in any::<bool>(), now in prop::option::of(any::<i64>()),
    ) {
        let memory_samples = if per_scan { MemorySamples::PerScan } else { MemorySamples::PeakPerInterval };
        let mut fed = Fed::new(Model { memory_samples, ..peaks() });
        fed.now = now;
        for (kill, at, cpu, memory, request) in events {
            if kill {
                fed.oom(at, request);
            } else {
                fed.observe(at, Usage { cpu, memory, cpu_request: Some(request) });
            }
        }
        for resource in [Resource::Cpu, Resource::Memory] {
            if let Some(estimate) = fed.aggregate.estimate(&fed.model, resource) {
                prop_assert!(estimate.target.is_finite() && estimate.lower.is_finite());
                prop_assert!(estimate.upper.is_none_or(f64::is_finite));
            }
        }
    }
}
