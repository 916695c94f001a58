//! The model of the HPA controller: each of its rules, and the counts that were seen on a real one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::time::Duration;

use jiff::Timestamp;
use plimsoll_core::hpa::controller::{
    Behavior, Kept, Limit, Metric, MetricError, PodFigures, PodStatus, PodUsage, Policy, Reason, Rules,
    Sample, Scaling, Select, Stage, Target, Timing, Tolerance, decide, propose,
};
use plimsoll_core::hpa::{MeanBase, MetricKey};
use plimsoll_core::profile::Basis;
use plimsoll_core::resource::{MILLI, Resource};
use proptest::prelude::*;
use serde_json::json;

const UTILIZATION_80: Target = Target::Utilization(80);

fn pod(stage: Stage, request: i64, usage: Option<i64>) -> PodFigures {
    PodFigures { stage, request: Ok(request), usage }
}

/// So many pods that request and use the same.
fn same(count: usize, request: i64, usage: i64) -> Vec<PodFigures> {
    vec![pod(Stage::Counted, request, Some(usage)); count]
}

fn without_request(usage: i64) -> PodFigures {
    PodFigures { stage: Stage::Counted, request: Err("no cpu request".to_owned()), usage: Some(usage) }
}

fn metric(target: Target, pods: Vec<PodFigures>) -> Metric {
    Metric { target, pods }
}

fn scaling(current: i32) -> Scaling {
    Scaling { current, min: 1, max: 1000, tolerance: Tolerance::default(), behavior: None }
}

#[test]
fn the_counts_that_a_real_controller_has_shown() {
    let mid_rollout = || [same(5, 1000, 500), same(5, 500, 500)].concat();
    for (case, target, pods, expected) in [
        ("as the user meant it", UTILIZATION_80, same(10, 1000, 500), 7),
        ("request lowered, HPA untouched", UTILIZATION_80, same(10, 500, 500), 13),
        ("Convert, before the rollout", Target::AverageValue(800), same(10, 1000, 500), 7),
        ("Convert, after the rollout", Target::AverageValue(800), same(10, 500, 500), 7),
        ("basis Limit: 80 % of 2000m", Target::AverageValue(1600), same(10, 1000, 500), 4),
        ("mid-rollout, Convert", Target::AverageValue(800), mid_rollout(), 7),
        ("mid-rollout, native", UTILIZATION_80, mid_rollout(), 9),
        ("mid-rollout, a rewritten percentage", Target::Utilization(160), mid_rollout(), 5),
        ("pod request 100m, limit 1000m, basis Limit", Target::AverageValue(800), same(2, 100, 500), 2),
        ("the same by its request", UTILIZATION_80, same(2, 100, 500), 4),
        ("2 pods at 400m, as the user meant it", UTILIZATION_80, same(2, 1000, 400), 1),
        ("2 pods at 400m, request halved, Convert", Target::AverageValue(800), same(2, 500, 400), 1),
        ("2 pods at 400m, request halved twice, Convert", Target::AverageValue(800), same(2, 250, 400), 1),
        ("2 pods at 400m, request halved twice, untouched", UTILIZATION_80, same(2, 250, 400), 4),
    ] {
        let current = i32::try_from(pods.len()).unwrap();
        let decision = decide(&scaling(current), &[metric(target, pods)]);
        assert_eq!(decision.replicas, expected, "{case}: {decision:?}");
    }
}

#[test]
fn at_every_stage_of_a_rollout_the_same() {
    let bases = [1000; 10];
    for lowered in 0..=10 {
        let pods = [same(10 - lowered, 1000, 500), same(lowered, 500, 500)].concat();
        let of = |target| decide(&scaling(10), &[metric(target, pods.clone())]).replicas;
        assert_eq!(of(Target::AverageValue(converted(80, &bases))), 7, "{lowered} pods are lowered");
        let native = of(UTILIZATION_80);
        assert!((7..=13).contains(&native) && (native == 7 || lowered > 0), "{lowered}: {native}");
    }
}

