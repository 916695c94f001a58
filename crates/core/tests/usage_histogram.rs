//! Buckets and histograms: the figures that hold, and what holds for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::unreadable_literal,
    clippy::excessive_precision,
    reason = "a test that fails this way says where; the figures stand as they were given"
)]

use plimsoll_core::usage::buckets::{CPU, MEMORY};
use plimsoll_core::usage::{Buckets, EPSILON, HalfLife, Histogram, Moment, Refused, nanos_of};
use proptest::prelude::*;

const MIB: f64 = 1_048_576.0;

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1e-300)
}

fn hours(n: i64) -> HalfLife {
    HalfLife::from_seconds(n * 3600).unwrap()
}

fn nanos(time: &str) -> i64 {
    nanos_of(time.parse().unwrap())
}

fn at(time: &str, half_life: HalfLife) -> Moment {
    Moment::new(nanos(time), half_life)
}

fn cpu(samples: &[(&str, f64)], half_life: HalfLife) -> Histogram {
    let mut histogram = Histogram::new();
    for (time, value) in samples {
        histogram.add(&CPU, *value, 0.1, at(time, half_life)).unwrap();
    }
    histogram
}

#[track_caller]
fn assert_percentiles(histogram: &Histogram, buckets: &Buckets, rows: &[(&[u32], f64)]) {
    for (percents, expected) in rows {
        for percent in *percents {
            let found = histogram.percentile(buckets, f64::from(*percent) / 100.0, EPSILON).unwrap();
            assert!(close(found, *expected), "P{percent}: {found}, not {expected}");
        }
    }
}

#[track_caller]
fn assert_weights(histogram: &Histogram, expected: &[(usize, f64)]) {
    let found: Vec<_> = histogram.weights().collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.0 == expected.0 && close(found.1, expected.1), "{found:?}, not {expected:?}");
    }
}

#[track_caller]
fn assert_reference(histogram: &Histogram, half_life: HalfLife, expected: &str) {
    let found = histogram.reference_time(half_life).unwrap();
    assert_eq!(found.to_string(), expected);
}

#[test]
fn v0_bucket_starts() {
    let rows = [
        (0, 0.0),
        (1, 0.01),
        (2, 0.0205),
        (3, 0.031525),
        (4, 0.04310125),
        (5, 0.0552563125),
        (10, 0.125778925355),
        (20, 0.330659541029),
        (50, 2.09347995715),
        (75, 7.56653718475),
        (100, 26.1002515693),
        (125, 88.8619868485),
        (150, 301.395499211),
        (170, 800.022645937),
        (174, 972.475627528),
        (175, 1021.10940890),
    ];
    for (bucket, start) in rows {
        assert!(close(CPU.start(bucket), start), "CPU {bucket}: {}", CPU.start(bucket));
        let bytes = MEMORY.start(bucket);
        assert!(close(bytes, start * 1e9), "memory {bucket}: {bytes}");
    }
    assert_eq!((CPU.count(), MEMORY.count()), (176, 176));
}

#[test]
fn v1_cpu_values_and_their_answers() {
    let rows: [(&[f64], usize, f64); 13] = [
        (&[0.0, 0.001, 0.009], 0, 0.01),
        (&[0.01, 0.011, 0.02], 1, 0.0205),
        (&[0.021], 2, 0.031525),
        (&[0.05], 4, 0.0552563125),
        (&[0.1], 8, 0.110265643196),
        (&[0.25], 16, 0.25840366356),
        (&[0.5], 25, 0.511134537589),
        (&[1.0], 36, 1.01628138855),
        (&[2.0], 49, 2.09347995715),
        (&[4.0], 62, 4.12469851414),
        (&[16.0], 90, 16.7533766603),
        (&[64.0], 118, 66.2594258414),
        (&[999.0, 1000.0, 1021.0], 174, 1021.1094089),
    ];
    for (values, bucket, end) in rows {
        for value in values {
            assert_eq!(CPU.find(*value), bucket, "{value}");
            assert!(close(CPU.end(bucket), end), "{bucket}: {}", CPU.end(bucket));
        }
    }
    for value in [1022.0, 5000.0, f64::MAX] {
        assert_eq!(CPU.find(value), 175, "{value}");
    }
    assert!(close(CPU.end(175), 1021.1094089));
}

