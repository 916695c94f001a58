//! What is said of a recommendation.

use plimsoll_core::recommender::ConditionType::{ConfigUnsupported, LowHistory, NoPods, Ready, Stale};
use plimsoll_core::recommender::{ConditionType, Desired};
use plimsoll_core::usage::DAY;
use serde_json::{Value, json};

use crate::support::{HOUR, MINUTE, Pod, World, condition, db, dynamic, profile, web, web_key};

/// Status and reason of each type.
fn said(desired: &Desired) -> Said {
    let conditions = desired.status.conditions.iter();
    conditions.map(|condition| (condition.kind, condition.holds, condition.reason)).collect()
}

const GOOD: [(ConditionType, bool, &str); 5] = [
    (Ready, true, "Usable"),
    (LowHistory, false, "Sufficient"),
    (Stale, false, "Fresh"),
    (NoPods, false, "PodsRun"),
    (ConfigUnsupported, false, "Supported"),
];

/// `GOOD`, but for these.
fn but(others: &[(ConditionType, bool, &'static str)]) -> Said {
    GOOD.map(|good| *others.iter().find(|other| other.0 == good.0).unwrap_or(&good)).to_vec()
}

type Said = Vec<(ConditionType, bool, &'static str)>;

/// A rule's name, the profile's dynamic part, what happens, and what is said then.
type Story = (&'static str, Value, fn(&mut World), Said);

#[test]
fn states_and_their_conditions() {
    for (rule, policy, story, expected) in stories_of_pods().into_iter().chain(stories_of_sources()) {
        let mut world = World::new(&[dynamic("p", &policy)]);
        world.put(web("a", "x"));
        story(&mut world);
        let desired = world.desired_of(&web_key()).expect(rule);
        assert_eq!(said(&desired), expected, "{rule}");
        for condition in &desired.status.conditions {
            assert!(
                condition.message.len() > 10 && !condition.message.contains('\n'),
                "{rule}: {condition:?}"
            );
            assert!(condition.reason.chars().all(|c| c.is_ascii_alphabetic()), "{rule}: {condition:?}");
        }
    }
}

fn stories_of_pods() -> Vec<Story> {
    vec![
        ("all is well", json!({"minimumHistory": "1h"}), |world| measured(world, 61), GOOD.to_vec()),
        (
            "a history that is a little too short",
            json!({"minimumHistory": "1h"}),
            |world| measured(world, 60),
            but(&[(Ready, false, "LowHistory"), (LowHistory, true, "BelowMinimum")]),
        ),
        (
            "never measured",
            json!({}),
            |world| world.scans(1, &[]),
            but(&[
                (Ready, false, "NoSamples"),
                (LowHistory, true, "BelowMinimum"),
                (Stale, false, "NoSamples"),
            ]),
        ),
        (
            "no pods",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.remove("web-a-x");
                world.scans(5, &[]);
            },
            but(&[(NoPods, true, "NoPods")]),
        ),
        (
            "its pods have ended",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.put(web("a", "x").phase("Succeeded"));
                world.scans(1, &[]);
            },
            but(&[(NoPods, true, "NoPods")]),
        ),
    ]
}

fn stories_of_sources() -> Vec<Story> {
    vec![
        (
            "no usage for a short while",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.scans(9, &[]);
            },
            GOOD.to_vec(),
        ),
        (
            "no usage for ten minutes",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.scans(10, &[]);
            },
            but(&[(Stale, true, "NoUsage")]),
        ),
        (
            "the source has failed for a short while",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.source.failing = Some((world.now - 9 * MINUTE, "connection refused".to_owned()));
            },
            GOOD.to_vec(),
        ),
        (
            "the source fails",
            json!({"minimumHistory": "1h"}),
            |world| {
                measured(world, 61);
                world.source.failing = Some((world.now - 10 * MINUTE, "connection refused".to_owned()));
            },
            but(&[(Stale, true, "SourceFailing")]),
        ),
        (
            "the source has failed for longer than anything is used",
            json!({"minimumHistory": "1h", "maximumAge": "1d"}),
            |world| {
                measured(world, 61);
                world.now += DAY;
                world.source.failing = Some((world.now - DAY, "connection refused".to_owned()));
            },
            but(&[(Ready, false, "TooOld"), (Stale, true, "TooOld")]),
        ),
        (
            "not quite too old",
            json!({"minimumHistory": "1h", "maximumAge": "1d"}),
            |world| {
                measured(world, 61);
                world.now += DAY - 1;
            },
            but(&[(Stale, true, "NoUsage")]),
        ),
        (
            "one container is well, another was never measured",
            json!({"minimumHistory": "1h"}),
            |world| {
                world.put(web("a", "x").container("side", &json!({})));
                measured_as_it_is(world, 61);
            },
            but(&[(Ready, false, "NoSamples"), (LowHistory, true, "BelowMinimum")]),
        ),
        (
            "a container that is there no more does not matter",
            json!({"minimumHistory": "1h"}),
            |world| {
                world.put(web("a", "x").container("side", &json!({})));
                measured_as_it_is(world, 61);
                world.sample("web-a-x", "side", world.now, Some(0.1), None);
                world.put(web("a", "x"));
                world.scans(1, &[("web-a-x", 0.5, 1e8)]);
            },
            GOOD.to_vec(),
        ),
        (
            "nothing that is asked for is measured",
            json!({"minimumHistory": "1h", "resources": []}),
            |world| measured(world, 61),
            but(&[(ConfigUnsupported, true, "NothingMeasured")]),
        ),
        (
            "pods that cannot be told apart",
            json!({"minimumHistory": "1h", "granularity": "Pod"}),
            |world| measured(world, 61),
            but(&[(ConfigUnsupported, true, "GranularityPod")]),
        ),
    ]
}

