//! What containers would have requested, what came of it, and that nobody saw the future.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test that fails this way says where"
)]

use plimsoll_core::profile::from_spec;
use plimsoll_core::resource::Resource;
use plimsoll_core::simulate::{
    Cluster, Each, Figures, Node, Options, Outcome, Row, Series, SimulateError, parse, units,
};
use plimsoll_core::usage::{Aggregate, DAY, Dropped, Model, SECOND, Scan, Track, Usage, nanos_of, request};
use plimsoll_quantity::{Format, Quantity};
use proptest::prelude::*;
use serde_json::json;

const HOUR: i64 = 3600 * SECOND;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// What is compared by name; `static` and `half-life` with options are tested apart.
const POLICIES: [&str; 9] =
    ["original", "static", "seed", "tuned", "half-life", "vpa", "krr", "max-ever", "oracle"];

const OPTIONS: Options = Options {
    redeploy: DAY,
    warm_up: 0,
    node: Node { cpu: 16_000_000_000, memory: 64 * GIB },
    assumed: Each { cpu: None, memory: None },
};

fn start() -> i64 {
    nanos_of("2024-03-01T00:00:00Z".parse().unwrap())
}

/// Hours after the start, cores, MiB; the original is 2 cores and 4 GiB.
fn row((hour, cpu, memory): (f64, Option<f64>, Option<f64>)) -> Row {
    Row {
        nanos: start() + (hour * HOUR as f64) as i64,
        usage: Usage { cpu, memory: memory.map(|mib| mib * MIB as f64), cpu_request: Some(2.0) },
        memory_request: Some(4.0 * GIB as f64),
    }
}

fn series(name: &str, rows: &[(f64, f64, f64)]) -> Series {
    let rows = rows.iter().map(|(hour, cpu, memory)| row((*hour, Some(*cpu), Some(*memory))));
    Series::new(name, rows.collect())
}

fn three_days() -> Series {
    series(
        "app",
        &[
            (0.0, 0.1, 100.0),
            (12.0, 0.5, 200.0),
            (24.0, 0.25, 300.0),
            (36.0, 1.0, 250.0),
            (48.0, 0.4, 500.0),
            (60.0, 0.8, 100.0),
        ],
    )
}

fn cluster(series: Vec<Series>) -> Cluster {
    Cluster::new(series, OPTIONS).unwrap()
}

fn replay(series: Vec<Series>, options: Options, policy: &str) -> Outcome {
    Cluster::new(series, options).unwrap().replay(&parse(policy).unwrap(), &mut || {})
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
}

/// Milli-cores and MiB by deployment.
fn requests(cluster: &Cluster, policy: &str) -> Vec<(i64, i64)> {
    let requests = cluster.requests(&parse(policy).unwrap(), "app");
    let whole = |units: Option<i64>, unit: i64| {
        let units = units.unwrap();
        assert_eq!(units % unit, 0, "{policy}: {units}");
        units / unit
    };
    requests.iter().map(|(_, each)| (whole(each.cpu, 1_000_000), whole(each.memory, MIB))).collect()
}

