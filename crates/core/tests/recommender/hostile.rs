//! Nothing that pods, sources or checkpoints say makes it panic, or gives figures that are none.

use std::collections::HashSet;

use plimsoll_core::recommender::{must_write, read_pod, status_json};
use plimsoll_core::usage::{DAY, timestamp_of};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{MINUTE, World, db, db_key, dynamic, options, start, total_of, web, web_key};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("OOMKilled")),
        Just(json!("9999-12-31T23:59:59Z")),
        Just(json!("-009999-01-01T00:00:00Z")),
        Just(json!("99999999999999999999Ti")),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let key =
            prop_oneof![Just("name"), Just("state"), Just("terminated"), Just("reason"), Just("finishedAt")];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(key.prop_map(str::to_owned), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// All places in a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointers(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn sound(world: &World) {
    let desired = world.desired();
    let targets: HashSet<_> = desired.iter().map(|desired| (&desired.key, &desired.pod)).collect();
    assert_eq!(targets.len(), desired.len(), "never two for one target");
    for desired in &desired {
        let status = status_json(&desired.status, &Value::Null, timestamp_of(start()));
        assert!(!must_write(desired, &status), "{status}");
        assert_eq!(desired.status.conditions.len(), 5);
        for figures in desired.status.containers.iter().flat_map(|found| [&found.cpu, &found.memory]) {
            let Some(figures) = figures else { continue };
            assert!(figures.lower <= figures.target && !figures.lower.is_negative(), "{figures:?}");
            assert!(figures.upper.as_ref().is_none_or(|upper| *upper >= figures.lower), "{figures:?}");
            if let (Some(effective), Some(original)) = (&figures.effective, &figures.original) {
                assert!(effective <= original, "{figures:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pods_of_any_shape(changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4)) {
        let mut pod = web("a", "x")
            .killed("app", "lastState", start())
            .set("/status/message", "The node was low on resource: memory. Container app was using 1".into())
            .set("/status/reason", "Evicted".into())
            .set("/status/startTime", "2026-03-01T00:00:00Z".into())
            .0;
        for (at, value) in changes {
            let mut places = Vec::new();
            pointers(&pod, "", &mut places);
            *pod.pointer_mut(at.get(places.as_slice()).as_str()).unwrap() = value;
        }
        let mut world = World::simple();
        world.put(db(0));
        if let Some(facts) = read_pod(&pod) {
            world.recommender.put_pod(facts);
        }
        world.scans(3, &[("web-a-x", 0.5, 1e8), ("db-0", 0.5, 1e8)]);
        sound(&world);
        prop_assert_eq!(world.app(&db_key()).samples, 3);
    }

    #[test]
    fn samples_and_clocks_of_any_kind(
        samples in prop::collection::vec(
            (any::<i64>(), prop::option::of(any::<f64>()), prop::option::of(any::<f64>()), any::<bool>()),
            1..30,
        ),
        clocks in prop::collection::vec(any::<i64>(), 1..30),
        kill in any::<i64>(),
        peaks in any::<bool>(),
    ) {
        let kind = if peaks { "PeakPerInterval" } else { "PerScan" };
        let mut world = World::new(&[dynamic("p", &json!({"memorySamples": kind}))]);
        world.put(web("a", "x").killed("app", "lastState", kill));
        for ((nanos, cpu, memory, near), clock) in samples.into_iter().zip(clocks) {
            world.now = clock;
            world.assign();
            let nanos = if near { clock.saturating_add(nanos % DAY) } else { nanos };
            world.sample("web-a-x", "app", nanos, cpu, memory);
            world.recommender.take_kills(clock);
            world.recommender.end_scan(clock);
            sound(&world);
        }
        let saved = world.saved();
        let (again, refused) = world.successor(options(), &saved);
        prop_assert_eq!(refused, vec![]);
        sound(&again);
    }

    #[test]
    fn checkpoints_of_any_content(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..3),
        peaks in prop::collection::vec("(web-a-x app |\\PC{0,3})[0-9 .|-]{0,40}", 0..2),
        kind in prop_oneof![Just("PeakPerInterval"), Just("PerScan")],
    ) {
        let mut world = World::new(&[dynamic("p", &json!({"memorySamples": kind}))]);
        world.put(web("a", "x"));
        world.scans(5, &[("web-a-x", 0.5, 1e8)]);
        let mut saved = world.saved();
        let mut content = serde_json::to_value(&saved[0].containers[0].checkpoint).unwrap();
        for (at, value) in changes {
            let mut places = Vec::new();
            pointers(&content, "", &mut places);
            *content.pointer_mut(at.get(places.as_slice()).as_str()).unwrap() = value;
        }
        if let Ok(checkpoint) = serde_json::from_value(content) {
            saved[0].containers[0].checkpoint = checkpoint;
        }
        saved[0].peaks.extend(peaks);
        let (mut again, refused) = world.successor(options(), &saved);
        prop_assert!(refused.len() <= 1);
        let before = again.recommender.checkpoint(&web_key()).map_or(0.0, |_| total_of(&again, &web_key(), "app").1);
        for _ in 0..10 {
            again.now += MINUTE;
            again.scan(&[("web-a-x", 0.5, 2e8)]);
            sound(&again);
        }
        // At most a sample for each scan, or for each window, whatever was loaded.
        let most = if kind == "PerScan" { 10.0 } else { 2.1 };
        if again.recommender.checkpoint(&web_key()).is_some() {
            let after = total_of(&again, &web_key(), "app").1;
            prop_assert!(after <= before + most, "{} {}", before, after);
        }
    }
}