#[test]
fn v2_memory_values() {
    let rows: [(&[f64], usize, f64); 7] = [
        (&[0.0, 9_999_999.0], 0, 1e7),
        (&[1e7, 20_499_999.0], 1, 2.05e7),
        (&[31_524_999.0], 2, 3.1525e7),
        (&[64.0 * MIB], 5, 68019128.125),
        (&[256.0 * MIB], 17, 281323846.738),
        (&[1024.0 * MIB], 37, 1077095457.982),
        (&[4096.0 * MIB], 63, 4340933439.844),
    ];
    for (values, bucket, end) in rows {
        for value in values {
            assert_eq!(MEMORY.find(*value), bucket, "{value}");
            assert!(close(MEMORY.end(bucket), end), "{bucket}: {}", MEMORY.end(bucket));
        }
    }
    for value in [1_048_576.0 * MIB, 2e12] {
        assert_eq!(MEMORY.find(value), 175, "{value}");
    }
}

#[test]
fn values_beside_a_boundary_are_found_on_their_side() {
    for (buckets, step) in [(&*CPU, 0.001), (&*MEMORY, 3.0)] {
        for bucket in 1..buckets.count() {
            let start = buckets.start(bucket);
            assert_eq!(buckets.find(start - step), bucket - 1, "below {start}");
            assert_eq!(buckets.find(start + step), bucket, "above {start}");
        }
    }
}

#[test]
fn v_linear_and_exponential_buckets_in_general() {
    let buckets = Buckets::exponential(40.0, 1.5, 500.0).unwrap();
    let starts: Vec<_> = (0..buckets.count()).map(|n| buckets.start(n)).collect();
    assert_eq!(starts, [0.0, 40.0, 100.0, 190.0, 325.0, 527.5]);

    let linear = Buckets::linear(10.0, 1.0).unwrap();
    assert_eq!(linear.count(), 11);
    let hour = hours(1);
    let steps = [(1.0, 0), (2.0, 1), (3.0, 2), (4.0, 3)];
    let mut same_time = Histogram::new();
    let mut decaying = Histogram::new();
    for (value, hour_of_sample) in steps {
        let (now, start) = (nanos("2024-03-01T00:00:00Z"), Moment::new(0, hour));
        same_time.add(&linear, value, value, start).unwrap();
        let later = Moment::new(now + hour_of_sample * 3_600_000_000_000, hour);
        decaying.add(&linear, value, value, later).unwrap();
    }
    assert_percentiles(
        &same_time,
        &linear,
        &[(&[0, 10], 2.0), (&[20, 30], 3.0), (&[40, 50, 60], 4.0), (&[70, 80, 90, 100], 5.0)],
    );
    assert_percentiles(
        &decaying,
        &linear,
        &[(&[0, 2], 2.0), (&[3, 10], 3.0), (&[11, 34], 4.0), (&[35, 100], 5.0)],
    );
}

#[test]
fn schemes_that_make_no_sense_are_refused() {
    for (rule, first, ratio, most) in [
        ("ratio 1", 1.0, 1.0, 10.0),
        ("ratio below 1", 1.0, 0.5, 10.0),
        ("no first bucket", 0.0, 1.05, 10.0),
        ("negative", -1.0, 1.05, 10.0),
        ("not a number", f64::NAN, 1.05, 10.0),
        ("infinite", 1.0, 1.05, f64::INFINITY),
        ("no range", 1.0, 1.05, 0.0),
        ("too many buckets", 1e-300, 1.001, 1e300),
    ] {
        assert_eq!(Buckets::exponential(first, ratio, most), None, "{rule}");
    }
    for (rule, most, size) in
        [("no size", 10.0, 0.0), ("not a number", f64::NAN, 1.0), ("too many buckets", 1e9, 1.0)]
    {
        assert_eq!(Buckets::linear(most, size), None, "{rule}");
    }
}