#[test]
fn what_policies_request() {
    let cluster = cluster(vec![three_days()]);
    let original = (2000, 4096);
    // Of the half-life policies only vpa needs less than a day's history; the first two samples are 12 h apart.
    for (policy, expected) in [
        ("original", [original; 3]),
        ("static", [(1000, 4096); 3]),
        ("static:cpu=0.25,memory=0.5", [(500, 2048); 3]),
        ("static:memory=0.001", [(2000, 16); 3]),
        // P95 is the end of the bucket of 1 core, 1.01628 x 1.15; P99 that of 300 MiB, 330659541 x 1.15.
        ("seed", [original, original, (1169, 363)]),
        // The same x 1.15 + 50m; the largest of both daily peaks, 330659541 x 1.1 + 256 MiB.
        ("tuned", [original, original, (1219, 603)]),
        // P90: first the bucket of 0.5, 0.51113 x 1.15, then that of 1; peaks of 200 MiB (below 250 MiB), then of 300.
        ("vpa", [original, (588, 250), (1169, 363)]),
        // Between 0.1 and 0.5, and between 0.5 and 1; 200 x 1.15 and 300 x 1.15.
        ("krr", [original, (480, 230), (925, 345)]),
        ("max-ever", [original, (500, 200), (1000, 300)]),
        ("oracle", [(500, 200), (1000, 300), (800, 500)]),
        ("half-life", [original, original, (1169, 363)]),
        ("half-life:minimum-history=0s,cpu-percentile=50,expansion=1", [original, (512, 206), (512, 316)]),
        ("half-life:preset=tuned,cpu-margin=0,memory-margin=0", [original, original, (1169, 347)]),
        ("half-life:preset=tuned,memory-expansion=1", [original, original, (1219, 572)]),
        ("half-life:minimum-history=2d", [original; 3]),
        ("half-life:cpu-minimum=1500m,memory-minimum=1Gi", [original, original, (1500, 1024)]),
        ("half-life:expansion=100", [original; 3]),
    ] {
        assert_eq!(requests(&cluster, policy), expected, "{policy}");
    }
}

#[test]
fn a_recommendation_that_is_too_old_is_not_used() {
    let mut rows = vec![(0.0, 0.5, 100.0), (12.0, 0.5, 100.0), (24.0, 0.5, 100.0)];
    rows.push((24.0 * 10.0, 0.5, 100.0));
    let cluster = cluster(vec![series("app", &rows)]);
    assert_eq!(requests(&cluster, "seed"), [(2000, 4096); 3], "the last sample is nine days old");
    assert_eq!(requests(&cluster, "half-life:maximum-age=30d")[2], (588, 121));
}

#[test]
fn samples_of_the_last_two_weeks_count_for_krr() {
    let mut rows: Vec<_> = (0..20).map(|day| (f64::from(day) * 24.0, 0.5, 100.0)).collect();
    rows[2] = (48.0, 1.5, 2000.0);
    let cluster = cluster(vec![series("app", &rows)]);
    let (krr, ever) = (requests(&cluster, "krr"), requests(&cluster, "max-ever"));
    // Day 16 still reaches to day 2: 14 samples, of which the highest is 1.5; the place is 12.35.
    assert_eq!((krr[16], ever[16]), ((850, 2300), (1500, 2000)));
    assert_eq!((krr[17], ever[17]), ((500, 115), (1500, 2000)));
}

fn figures(figures: Option<Figures>) -> Figures {
    figures.unwrap()
}

#[test]
fn figures_of_max_ever_by_hand() {
    let outcome = replay(vec![three_days()], OPTIONS, "max-ever");
    let cpu = figures(outcome.figures.cpu);
    // 2, 0.5 and 1 core for a day each; a sample speaks for 12 hours.
    close(cpu.requested, 84.0);
    close(cpu.original, 144.0);
    close(cpu.used, 3.05 * 12.0);
    close(cpu.of_original, 84.0 / 144.0);
    close(cpu.slack, (1.9 + 1.5 + 0.25 + 0.6 + 0.2) * 12.0 / 84.0);
    close(cpu.hours, 72.0);
    close(cpu.time_above, 1.0 / 6.0);
    close(cpu.above, 6.0);
    close(cpu.usage_above, 0.5 / 3.05);
    assert_eq!((cpu.deployments, cpu.deployments_above), (3, 1));
    let memory = figures(outcome.figures.memory);
    close(memory.requested, (4096.0 + 200.0 + 300.0) * 24.0 / 1024.0);
    close(memory.above, (100.0 + 50.0 + 200.0) * 12.0 / 1024.0);
    assert_eq!((memory.deployments, memory.deployments_above), (3, 2));

    assert_eq!((outcome.nodes.most, outcome.nodes.unschedulable), (1, 0));
    close(outcome.nodes.mean, 1.0);
    close(outcome.nodes.minutes, 3.0 * 1440.0);
    assert_eq!(outcome.nodes.hot_minutes.to_bits(), 0.0_f64.to_bits());
    let worst = outcome.nodes.worst.unwrap();
    assert_eq!((worst.resource, worst.nanos), (Resource::Cpu, start() + 36 * HOUR));
    close(worst.load, 1.0 / 16.0);

    let requested: Vec<_> = outcome.periods.iter().map(|period| period.requested.cpu).collect();
    assert_eq!(requested, [2.0, 0.5, 1.0]);
    close(outcome.periods[2].used.cpu, 0.6);
    close(outcome.periods[2].used.memory, (300 * MIB) as f64);
}