#[test]
fn unequal_bases_are_weighed_as_one_sum() {
    let bases = vec![pod(Stage::Counted, 1000, Some(900)), pod(Stage::Counted, 2000, Some(100))];
    let native = propose(&metric(UTILIZATION_80, bases.clone()), 2, Tolerance::default()).unwrap();
    assert_eq!(native.utilization, Some(33), "1000 of 3000, not the mean of 90 % and 5 %");
    let plain = propose(&metric(Target::AverageValue(1200), bases), 2, Tolerance::default()).unwrap();
    assert!((plain.ratio - 1000.0 / 3000.0 / 0.8).abs() < 1e-3, "80 % of 1500m: {plain:?}");
    let shim = vec![pod(Stage::Counted, 500, Some(300)), pod(Stage::Counted, 500, Some(33))];
    let shim = propose(&metric(UTILIZATION_80, shim), 2, Tolerance::default()).unwrap();
    assert_eq!(shim.utilization, Some(33), "usage times 1000/3000");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn one_metric() {
    use Stage::{Counted, Ignored, Pending, Unready};
    let value = Target::AverageValue;
    let and = |mut pods: Vec<PodFigures>, more: &[PodFigures]| {
        pods.extend_from_slice(more);
        pods
    };
    let missing = pod(Counted, 1000, None);
    let of = |pods: usize| i32::try_from(pods).unwrap();
    for (rule, target, pods, expected, kept) in [
        ("within the tolerance above", UTILIZATION_80, same(10, 1000, 880), 10, Some(Kept::Tolerance)),
        ("beyond it", UTILIZATION_80, same(10, 1000, 890), 12, None),
        ("within the tolerance below", UTILIZATION_80, same(10, 1000, 720), 10, Some(Kept::Tolerance)),
        ("beyond it", UTILIZATION_80, same(10, 1000, 710), 9, None),
        (
            "a percentage is cut to a whole number",
            UTILIZATION_80,
            same(10, 1000, 889),
            10,
            Some(Kept::Tolerance),
        ),
        ("a plain value is not", value(800), same(10, 1000, 889), 12, None),
        (
            "an average is cut to a milli-unit",
            value(10),
            [same(1, 1, 11), same(1, 1, 12)].concat(),
            2,
            Some(Kept::Tolerance),
        ),
        ("above 100 % of the request", Target::Utilization(300), same(2, 100, 600), 4, None),
        ("no usage at all", UTILIZATION_80, same(3, 1000, 0), 0, None),
        (
            "scaling up, unready pods use nothing",
            UTILIZATION_80,
            and(same(2, 1000, 1600), &[pod(Unready, 1000, Some(9000))]),
            4,
            None,
        ),
        (
            "scaling up, pending pods use nothing",
            value(800),
            and(same(2, 1000, 1600), &[pod(Pending, 1000, None)]),
            4,
            None,
        ),
        (
            "pending pods are unready also with metrics",
            value(800),
            and(same(2, 1000, 1600), &[pod(Pending, 1000, Some(9000))]),
            4,
            None,
        ),
        (
            "scaling down, unready pods do not count",
            UTILIZATION_80,
            and(same(4, 1000, 200), &[pod(Unready, 1000, Some(9000))]),
            1,
            None,
        ),
        (
            "unready pods would turn the direction",
            UTILIZATION_80,
            and(same(1, 1000, 1000), &vec![pod(Pending, 1000, None); 3]),
            4,
            Some(Kept::Direction),
        ),
        (
            "unready pods bring it within the tolerance",
            UTILIZATION_80,
            and(same(2, 1000, 1200), &[pod(Pending, 1000, None)]),
            3,
            Some(Kept::Tolerance),
        ),
        (
            "scaling up, pods without metrics use nothing",
            UTILIZATION_80,
            and(same(2, 1000, 1600), std::slice::from_ref(&missing)),
            4,
            None,
        ),
        (
            "scaling down by a percentage, pods without metrics use their request",
            UTILIZATION_80,
            and(same(4, 1000, 200), std::slice::from_ref(&missing)),
            3, // (4 * 200 + 1000) / 5000 = 36 %
            None,
        ),
        (
            "or the target, if that is above 100 %",
            Target::Utilization(200),
            and(same(4, 1000, 200), std::slice::from_ref(&missing)),
            2, // (4 * 200 + 2000) / 5000 = 56 %
            None,
        ),
        (
            "scaling down by a plain value, they use the target",
            value(800),
            and(same(4, 1000, 200), std::slice::from_ref(&missing)),
            2, // (4 * 200 + 800) / 5 = 320m; 0.4 * 5
            None,
        ),
        (
            "a pod without metrics turns the direction",
            UTILIZATION_80,
            and(same(1, 100, 10), &[pod(Counted, 10_000, None)]),
            2,
            Some(Kept::Direction),
        ),
        (
            "an unready pod without metrics is one without metrics",
            value(800),
            and(same(4, 1000, 200), &[pod(Unready, 1000, None)]),
            2,
            None,
        ),
        (
            "terminating and failed pods are as if they were not there",
            UTILIZATION_80,
            and(same(10, 1000, 500), &vec![pod(Ignored, 1000, Some(9000)); 3]),
            7,
            None,
        ),
        ("without requests a plain value works", value(800), vec![without_request(1600)], 2, None),
    ] {
        // What is asked for is a count of pods; the target has as many as are there.
        let current = of(pods.iter().filter(|pod| pod.stage != Ignored).count());
        let proposal = propose(&metric(target, pods), current, Tolerance::default()).unwrap();
        assert_eq!((proposal.replicas, proposal.kept), (expected, kept), "{rule}: {proposal:?}");
    }
}

#[test]
fn more_pods_than_replicas_do_not_turn_the_direction() {
    // A rollout has surged: 8 pods of 4 replicas, and the ratio says fewer.
    let pods = [same(7, 1000, 500), vec![pod(Stage::Counted, 1000, None)]].concat();
    let proposal = propose(&metric(UTILIZATION_80, pods), 4, Tolerance::default()).unwrap();
    assert_eq!((proposal.replicas, proposal.kept), (4, Some(Kept::Direction)), "{proposal:?}");
}

#[test]
fn a_proposal_says_from_what_it_comes() {
    let pods = [
        same(3, 1000, 201),
        vec![pod(Stage::Counted, 1000, None), pod(Stage::Pending, 1000, None)],
        vec![pod(Stage::Ignored, 1000, Some(1))],
    ]
    .concat();
    let proposal = propose(&metric(UTILIZATION_80, pods), 5, Tolerance::default()).unwrap();
    assert_eq!((proposal.measured, proposal.missing, proposal.unready), (3, 1, 1));
    assert_eq!((proposal.utilization, proposal.average), (Some(20), 201));
    assert!((proposal.ratio - 0.25).abs() < 1e-9);
    assert!((proposal.assumed_ratio.unwrap() - 0.5).abs() < 1e-9, "(603 + 1000) / 4000 = 40 %");
}

#[test]
fn what_cannot_be_computed() {
    let none = vec![pod(Stage::Counted, 1000, None)];
    let not_ready = vec![pod(Stage::Unready, 1000, Some(1)), pod(Stage::Pending, 1000, None)];
    let no_request = [same(1, 1000, 500), vec![without_request(1)]].concat();
    let ignored =
        [same(1, 1000, 500), vec![PodFigures { stage: Stage::Ignored, ..without_request(1) }]].concat();
    let missing = MetricError::MissingRequest("no cpu request".to_owned());
    for (rule, target, pods, expected) in [
        ("no pods", UTILIZATION_80, vec![], MetricError::NoPods),
        ("no metrics", UTILIZATION_80, none.clone(), MetricError::NoMetrics),
        ("no metrics, plain value", Target::AverageValue(1), none, MetricError::NoMetrics),
        ("metrics of unready pods only", UTILIZATION_80, not_ready, MetricError::NoneReady),
        ("a pod without request", UTILIZATION_80, no_request, missing.clone()),
        ("even if the pod is ignored", UTILIZATION_80, ignored, missing),
        ("requests of 0", UTILIZATION_80, same(1, 0, 5), MetricError::ZeroRequests),
    ] {
        let error = propose(&metric(target, pods), 1, Tolerance::default()).unwrap_err();
        assert_eq!(error, expected, "{rule}");
    }
}

#[test]
fn tolerance_has_two_sides() {
    let tolerance = Tolerance { up: 0.5, down: 0.0 };
    for (rule, usage, expected) in [
        ("up to 1.5 nothing", 1200, 10),
        ("above 1.5", 1210, 16),
        ("below 1 at once", 790, 10),
        ("1", 800, 10),
    ] {
        let of = metric(Target::AverageValue(800), same(10, 1000, usage));
        let proposal = propose(&of, 10, tolerance).unwrap();
        assert_eq!(proposal.replicas, expected, "{rule}");
        assert_eq!(proposal.kept.is_none(), usage != 800 && usage != 1200, "{rule}");
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn several_metrics_and_bounds() {
    let asks = |replicas: i64| metric(Target::AverageValue(1000), same(10, 1, replicas * 100));
    let fails = || metric(UTILIZATION_80, vec![without_request(1)]);
    let chosen = |metric, wanted, limit| Reason::Metric { metric, wanted, limit };
    let with = |current, min, max| Scaling { min, max, ..scaling(current) };
    let undecided = |metric| Reason::CannotDecide { metric };
    for (rule, scaling, metrics, replicas, reason) in [
        ("the most counts", scaling(10), vec![asks(7), asks(12), asks(9)], 12, chosen(1, 12, None)),
        ("of equals the first", scaling(10), vec![asks(7), asks(7)], 7, chosen(0, 7, None)),
        ("an error blocks scaling down", scaling(10), vec![asks(7), fails()], 10, undecided(Some(1))),
        ("an error does not block scaling up", scaling(10), vec![fails(), asks(12)], 12, chosen(1, 12, None)),
        ("nor staying", scaling(10), vec![fails(), asks(10)], 10, chosen(1, 10, None)),
        ("the first error is told", scaling(10), vec![fails(), fails()], 10, undecided(Some(0))),
        ("no metrics", scaling(10), vec![], 10, undecided(None)),
        ("0 replicas: off", scaling(0), vec![asks(12)], 0, Reason::Disabled),
        ("too many", with(10, 1, 8), vec![asks(12)], 8, Reason::AboveMaximum),
        ("too few", with(10, 11, 20), vec![asks(2)], 11, Reason::BelowMinimum),
        ("min", with(10, 8, 20), vec![asks(7)], 8, chosen(0, 7, Some(Limit::Minimum))),
        ("max", with(10, 8, 11), vec![asks(12)], 11, chosen(0, 12, Some(Limit::Maximum))),
        ("twice as many at once", scaling(10), vec![asks(25)], 20, chosen(0, 25, Some(Limit::UpRate))),
        ("4 at least", scaling(1), vec![asks(25)], 4, chosen(0, 25, Some(Limit::UpRate))),
        ("but no more than max", with(10, 1, 15), vec![asks(25)], 15, chosen(0, 25, Some(Limit::Maximum))),
        ("down to min at once", scaling(10), vec![asks(0)], 1, chosen(0, 0, Some(Limit::Minimum))),
    ] {
        let decision = decide(&scaling, &metrics);
        assert_eq!((decision.replicas, decision.reason), (replicas, reason), "{rule}");
    }
}

#[test]
fn behavior_bounds_a_step() {
    let rules = |select, policies: &[Policy]| Rules { select, policies: policies.to_vec() };
    let usual = rules(Select::Max, &[Policy::Percent(100)]);
    let both = [Policy::Pods(3), Policy::Percent(10)];
    for (rule, up, down, usage, expected) in [
        ("the greater step up", Some(rules(Select::Max, &both)), None, 2500, 13),
        (
            "the smaller step up, rounded up",
            Some(rules(Select::Min, &[Policy::Pods(3), Policy::Percent(15)])),
            None,
            2500,
            12,
        ),
        ("no step up", Some(rules(Select::Disabled, &both)), None, 2500, 10),
        ("the greater step down", None, Some(rules(Select::Max, &both)), 200, 7),
        (
            "the smaller step down, cut",
            None,
            Some(rules(Select::Min, &[Policy::Pods(3), Policy::Percent(15)])),
            200,
            8,
        ),
        ("no step down", None, Some(rules(Select::Disabled, &both)), 200, 10),
        ("within the step", Some(rules(Select::Max, &both)), None, 1200, 12),
        ("a step beyond min", None, None, 0, 2),
        ("a step beyond max", None, None, 9000, 15),
    ] {
        let behavior =
            Behavior { up: up.unwrap_or_else(|| usual.clone()), down: down.unwrap_or_else(|| usual.clone()) };
        let scaling = Scaling { min: 2, max: 15, behavior: Some(behavior), ..scaling(10) };
        let decision = decide(&scaling, &[metric(Target::AverageValue(1000), same(10, 1, usage))]);
        assert_eq!(decision.replicas, expected, "{rule}: {decision:?}");
    }
}

#[test]
fn a_spec_is_read_with_the_defaults_of_the_api() {
    let read = Scaling::read(&json!({"maxReplicas": 9}), 3);
    assert_eq!(read, Scaling { max: 9, ..scaling(3) });
    let spec = json!({
        "minReplicas": 2,
        "maxReplicas": 9,
        "behavior": {
            "scaleUp": {"tolerance": "50m", "selectPolicy": "Min"},
            "scaleDown": {"tolerance": 0, "policies": [
                {"type": "Percent", "value": 10, "periodSeconds": 60},
                {"type": "Pods", "value": 2, "periodSeconds": 60},
            ]},
        },
    });
    let read = Scaling::read(&spec, 3);
    assert_eq!(read.tolerance, Tolerance { up: 0.05, down: 0.0 });
    let up = Rules { select: Select::Min, policies: vec![Policy::Pods(4), Policy::Percent(100)] };
    let down = Rules { select: Select::Max, policies: vec![Policy::Percent(10), Policy::Pods(2)] };
    assert_eq!(read.behavior, Some(Behavior { up, down }));
    let odd = Scaling::read(&json!({"minReplicas": "x", "behavior": {"scaleUp": {"policies": 3}}}), 3);
    assert_eq!((odd.min, odd.max), (1, i32::MAX), "what is malformed counts as absent");
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
}

#[test]
fn stages_of_pods() {
    use Stage::{Counted, Ignored, Pending, Unready};
    let status = |phase: &str, started: Option<i64>, ready: Option<(&str, i64)>| {
        json!({
            "metadata": {},
            "status": {
                "phase": phase,
                "startTime": started.map(|minute| at(minute).to_string()),
                "conditions": ready.map(|(status, minute)| json!([
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": status, "lastTransitionTime": at(minute).to_string()},
                ])),
            },
        })
    };
    let mut terminating = status("Running", Some(0), Some(("True", 1)));
    terminating["metadata"]["deletionTimestamp"] = json!(at(90).to_string());
    // It is minute 100; pods are young for 5 minutes; usage was measured from minute 98 to 99.
    for (rule, pod, cpu, memory) in [
        ("running and ready", status("Running", Some(0), Some(("True", 1))), Counted, Counted),
        ("terminating", terminating, Ignored, Ignored),
        ("failed", status("Failed", Some(0), Some(("False", 1))), Ignored, Ignored),
        ("pending", status("Pending", None, None), Pending, Pending),
        ("succeeded: no difference", status("Succeeded", Some(0), Some(("True", 1))), Counted, Counted),
        ("no condition", status("Running", Some(0), None), Unready, Counted),
        ("no start time", status("Running", None, Some(("True", 1))), Unready, Counted),
        ("not ready any more", status("Running", Some(0), Some(("False", 50))), Counted, Counted),
        ("never was ready", status("Running", Some(50), Some(("False", 50))), Unready, Counted),
        ("unknown is not false", status("Running", Some(50), Some(("Unknown", 50))), Counted, Counted),
        ("young and ready", status("Running", Some(96), Some(("True", 97))), Counted, Counted),
        ("young and not ready", status("Running", Some(96), Some(("False", 97))), Unready, Counted),
        ("ready within the window", status("Running", Some(96), Some(("True", 99))), Unready, Counted),
    ] {
        let status = PodStatus::read(&pod);
        let sample = Sample { at: at(99), window: Duration::from_secs(60) };
        let stage = |resource| status.stage(resource, Some(&sample), at(100), &Timing::default());
        assert_eq!((stage(Resource::Cpu), stage(Resource::Memory)), (cpu, memory), "{rule}");
    }
}

#[test]
fn usages_are_read() {
    let two = json!([
        {"name": "app", "usage": {"cpu": "499999999n", "memory": "10Mi"}},
        {"name": "proxy", "usage": {"cpu": "1u", "memory": 1024}},
    ]);
    let half = json!([{"name": "app", "usage": {"cpu": "1"}}, {"name": "proxy", "usage": {}}]);
    let of = |containers: &serde_json::Value| {
        PodUsage::read(&json!({
            "metadata": {"namespace": "shop", "name": "web-1"},
            "timestamp": "2026-03-01T10:00:00Z", "window": "1m0.5s", "containers": containers,
        }))
        .unwrap()
    };
    for (rule, containers, resource, container, expected) in [
        ("each container is rounded up to a milli-unit", &two, Resource::Cpu, None, Some(501)),
        ("memory is counted in thousandths of bytes", &two, Resource::Memory, None, Some(10_486_784_000)),
        ("one container", &two, Resource::Cpu, Some("proxy"), Some(1)),
        ("no such container", &two, Resource::Cpu, Some("db"), None),
        ("a container without a figure: the pod has none", &half, Resource::Cpu, None, None),
        ("but the other container has", &half, Resource::Cpu, Some("app"), Some(1000)),
        ("no containers", &json!([]), Resource::Cpu, None, None),
    ] {
        assert_eq!(of(containers).of(resource, container), expected, "{rule}");
    }
    let sample = of(&two).sample.unwrap();
    assert_eq!((sample.at.to_string().as_str(), sample.window.as_millis()), ("2026-03-01T10:00:00Z", 60_500));
    assert_eq!(PodUsage::read(&json!({"kind": "Pod"})), None);
    let bare =
        PodUsage::read(&json!({"metadata": {"name": "x"}, "containers": [{"usage": {"cpu": "x"}}]})).unwrap();
    assert_eq!((bare.of(Resource::Cpu, None), bare.sample), (None, None));
}

/// What Convert writes for a percentage of these bases, in milli-cores.
fn converted(percent: i32, bases: &[i64]) -> i64 {
    let sum = bases.iter().map(|base| i128::from(*base) * MILLI).sum();
    let mean = MeanBase { basis: Some(Basis::Request), sum, pods: u64::try_from(bases.len()).unwrap() };
    let value = mean.value(&MetricKey::pod(Resource::Cpu), percent.into()).unwrap();
    i64::try_from(value.nanos / MILLI).unwrap()
}

fn plainly(bases: &[i64], usages: &[i64]) -> Vec<PodFigures> {
    bases.iter().zip(usages).map(|(base, usage)| pod(Stage::Counted, *base, Some(*usage))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// With fewer pods than per cent, and a load that is not far off, Convert gives what the user meant, to one replica.
    #[test]
    fn convert_keeps_the_meaning(
        percent in 50..=200_i32,
        pods in prop::collection::vec((400..4000_i64, 0..2000_i64), 1..=20),
    ) {
        let (bases, usages): (Vec<i64>, Vec<i64>) =
            pods.into_iter().map(|(base, thousandths)| (base, base * thousandths / 1000)).unzip();
        let current = i32::try_from(bases.len()).unwrap();
        let pods = plainly(&bases, &usages);
        let exactly = Tolerance { up: 0.0, down: 0.0 };
        let of = |target, tolerance| propose(&metric(target, pods.clone()), current, tolerance).unwrap();
        let (meant, kept) = (Target::Utilization(percent), Target::AverageValue(converted(percent, &bases)));
        let (native, plain) = (of(meant, exactly), of(kept, exactly));
        prop_assert!((native.replicas - plain.replicas).abs() <= 1, "{native:?} {plain:?}");

        // Only where the cut percentage and the exact figure are on different sides of the edge does the tolerance
        // make a difference.
        let (native, plain) = (of(meant, Tolerance::default()), of(kept, Tolerance::default()));
        if native.kept == plain.kept {
            prop_assert!((native.replicas - plain.replicas).abs() <= 1, "{native:?} {plain:?}");
        } else {
            prop_assert!((native.ratio - plain.ratio).abs() <= 1.0 / f64::from(percent) + 0.02);
        }
    }

    /// How far apart the two ratios can be, whatever the pods.
    #[test]
    fn the_ratios_are_apart_by_the_cut_only(
        percent in 1..=1000_i32,
        pods in prop::collection::vec((1..100_000_i64, 0..100_000_i64), 1..200),
    ) {
        let (bases, usages): (Vec<i64>, Vec<i64>) = pods.into_iter().unzip();
        let value = converted(percent, &bases);
        let pods = plainly(&bases, &usages);
        let of = |target| propose(&metric(target, pods.clone()), 1, Tolerance::default()).unwrap();
        let (native, plain) = (of(Target::Utilization(percent)).ratio, of(Target::AverageValue(value)).ratio);
        #[allow(clippy::cast_precision_loss, reason = "small figures")]
        let milli = 1.0 / value as f64;
        // The percentage loses less than one per cent; the value is at most a milli-unit too high, the average too low.
        prop_assert!(native - plain <= milli * (1.0 + plain.max(native)) + 1e-9, "{native} {plain}");
        prop_assert!(plain - native <= 1.0 / f64::from(percent) + 1e-9, "{native} {plain}");
    }

    /// A converted target does not care what the pods request.
    #[test]
    fn requests_do_not_matter_to_a_plain_value(
        value in 1..5000_i64,
        pods in prop::collection::vec((0..4000_i64, 0..4000_i64, 0..4000_i64), 1..30),
    ) {
        let figures = |lowered: bool| pods.iter().map(|(request, low, usage)| {
            pod(Stage::Counted, if lowered { *low } else { *request }, Some(*usage))
        }).collect();
        let of = |lowered| propose(&metric(Target::AverageValue(value), figures(lowered)), 9, Tolerance::default());
        prop_assert_eq!(of(false), of(true));
    }

    /// Nothing panics, and more than 32 bits of replicas are not asked for.
    #[test]
    fn extremes_are_computed(
        target in prop_oneof![any::<i32>().prop_map(Target::Utilization), any::<i64>().prop_map(Target::AverageValue)],
        pods in prop::collection::vec(
            (
                prop_oneof![Just(Stage::Ignored), Just(Stage::Pending), Just(Stage::Unready), Just(Stage::Counted)],
                any::<i64>(),
                any::<Option<i64>>(),
            ),
            0..5,
        ),
        current in any::<i32>(),
    ) {
        let pods = pods.into_iter().map(|(stage, request, usage)| pod(stage, request, usage)).collect();
        let decision = decide(&scaling(current), &[metric(target, pods)]);
        prop_assert!(decision.replicas <= 1000);
    }
}