const A: [(&str, f64); 4] = [
    ("2024-03-01T10:00:00Z", 0.1),
    ("2024-03-01T22:00:00Z", 0.5),
    ("2024-03-02T10:00:00Z", 0.25),
    ("2024-03-03T10:00:00Z", 1.0),
];

#[test]
fn a_basic_decay() {
    let one = cpu(&A[..1], HalfLife::DAY);
    assert_reference(&one, HalfLife::DAY, "2024-03-01T00:00:00Z");
    assert_weights(&one, &[(8, 0.133483985417003)]);

    let two = cpu(&A[..2], HalfLife::DAY);
    assert!(close(two.total(), 0.322258847953342), "{}", two.total());
    assert_percentiles(&two, &CPU, &[(&[0], 0.110265643196), (&[50, 75, 90, 99, 100], 0.511134537589)]);

    let three = cpu(&A[..3], HalfLife::DAY);
    assert!(close(three.total(), 0.589226818787349), "{}", three.total());
    assert_percentiles(&three, &CPU, &[(&[50], 0.25840366356), (&[90, 95, 100], 0.511134537589)]);

    let four = cpu(&A, HalfLife::DAY);
    assert_weights(
        &four,
        &[(8, 0.133483985417003), (16, 0.266967970834007), (25, 0.188774862536339), (36, 0.533935941668014)],
    );
    assert!(close(four.total(), 1.123162760455363), "{}", four.total());
    assert_percentiles(
        &four,
        &CPU,
        &[(&[0], 0.110265643196), (&[50], 0.511134537589), (&[90, 95, 98, 99, 100], 1.01628138855)],
    );
}

#[test]
fn b_reference_of_the_first_sample() {
    for (time, half_life, reference, total) in [
        ("2024-03-01T11:59:59.999999999Z", 24, "2024-03-01T00:00:00Z", 0.141421356237308),
        ("2024-03-01T12:00:00Z", 24, "2024-03-02T00:00:00Z", 0.0707106781186548),
        ("1969-12-31T12:00:00Z", 24, "1970-01-01T00:00:00Z", 0.0707106781186548),
        ("2024-03-01T10:00:00Z", 1, "2024-03-01T10:00:00Z", 0.1),
        ("2024-03-01T10:00:00Z", 36, "2024-03-01T00:00:00Z", 0.121232606681354),
        ("2024-03-01T10:00:00Z", 168, "2024-03-04T00:00:00Z", 0.0774293470320202),
    ] {
        let histogram = cpu(&[(time, 1.0)], hours(half_life));
        assert_reference(&histogram, hours(half_life), reference);
        assert!(close(histogram.total(), total), "{time}, {half_life} h: {}", histogram.total());
    }
}

#[test]
fn c_the_reference_moves_after_100_half_lives() {
    let first = ("2024-03-01T10:00:00Z", 2.0);
    let still = cpu(&[first, ("2024-06-09T00:00:00Z", 1.0)], HalfLife::DAY);
    assert_reference(&still, HalfLife::DAY, "2024-03-01T00:00:00Z");
    assert_weights(&still, &[(36, 1.26765060022823e29), (49, 0.133483985417003)]);

    let moved = cpu(&[first, ("2024-06-09T00:00:00.000000001Z", 1.0)], HalfLife::DAY);
    assert_reference(&moved, HalfLife::DAY, "2024-06-09T00:00:00Z");
    assert_weights(&moved, &[(36, 0.1), (49, 0.133483985417003 / 2_f64.powi(100))]);
    assert_percentiles(&moved, &CPU, &[(&[0, 50, 100], 1.01628138855)]);
}

#[test]
fn f_merge_with_different_references() {
    let mut first = cpu(&[("2024-03-01T10:00:00Z", 0.1)], HalfLife::DAY);
    let mut second = cpu(&[("2024-03-05T10:00:00Z", 0.5)], HalfLife::DAY);
    let untouched = second.clone();
    let earlier = first.clone();
    first.merge(&second);
    assert_eq!(second, untouched);
    second.merge(&earlier);
    for merged in [&first, &second] {
        assert_reference(merged, HalfLife::DAY, "2024-03-05T00:00:00Z");
        assert_weights(merged, &[(8, 0.00834274908856271), (25, 0.133483985417003)]);
        assert!(close(merged.total(), 0.141826734505566), "{}", merged.total());
    }
    let mut empty = Histogram::new();
    empty.merge(&Histogram::new());
    assert!(empty.is_empty());
    empty.merge(&untouched);
    assert_eq!(empty, untouched);
}