#[test]
fn figures_of_the_others_by_hand() {
    // Time above in 12-hour samples of six, usage above in cores x samples, memory deployments of three.
    for (policy, requested, time, above, memory) in [
        ("original", 6.0, 0.0, 0.0, 0),
        ("static", 3.0, 0.0, 0.0, 0),
        ("static:cpu=0.25", 1.5, 2.0, 0.8, 0),
        ("seed", 5.169, 0.0, 0.0, 1),
        ("tuned", 5.219, 0.0, 0.0, 0),
        // 1 core above 588m; 300 MiB above 250 MiB, 500 above 363.
        ("vpa", 3.757, 1.0, 0.412, 2),
        ("krr", 3.405, 1.0, 0.52, 2),
        ("oracle", 2.3, 0.0, 0.0, 0),
    ] {
        let outcome = replay(vec![three_days()], OPTIONS, policy);
        let cpu = figures(outcome.figures.cpu);
        close(cpu.requested, requested * 24.0);
        close(cpu.time_above, time / 6.0);
        close(cpu.above, above * 12.0);
        assert_eq!(figures(outcome.figures.memory).deployments_above, memory, "{policy}");
    }
}

#[test]
fn gaps_are_missing() {
    let hours = |rows: Vec<Row>| {
        let figures = replay(vec![Series::new("app", rows)], OPTIONS, "original").figures;
        [figures.cpu, figures.memory].map(|figures| figures.map_or(0.0, |figures| figures.hours))
    };
    let both = |hour| row((hour, Some(1.0), Some(1.0)));
    let cpu = |hour| row((hour, Some(1.0), None));
    let nonsense = |hour| row((hour, Some(-1.0), Some(f64::NAN)));
    for (rule, rows, expected) in [
        ("an hour for each", vec![both(0.0), both(1.0), both(2.0)], [3.0, 3.0]),
        ("a hole", vec![both(0.0), both(1.0), both(2.0), both(20.0)], [4.0, 4.0]),
        ("less than an hour", vec![both(0.0), both(1.0), both(1.5), both(2.5)], [3.5, 3.5]),
        ("no memory", vec![both(0.0), cpu(1.0), both(2.0)], [3.0, 2.0]),
        ("nonsense", vec![both(0.0), nonsense(1.0), both(2.0)], [2.0, 2.0]),
        ("in any order, each time once", vec![both(2.0), both(0.0), both(1.0), both(1.0)], [3.0, 3.0]),
        ("one value each", vec![row((0.0, None, Some(1.0))), cpu(0.0), both(1.0)], [2.0, 2.0]),
        ("up to the next deployment", vec![both(0.0), both(12.0), both(25.0)], [36.0, 36.0]),
    ] {
        let found = hours(rows);
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{rule}: {found:?}");
    }
    // Nothing runs in a hole of days.
    let periods = replay(vec![Series::new("app", vec![both(0.0), both(1.0), both(100.0)])], OPTIONS, "seed");
    assert_eq!(periods.periods.len(), 2);
}

