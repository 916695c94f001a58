//! When a status is written, and when a `Recommendation` is deleted.

use plimsoll_core::profile::from_spec;
use plimsoll_core::recommender::{Desired, is_garbage, must_write, status_json};
use plimsoll_core::usage::{DAY, SECOND, timestamp_of};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{HOUR, MINUTE, World, dynamic, profile, web, web_key};

fn stored(world: &World, desired: &Desired, before: &Value) -> Value {
    status_json(&desired.status, before, timestamp_of(world.now))
}

/// Two days of one workload.
fn world() -> World {
    let mut world = World::new(&[dynamic("p", &json!({}))]);
    world.put(web("a", "x").container("side", &json!({"cpu": "100m", "memory": "64Mi"})));
    for _ in 0..400 {
        world.scans(1, &[("web-a-x", 0.5, 1e8)]);
        world.sample("web-a-x", "side", world.now, Some(0.05), Some(2e7));
        world.now += 6 * MINUTE;
    }
    world
}

#[test]
fn each_rule() {
    let world = world();
    let desired = world.desired_of(&web_key()).unwrap();
    let good = stored(&world, &desired, &Value::Null);
    let quantity = |resource: &str, figure: &str, text: &str| {
        let mut stored = good.clone();
        stored["containers"][0][resource][figure] = text.into();
        stored
    };
    let with = |change: &dyn Fn(&mut Value)| {
        let mut stored = good.clone();
        change(&mut stored);
        stored
    };
    assert_eq!(good["containers"][0]["name"], "app");
    assert_eq!(good["containers"][0]["cpu"]["target"], "512m");
    for (rule, stored, expected) in [
        ("the same", good.clone(), false),
        ("no status", Value::Null, true),
        ("an empty one", json!({}), true),
        ("garbage", json!({"containers": "x", "conditions": 5}), true),
        ("a bucket above", quantity("cpu", "target", "530m"), false),
        ("two buckets above", quantity("cpu", "target", "600m"), true),
        ("a bucket below", quantity("cpu", "target", "480m"), false),
        ("two buckets below", quantity("cpu", "target", "440m"), true),
        ("another notation", quantity("cpu", "target", "0.512"), false),
        ("no quantity", quantity("cpu", "target", "much"), true),
        ("lower", quantity("cpu", "lower", "100m"), true),
        ("upper", quantity("cpu", "upper", "100"), true),
        ("upper, by little", with(&|_| ()), false),
        ("effective", quantity("memory", "effective", "1Gi"), true),
        ("an original by the least", quantity("cpu", "original", "1001m"), true),
        ("an original in other words", quantity("cpu", "original", "1000m"), false),
        ("no target", with(&|s| s["containers"][0]["cpu"]["target"] = Value::Null), true),
        ("no cpu", with(&|s| s["containers"][0]["cpu"] = Value::Null), true),
        ("no original", with(&|s| s["containers"][0]["cpu"]["original"] = Value::Null), true),
        ("a container too few", with(&|s| drop(s["containers"].as_array_mut().unwrap().pop())), true),
        (
            "a container too many",
            with(&|s| s["containers"].as_array_mut().unwrap().push(json!({"name": "new"}))),
            true,
        ),
        ("a container of another name", with(&|s| s["containers"][1]["name"] = "other".into()), true),
        ("a condition turned", with(&|s| s["conditions"][0]["status"] = "Maybe".into()), true),
        ("for another reason", with(&|s| s["conditions"][0]["reason"] = "Other".into()), true),
        ("a message only", with(&|s| s["conditions"][0]["message"] = "other".into()), false),
        ("a condition too few", with(&|s| drop(s["conditions"].as_array_mut().unwrap().pop())), true),
        ("the time of a condition", with(&|s| s["conditions"][0]["lastTransitionTime"] = 5.into()), false),
        ("the number of samples", with(&|s| s["containers"][0]["samples"] = 1.into()), false),
        ("no time of the last sample", with(&|s| s["containers"][0]["lastSample"] = Value::Null), true),
        ("a time that is none", with(&|s| s["containers"][0]["lastSample"] = "now".into()), true),
        (
            "a last sample of an hour ago",
            with(&|s| s["containers"][0]["lastSample"] = crate::support::text(world.now - HOUR).into()),
            false,
        ),
        (
            "a last sample of 7 hours ago",
            with(&|s| s["containers"][0]["lastSample"] = crate::support::text(world.now - 7 * HOUR).into()),
            true,
        ),
    ] {
        assert_eq!(must_write(&desired, &stored), expected, "{rule}");
    }
}