#[test]
fn what_cannot_be_added_changes_nothing() {
    let start = [("2024-06-09T00:00:00Z", 1.0)];
    for (rule, time, value, weight, why) in [
        ("negative", "2024-06-09T01:00:00Z", -0.1, 1.0, Refused::Invalid),
        ("not a number", "2024-06-09T01:00:00Z", f64::NAN, 1.0, Refused::Invalid),
        ("infinite", "2024-06-09T01:00:00Z", f64::INFINITY, 1.0, Refused::Invalid),
        ("no weight", "2024-06-09T01:00:00Z", 1.0, 0.0, Refused::Invalid),
        ("negative weight", "2024-06-09T01:00:00Z", 1.0, -1.0, Refused::Invalid),
        ("infinite weight", "2024-06-09T01:00:00Z", 1.0, f64::INFINITY, Refused::Invalid),
        ("weight is no number", "2024-06-09T01:00:00Z", 1.0, f64::NAN, Refused::Invalid),
        ("too old", "2024-02-29T23:59:59.999999999Z", 1.0, 1.0, Refused::TooOld),
    ] {
        let mut histogram = cpu(&start, HalfLife::DAY);
        let before = histogram.clone();
        let moment = at(time, HalfLife::DAY);
        assert_eq!(histogram.add(&CPU, value, weight, moment), Err(why), "{rule}");
        assert_eq!(histogram.subtract(&CPU, value, weight, moment), Err(why), "{rule}");
        assert_eq!(histogram, before, "{rule}");
    }
    let mut histogram = cpu(&start, HalfLife::DAY);
    assert_eq!(histogram.add(&CPU, 1.0, 1.0, at("2024-03-01T00:00:00Z", HalfLife::DAY)), Ok(()));
}

#[test]
fn the_half_life_can_change() {
    let mut histogram = cpu(&A, HalfLife::DAY);
    let before = histogram.clone();
    histogram.change_half_life(HalfLife::DAY, HalfLife::DAY, nanos(A[3].0));
    assert_eq!(histogram, before);
    // The last sample, 03-03T10:00Z, is nearest to 03-03T12:00Z on the grid of 6 h: 60 h after the old reference.
    let six = hours(6);
    histogram.change_half_life(HalfLife::DAY, six, nanos(A[3].0));
    assert_reference(&histogram, six, "2024-03-03T12:00:00Z");
    assert!(close(histogram.total(), before.total() * 0.5_f64.powf(2.5)), "{}", histogram.total());
    // A sample six hours after the reference counts twice from now on.
    histogram.add(&CPU, 16.0, 0.1, at("2024-03-03T18:00:00Z", six)).unwrap();
    assert!(histogram.weights().any(|(bucket, weight)| bucket == 90 && close(weight, 0.2)));
}

#[test]
fn half_lives_are_within_reason() {
    for seconds in [i64::MIN, -1, 0, 3_162_240_001, i64::MAX] {
        assert!(HalfLife::from_seconds(seconds).unwrap_err().to_string().contains("1 s to 100 years"));
    }
    assert_eq!(HalfLife::from_seconds(86_400), Ok(HalfLife::DAY));
}

#[test]
fn nothing_has_no_percentile() {
    let mut histogram = Histogram::new();
    assert_eq!(histogram.percentile(&CPU, 0.5, EPSILON), None);
    let moment = at("2024-03-01T10:00:00Z", HalfLife::DAY);
    histogram.add(&CPU, 1.0, 0.1, moment).unwrap();
    histogram.subtract(&CPU, 1.0, 0.1, moment).unwrap();
    assert!(histogram.is_empty());
    assert_eq!(histogram.percentile(&CPU, 1.0, EPSILON), None);
}