fn measured(world: &mut World, scans: usize) {
    world.put(web("a", "x"));
    measured_as_it_is(world, scans);
}

fn measured_as_it_is(world: &mut World, scans: usize) {
    world.scans(scans, &[("web-a-x", 0.5, 1e8)]);
}

#[test]
fn a_profile_that_is_not_applied() {
    let spec = json!({"mode": "Dynamic", "apply": false, "dynamic": {"minimumHistory": "0s"}});
    let mut world = World::new(&[profile("p", &spec)]);
    measured(&mut world, 2);
    let desired = world.desired_of(&web_key()).unwrap();
    let ready = condition(&desired, Ready);
    assert_eq!((ready.holds, ready.reason), (true, "NotApplied"));
    assert!(ready.message.contains("profile p"), "{}", ready.message);
}

#[test]
fn several_profiles_in_one_workload() {
    let mut world = World::new(&[
        dynamic("p", &json!({"minimumHistory": "0s"})),
        profile(
            "q",
            &json!({"mode": "Dynamic", "priority": 5, "match": {"podSelector": {"matchLabels": {"x": "y"}}}}),
        ),
    ]);
    world.put_all([web("a", "x").created(world.now + HOUR), web("b", "z").label("x", "y")]);
    world.scans(2, &[("web-a-x", 0.5, 1e8)]);
    let desired = world.desired_of(&web_key()).unwrap();
    let found = condition(&desired, ConfigUnsupported);
    assert_eq!((found.holds, found.reason), (true, "SeveralProfiles"));
    assert!(found.message.contains("p is used") && found.message.contains('q'), "{}", found.message);
    world.remove("web-b-z");
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    assert!(!condition(&world.desired_of(&web_key()).unwrap(), ConfigUnsupported).holds);
}