#[test]
fn a_container_whose_history_is_long_enough_now() {
    // The other container keeps the condition from turning.
    let mut world = World::new(&[dynamic("p", &json!({"minimumHistory": "1h"}))]);
    world.put(web("a", "x").container("quiet", &json!({})));
    world.scans(59, &[("web-a-x", 0.5, 1e8)]);
    let before = stored(&world, &world.desired_of(&web_key()).unwrap(), &Value::Null);
    world.scans(3, &[("web-a-x", 0.5, 1e8)]);
    let desired = world.desired_of(&web_key()).unwrap();
    assert!(must_write(&desired, &before), "admission would not use it yet");
    let after = stored(&world, &desired, &before);
    assert!(!must_write(&desired, &after));
}

#[test]
fn a_condition_keeps_its_time_until_it_turns() {
    let mut world = world();
    let first = stored(&world, &world.desired_of(&web_key()).unwrap(), &Value::Null);
    let at = |status: &Value, kind: &str| {
        let conditions = status["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap();
        (found["status"].clone(), found["lastTransitionTime"].as_str().unwrap().to_owned())
    };
    world.remove("web-a-x");
    world.now += HOUR;
    world.assign();
    let second = stored(&world, &world.desired_of(&web_key()).unwrap(), &first);
    assert_eq!(at(&first, "Ready"), at(&second, "Ready"));
    assert_eq!(at(&second, "NoPods"), (json!("True"), crate::support::text(world.now)));
}

#[test]
fn who_is_asked_for_no_more() {
    let of = |spec: Value| from_spec("p", &spec).unwrap();
    let dynamic = of(json!({"mode": "Dynamic", "dynamic": {"maximumAge": "8d"}}));
    let either = of(json!({"mode": "StaticThenDynamic", "dynamic": {"maximumAge": "1h"}}));
    let (off, fixed) = (of(json!({"mode": "Off"})), of(json!({"mode": "Static"})));
    let now = crate::support::start();
    for (rule, profile, last, expected) in [
        ("no profile", None, now, true),
        ("off", Some(&off), now, true),
        ("static", Some(&fixed), now, true),
        ("fresh", Some(&dynamic), now, false),
        ("not quite too old", Some(&dynamic), now - 8 * DAY + 1, false),
        ("too old", Some(&dynamic), now - 8 * DAY, true),
        ("in mode StaticThenDynamic", Some(&either), now - HOUR + SECOND, false),
        ("too old there", Some(&either), now - HOUR, true),
        ("from the future", Some(&dynamic), now + 365 * DAY, false),
        ("the beginning of time", Some(&dynamic), i64::MIN, true),
    ] {
        assert_eq!(is_garbage(profile, last, now), expected, "{rule}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_state_is_written_once(
        cores in prop_oneof![Just(0.0), 0.0..0.02_f64, 0.0..40.0],
        bytes in prop_oneof![Just(0.0), 0.0..2e7_f64, 0.0..1e13],
        request in 1_u32..64_000,
        mode in prop_oneof![Just("Dynamic"), Just("StaticThenDynamic")],
        samples in prop_oneof![Just("PerScan"), Just("PeakPerInterval")],
        hours in 0_i64..60,
        step in 1_i64..7,
    ) {
        let mut world = World::new(&[profile("p", &json!({"mode": mode, "dynamic": {"memorySamples": samples}}))]);
        let requests = json!({"cpu": format!("{request}m"), "memory": format!("{request}k")});
        world.put(crate::support::Pod::new("web-a-x").container("app", &requests)
            .owner("apps/v1", "ReplicaSet", "web-a"));
        let usage = [("web-a-x", cores, bytes)];
        for _ in 0..hours * 60 / step {
            world.now += (step - 1) * MINUTE;
            world.scans(1, &usage);
        }
        world.assign();
        let mut desired = world.desired_of(&web_key()).unwrap();
        let written = stored(&world, &desired, &Value::Null);
        prop_assert!(!must_write(&desired, &written), "{}", written);
        let again = stored(&world, &desired, &written);
        prop_assert_eq!(&again, &written);
        // A day's confidence and more: less than a bucket's difference in some minutes.
        if (26..).contains(&hours) && step == 1 {
            for _ in 0..5 {
                world.scans(1, &usage);
                desired = world.desired_of(&web_key()).unwrap();
                prop_assert!(!must_write(&desired, &written), "{} then {:?}", written, desired.status);
            }
        }
    }
}