#[test]
fn small_shares_at_either_end_do_not_bound_but_count() {
    let moment = at("2024-03-01T00:00:00Z", HalfLife::DAY);
    let mut histogram = Histogram::new();
    for (value, weight) in [(0.1, 1e-10), (0.5, 0.5), (1.0, 0.5), (64.0, 1e-10)] {
        histogram.add(&CPU, value, weight, moment).unwrap();
    }
    assert_percentiles(&histogram, &CPU, &[(&[0, 50], 0.511134537589), (&[51, 100], 1.01628138855)]);
    let found = histogram.percentile(&CPU, 1.0, 1e-11).unwrap();
    assert!(close(found, 66.2594258414), "with a smaller epsilon the last bucket counts: {found}");
}

/// The list of all samples: slow, and plain enough to be believed.
#[derive(Default)]
struct Samples(Vec<(f64, f64, i64)>);

impl Samples {
    fn percentile(&self, half_life_seconds: i64, p: f64) -> Option<(f64, f64)> {
        let newest = self.0.iter().map(|(.., time)| *time).max()?;
        let half_life = half_life_seconds as f64 * 1e9;
        let mut weights = vec![0.0; CPU.count()];
        for (value, weight, time) in &self.0 {
            let bucket = (0..CPU.count()).rev().find(|n| *value >= CPU.start(*n)).unwrap();
            weights[bucket] += weight * 0.5_f64.powf((newest - time) as f64 / half_life);
        }
        let total: f64 = weights.iter().sum();
        // Within rounding two answers can be right.
        let answer = |p: f64| {
            let mut sum = 0.0;
            let reached = weights.iter().position(|weight| {
                sum += weight;
                sum >= p * total && sum > 0.0
            });
            let bound = |weight: &f64| *weight >= 1e-9 * total;
            let (low, high) =
                (weights.iter().position(bound).unwrap(), weights.iter().rposition(bound).unwrap());
            CPU.end(reached.unwrap_or(high).clamp(low, high))
        };
        Some((answer(p - 1e-9), answer(p + 1e-9)))
    }
}

/// Value, weight, and hours after the start of 2024.
fn samples() -> impl Strategy<Value = Vec<(f64, f64, i64)>> {
    let value = prop_oneof![0.0..2.0_f64, 0.0..2000.0_f64, Just(0.5), Just(0.0)];
    let weight = prop_oneof![Just(0.1), Just(1.0), 0.1..64.0_f64];
    let start = nanos("2024-01-01T00:00:00Z");
    let time = prop_oneof![0..200_i64, 0..20_000_i64];
    let time = time.prop_map(move |hours| start + hours * 3_599_999_999_777);
    prop::collection::vec((value, weight, time), 1..60)
}

fn of(samples: &[(f64, f64, i64)], half_life: HalfLife) -> (Histogram, Samples) {
    let mut histogram = Histogram::new();
    let mut kept = Samples::default();
    for (value, weight, time) in samples {
        if histogram.add(&CPU, *value, *weight, Moment::new(*time, half_life)).is_ok() {
            kept.0.push((*value, *weight, *time));
        }
    }
    (histogram, kept)
}