#[test]
fn originals_are_those_of_the_first_row_or_before() {
    let with = |hour: f64, cpu: Option<f64>, memory: Option<f64>| {
        let mut row = row((hour, Some(0.5), Some(1.0)));
        row.usage.cpu_request = cpu;
        row.memory_request = memory.map(|gib| gib * GIB as f64);
        row
    };
    let rows = vec![
        with(0.0, None, Some(1.0)),
        with(1.0, Some(9.0), Some(3.0)),
        with(24.0, None, None),
        with(48.0, Some(4.0), Some(0.0)),
        with(49.0, Some(1.0), Some(f64::NAN)),
        with(72.0, Some(1.0), Some(-1.0)),
    ];
    let series = vec![Series::new("app", rows)];
    let found = |options| -> Vec<_> {
        let cluster = Cluster::new(series.clone(), options).unwrap();
        let requests = cluster.requests(&parse("original").unwrap(), "app");
        let whole = |units: Option<i64>, unit| units.map(|units| units / unit);
        requests.iter().map(|(_, each)| (whole(each.cpu, 1_000_000_000), whole(each.memory, GIB))).collect()
    };
    let expected = [(None, Some(1)), (Some(9), Some(3)), (Some(4), None), (Some(1), None)];
    assert_eq!(found(OPTIONS), expected);
    let assumed = Each { cpu: Some(7_000_000_000), memory: Some(5 * GIB) };
    let expected = [(Some(7), Some(1)), (Some(9), Some(3)), (Some(4), Some(5)), (Some(1), Some(5))];
    assert_eq!(found(Options { assumed, ..OPTIONS }), expected);
}

#[test]
fn what_cannot_be_compared() {
    let unrequested = || {
        let mut row = row((0.0, Some(0.5), Some(1.0)));
        (row.usage.cpu_request, row.memory_request) = (None, None);
        Series::new("unrequested", vec![row])
    };
    let refused = |series, options| Cluster::new(series, options).unwrap_err();
    assert_eq!(refused(vec![], OPTIONS), SimulateError::Empty);
    assert_eq!(refused(vec![unrequested()], OPTIONS), SimulateError::Unrequested);
    assert_eq!(refused(vec![three_days()], Options { warm_up: 61 * HOUR, ..OPTIONS }), SimulateError::WarmUp);
    assert_eq!(refused(vec![three_days()], Options { redeploy: 0, ..OPTIONS }), SimulateError::Options);

    let cluster = cluster(vec![unrequested(), three_days()]);
    assert_eq!((cluster.containers(), cluster.unrequested()), (2, Each { cpu: 1, memory: 1 }));
    let outcome = cluster.replay(&parse("seed").unwrap(), &mut || {});
    assert_eq!(outcome.figures, replay(vec![three_days()], OPTIONS, "seed").figures);
    assert_eq!(outcome.periods[0].containers, 1);
}