#[test]
fn pods_of_a_stateful_set_are_judged_one_by_one() {
    let mut world = World::new(&[dynamic("p", &json!({"granularity": "Pod", "minimumHistory": "10m"}))]);
    (0..3).for_each(|n| world.put(db(n)));
    world.scans(20, &[("db-0", 0.5, 1e8), ("db-1", 0.5, 1e8), ("db-2", 0.5, 1e8)]);
    world.remove("db-2");
    world.scans(20, &[("db-0", 0.5, 1e8)]);
    let desired = world.desired();
    assert_eq!(
        desired.iter().map(|desired| desired.pod.as_deref()).collect::<Vec<_>>(),
        [Some("db-0"), Some("db-1"), Some("db-2")]
    );
    assert_eq!(said(&desired[0]), GOOD, "db-0 is well");
    assert_eq!(said(&desired[1]), but(&[(Stale, true, "NoUsage")]), "db-1 is not measured");
    assert_eq!(said(&desired[2]), but(&[(NoPods, true, "NoPods")]), "db-2 does not run");
}

#[test]
fn the_profile_changes_while_no_pod_runs() {
    let mut world = World::new(&[dynamic("p", &json!({"minimumHistory": "1h"}))]);
    measured(&mut world, 70);
    world.remove("web-a-x");
    world.scans(5, &[]);
    world.object(&dynamic("p", &json!({"minimumHistory": "2d", "expansion": {"cpu": "1.5"}})));
    world.scans(1, &[]);
    let desired = world.desired_of(&web_key()).unwrap();
    assert_eq!(condition(&desired, Ready).reason, "LowHistory", "the profile of now");
    world.object(&profile("p", &json!({"mode": "Static"})));
    world.scans(1, &[]);
    assert_eq!(world.desired_of(&web_key()), None, "nobody asks for it");
}

#[test]
fn messages_say_what_to_do() {
    let mut world = World::new(&[dynamic("p", &json!({}))]);
    measured(&mut world, 5);
    world.source.failing = Some((world.now - HOUR, "connection refused".to_owned()));
    let desired = world.desired_of(&web_key()).unwrap();
    for (kind, parts) in [
        (Ready, vec!["app", "keep their requests"]),
        (LowHistory, vec!["app", "dynamic.minimumHistory", "lower it"]),
        (Stale, vec!["connection refused", "2026-02-28T23:05:00Z"]),
    ] {
        let message = &condition(&desired, kind).message;
        assert!(parts.iter().all(|part| message.contains(part)), "{kind:?}: {message}");
    }
}

#[test]
fn figures_of_a_container_in_full() {
    let mut world = World::simple();
    world.put(Pod::app("web-a-x").owner("apps/v1", "ReplicaSet", "web-a"));
    world.scans(30, &[("web-a-x", 0.5, 256.0 * 1_048_576.0)]);
    let app = world.app(&web_key());
    let cpu = app.cpu.unwrap();
    assert_eq!(cpu.target.to_string(), "512m", "P95 is the end of its bucket, up to whole milli");
    assert_eq!(cpu.lower.to_string(), "512m");
    assert!(cpu.upper.is_none(), "there is none before an hour's history");
    assert_eq!(cpu.original.unwrap().to_string(), "1");
    assert_eq!(cpu.effective.unwrap().to_string(), "589m", "512m x 1.15, up");
    let memory = app.memory.unwrap();
    assert_eq!(memory.target.nanos() / 1_000_000_000, 281_323_847);
    assert_eq!(memory.effective.unwrap().to_string(), "309Mi");
    assert_eq!(app.first_sample.unwrap().to_string(), "2026-03-01T00:01:00Z");
    assert_eq!(app.last_sample.unwrap().to_string(), "2026-03-01T00:30:00Z");
    world.scans(60, &[("web-a-x", 0.5, 256.0 * 1_048_576.0)]);
    let upper = world.app(&web_key()).cpu.unwrap().upper.unwrap();
    // 89 minutes between the first and the last of 90 samples: 0.511134537589 x (1 + 1440 / 89).
    assert_eq!(upper.to_string(), "8782m");
}