proptest! {
    #[test]
    fn answers_are_those_of_the_list(samples in samples(), half_life in 1..400_i64, percent in 0..=100_u32) {
        let half_life = hours(half_life);
        let (histogram, kept) = of(&samples, half_life);
        let p = f64::from(percent) / 100.0;
        let found = histogram.percentile(&CPU, p, EPSILON);
        let (low, high) = kept.percentile(half_life.seconds(), p).unwrap();
        let found = found.unwrap();
        prop_assert!(low <= found && found <= high, "{found} is not within {low} and {high}");
    }

    #[test]
    fn percentiles_rise(samples in samples(), half_life in 1..400_i64) {
        let (histogram, _) = of(&samples, hours(half_life));
        let answers: Vec<_> =
            (0..=100).map(|p| histogram.percentile(&CPU, f64::from(p) / 100.0, EPSILON).unwrap()).collect();
        prop_assert!(answers.is_sorted(), "{answers:?}");
    }

    #[test]
    fn merging_commutes_and_is_adding_all(left in samples(), right in samples(), percent in 0..=100_u32) {
        let (a, mut all) = of(&left, hours(500));
        let (b, more) = of(&right, hours(500));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        let p = f64::from(percent) / 100.0;
        let found = ab.percentile(&CPU, p, EPSILON).unwrap();
        prop_assert_eq!(Some(found), ba.percentile(&CPU, p, EPSILON));
        all.0.extend(more.0);
        let (low, high) = all.percentile(hours(500).seconds(), p).unwrap();
        prop_assert!(low <= found && found <= high, "{} is not within {} and {}", found, low, high);
    }

    #[test]
    fn what_is_taken_back_was_never_there(
        samples in samples(), value in 0.0..100.0_f64, weight in 0.1..10.0_f64, later in 0..50_i64,
    ) {
        let day = HalfLife::DAY;
        let (mut histogram, _) = of(&samples, day);
        let last = samples.iter().map(|(.., time)| *time).max().unwrap();
        let moment = Moment::new(last + later * 3_600_000_000_000, day);
        let reference = histogram.reference_time(day);
        let before: Vec<_> = histogram.weights().collect();
        let total = histogram.total();
        histogram.add(&CPU, value, weight, moment).unwrap();
        histogram.subtract(&CPU, value, weight, moment).unwrap();
        if histogram.reference_time(day) == reference {
            let size = total + weight * moment_weight(moment, &histogram, day);
            prop_assert!((histogram.total() - total).abs() <= 1e-9 * size, "{} {}", histogram.total(), total);
            for (bucket, weight) in before {
                let now = histogram.weights().find(|(b, _)| *b == bucket).map_or(0.0, |(_, w)| w);
                prop_assert!((now - weight).abs() <= 1e-9 * size, "{bucket}: {now} {weight}");
            }
        }
    }

    #[test]
    fn no_finite_input_does_harm(
        samples in prop::collection::vec(
            (prop::num::f64::ANY, prop::num::f64::ANY, prop_oneof![-3_155_760_000_000_000_000..3_155_760_000_000_000_000_i64, any::<i64>()]),
            0..20,
        ),
        half_life in prop_oneof![1..100_i64, 1..3_162_240_000_i64],
        other in 1..3_162_240_000_i64,
    ) {
        let half_life = HalfLife::from_seconds(half_life).unwrap();
        let other = HalfLife::from_seconds(other).unwrap();
        let mut histogram = Histogram::new();
        for (index, (value, weight, time)) in samples.iter().enumerate() {
            let moment = Moment::new(*time, half_life);
            let _ = histogram.add(&MEMORY, *value, *weight, moment);
            if index % 3 == 2 {
                let _ = histogram.subtract(&MEMORY, *value, *weight, moment);
            }
            let mut changed = histogram.clone();
            changed.change_half_life(half_life, other, *time);
            let mut merged = histogram.clone();
            merged.merge(&histogram);
            for histogram in [&histogram, &changed, &merged] {
                prop_assert!(histogram.total().is_finite() && histogram.total() >= 0.0);
                prop_assert!(histogram.weights().all(|(_, weight)| weight.is_finite()));
                if let Some(answer) = histogram.percentile(&MEMORY, 0.99, EPSILON) {
                    prop_assert!(answer.is_finite() && answer >= MEMORY.end(0));
                }
            }
        }
    }

    #[test]
    fn find_agrees_with_the_starts(value in prop_oneof![0.0..2.0_f64, 0.0..2000.0_f64, prop::num::f64::POSITIVE]) {
        let buckets = [
            (*CPU).clone(), Buckets::linear(10.0, 0.3).unwrap(), Buckets::exponential(0.5, 2.5, 1e6).unwrap(),
            Buckets::exponential(1.0, 1.001, 150.0).unwrap(),
        ];
        for buckets in buckets {
            let bucket = buckets.find(value);
            prop_assert!(buckets.start(bucket) <= value);
            prop_assert!(bucket + 1 == buckets.count() || value < buckets.start(bucket + 1));
        }
    }
}

fn moment_weight(moment: Moment, histogram: &Histogram, half_life: HalfLife) -> f64 {
    let reference = nanos_of(histogram.reference_time(half_life).unwrap());
    moment.weight_at(half_life.cell_of(reference).unwrap())
}