#[test]
fn a_warm_up_is_only_learned_from() {
    let options = Options { warm_up: 2 * DAY, ..OPTIONS };
    let later = series("later", &[(12.0, 0.1, 1.0), (36.0, 0.1, 1.0), (60.0, 0.1, 1.0), (84.0, 0.1, 1.0)]);
    let outcome = replay(vec![three_days(), later], options, "seed");
    let cpu = figures(outcome.figures.cpu);
    // One day of the first, two of the other, whose rows speak until midnight.
    assert_eq!(cpu.deployments, 3);
    close(cpu.hours, 24.0 + 2.0 * 12.0);
    assert_eq!(outcome.periods.iter().map(|period| period.containers).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn hot_nodes() {
    let minute = |name: &str, usage: &dyn Fn(usize) -> f64| {
        let rows = (0..10).map(|minute| (minute as f64 / 60.0, usage(minute), 100.0)).collect::<Vec<_>>();
        series(name, &rows)
    };
    // 1.7 cores of both, from minute 5 on 2.4 on a node that has two.
    let busy = minute("a", &|minute| if minute < 5 { 0.8 } else { 1.5 });
    let steady = minute("b", &|_| 0.9);
    let node = Node { cpu: 2_000_000_000, memory: 64 * GIB };
    let nodes =
        |policy, node| replay(vec![busy.clone(), steady.clone()], Options { node, ..OPTIONS }, policy).nodes;
    let halved = nodes("static", node);
    assert_eq!(halved.most, 1);
    close(halved.hot_minutes, 5.0);
    let worst = halved.worst.unwrap();
    close(worst.load, 1.2);
    close(worst.hot_minutes, 5.0);
    assert_eq!(worst.nanos, start() + 5 * 60 * SECOND);
    let original = nodes("original", node);
    assert_eq!(original.most, 2);
    close(original.worst.unwrap().load, 0.75);
    assert!(original.hot_minutes < 1e-9);

    let little_memory = nodes("static", Node { cpu: 16_000_000_000, memory: 5 * GIB });
    assert_eq!((little_memory.most, little_memory.unschedulable), (2, 0));
    let too_little = nodes("static", Node { cpu: 900_000_000, memory: 64 * GIB });
    assert_eq!((too_little.most, too_little.unschedulable), (0, 2));
    assert_eq!(too_little.worst, None);
}

#[test]
fn policies_that_are_none() {
    for (text, message) in [
        ("sed", "\"sed\" is no policy; there are original, static, seed, "),
        ("", "\"\" is no policy"),
        ("seed:x=1", "seed takes no options"),
        ("static:gpu=1", "static: \"gpu\" is no option; there are cpu, memory"),
        ("static:cpu=0", "static: cpu: \"0\" is not above 0 and at most 1"),
        ("static:cpu=1.5", "static: cpu: \"1.5\" is not above 0 and at most 1"),
        ("static:cpu", "static: cpu has no value; write cpu=VALUE"),
        ("static:cpu=1,cpu=1", "static: cpu is there twice"),
        ("half-life:percentil=95", "half-life: \"percentil\" is no option; there are preset, cpu-percentile"),
        (
            "half-life:cpu-percentile=101",
            "half-life: cpu-percentile: 101 is not a whole number from 1 to 100",
        ),
        ("half-life:cpu-half-life=24", "half-life: cpu-half-life: \"24\" is not a duration"),
        ("half-life:preset=best", "half-life: preset: \"best\" is not one of Seed, Tuned"),
        ("half-life:memory-margin=-1", "half-life: memory-margin: -1 is negative"),
        ("half-life:cpu-half-life=99999d", "spec.dynamic.halfLife.cpu: a half-life of"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// A row each hour with holes; usage at most the original of 2 cores and 4 GiB.
fn history() -> impl Strategy<Value = Vec<Row>> {
    let one = (1_u32..30, 0_u32..=2000, 0_u32..=4096, 0.0..1.0_f64);
    proptest::collection::vec(one, 1..60).prop_map(|rows| {
        let mut hour = 0;
        rows.into_iter()
            .map(|(step, cpu, memory, kind)| {
                hour += if kind < 0.2 { step } else { 6 };
                let cpu = (kind < 0.95).then(|| f64::from(cpu) / 1000.0);
                let memory = (kind > 0.05).then(|| f64::from(memory));
                row((f64::from(hour), cpu, memory))
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nobody_requests_more_than_the_original(rows in history()) {
        let cluster = cluster(vec![Series::new("app", rows)]);
        for policy in POLICIES {
            for (_, request) in cluster.requests(&parse(policy).unwrap(), "app") {
                prop_assert!((1..=2_000_000_000).contains(&request.cpu.unwrap()), "{policy}: {request:?}");
                prop_assert!((1..=4 * GIB).contains(&request.memory.unwrap()), "{policy}: {request:?}");
            }
        }
    }

    #[test]
    fn the_oracle_is_never_short(rows in history()) {
        let outcome = replay(vec![Series::new("app", rows)], OPTIONS, "oracle");
        for figures in [outcome.figures.cpu, outcome.figures.memory].into_iter().flatten() {
            prop_assert_eq!(figures.deployments_above, 0);
        }
    }

    #[test]
    fn nobody_sees_the_future(rows in history(), cut in 0.0..1.0_f64, factor in 0.0..1.0_f64) {
        let last = rows.last().unwrap().nanos;
        let at = start() + ((last - start()) as f64 * cut) as i64;
        let mut other = rows.clone();
        for row in other.iter_mut().filter(|row| row.nanos >= at) {
            row.usage.cpu = row.usage.cpu.map(|cpu| cpu * factor);
            row.usage.memory = None;
        }
        let (one, other) = (cluster(vec![Series::new("app", rows)]), cluster(vec![Series::new("app", other)]));
        for policy in POLICIES.into_iter().filter(|policy| *policy != "oracle") {
            let policy = parse(policy).unwrap();
            for (one, other) in one.requests(&policy, "app").iter().zip(other.requests(&policy, "app")) {
                prop_assert!(one.0 > at || *one == other, "{policy:?}");
            }
        }
    }

    #[test]
    fn figures_add_up_in_any_order(rows in history(), others in history(), seed in 0_usize..97) {
        let series = |name: &str, rows: &[Row]| Series::new(name, rows.to_vec());
        let mut shuffled = rows.clone();
        shuffled.sort_by_key(|row| (row.nanos as usize / 1_000_000_007).wrapping_mul(seed) % 101);
        for policy in POLICIES {
            let one = replay(vec![series("a", &rows), series("b", &others)], OPTIONS, policy);
            let other = replay(vec![series("b", &others), series("a", &shuffled)], OPTIONS, policy);
            prop_assert_eq!(&one, &other);
            for figures in [one.figures.cpu, one.figures.memory].into_iter().flatten() {
                let difference = figures.requested * figures.slack - figures.above;
                let expected = figures.requested - figures.used;
                prop_assert!((difference - expected).abs() < 1e-6 * figures.original, "{:?}", figures);
            }
        }
    }

    /// The same as `plimsoll recommend --at` says, one deployment after the other.
    #[test]
    fn seed_and_tuned_do_what_admission_does(rows in history()) {
        for (policy, preset) in [("seed", "Seed"), ("tuned", "Tuned")] {
            let profile = from_spec("p", &json!({"dynamic": {"preset": preset}})).unwrap();
            let model = Model::from_policy(&profile.dynamic).unwrap();
            let cluster = cluster(vec![Series::new("app", rows.clone())]);
            for (at, found) in cluster.requests(&parse(policy).unwrap(), "app") {
                let (mut aggregate, mut track, mut dropped) =
                    (Aggregate::default(), Track::default(), Dropped::default());
                for row in rows.iter().filter(|row| row.nanos < at) {
                    let scan = Scan::new(&model, row.nanos);
                    aggregate.observe(&mut track, &model, &scan, row.usage, None, &mut dropped);
                }
                let (first, last) = (aggregate.first_sample(), aggregate.last_sample());
                let usable = first.zip(last).is_some_and(|(first, last)| last - first >= DAY && at - last < 8 * DAY);
                for (resource, percent, original) in [
                    (Resource::Cpu, 95, Quantity::from_units(2, Format::DecimalSi).unwrap()),
                    (
                        Resource::Memory,
                        if preset == "Seed" { 99 } else { 90 },
                        Quantity::from_units((4 * GIB).into(), Format::BinarySi).unwrap(),
                    ),
                ] {
                    let target = aggregate.percentile(&model, resource, percent).filter(|_| usable);
                    let expected = target
                        .and_then(|target| request(&profile, resource, target, Some(&original)))
                        .unwrap_or(original);
                    let expected = expected.nanos() as f64 / 1e9;
                    prop_assert_eq!(*found.get(resource).unwrap(), units(resource, expected), "{} {}", policy, resource);
                }
            }
        }
    }
}
