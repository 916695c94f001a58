//! Which samples are taken, and whose they are.

use plimsoll_core::recommender::Counts;
use plimsoll_core::usage::{AHEAD, DAY, Dropped};
use serde_json::json;

use crate::support::{HOUR, MINUTE, Pod, World, close, db, db_key, start, total_of, web, web_key};

#[test]
fn what_becomes_of_a_sample() {
    let dropped = |dropped: Dropped| Counts { accepted: 1, dropped, ..Counts::default() };
    let other =
        |accepted, unknown, not_running| Counts { accepted, unknown, not_running, ..Counts::default() };
    let (now, name) = (start() + HOUR, "web-a-x");
    for (rule, pod, container, nanos, cpu, memory, expected) in [
        ("later", name, "app", now + 1, Some(0.5), Some(1e8), other(2, 0, 0)),
        ("no such pod", "web-a-y", "app", now + 1, Some(0.5), None, other(1, 1, 0)),
        ("no such container", name, "nobody", now + 1, Some(0.5), None, other(1, 1, 0)),
        ("it does not run", "pending", "app", now + 1, Some(0.5), None, other(1, 0, 1)),
        (
            "the same time again",
            name,
            "app",
            now,
            Some(0.7),
            Some(2e8),
            dropped(Dropped { duplicate: 1, ..Dropped::default() }),
        ),
        (
            "out of order",
            name,
            "app",
            now - 1,
            Some(0.7),
            Some(2e8),
            dropped(Dropped { old: 1, ..Dropped::default() }),
        ),
        ("a little ahead", name, "app", now + AHEAD, Some(0.7), None, other(2, 0, 0)),
        (
            "far ahead",
            name,
            "app",
            now + AHEAD + 1,
            Some(0.7),
            None,
            dropped(Dropped { future: 1, ..Dropped::default() }),
        ),
        (
            "the end of time",
            name,
            "app",
            i64::MAX,
            Some(0.7),
            None,
            dropped(Dropped { future: 1, ..Dropped::default() }),
        ),
        (
            "the beginning of time",
            name,
            "app",
            i64::MIN,
            Some(0.7),
            None,
            dropped(Dropped { invalid: 1, ..Dropped::default() }),
        ),
        (
            "not a number",
            name,
            "app",
            now + 1,
            Some(f64::NAN),
            None,
            dropped(Dropped { invalid: 1, ..Dropped::default() }),
        ),
        (
            "infinite",
            name,
            "app",
            now + 1,
            None,
            Some(f64::INFINITY),
            dropped(Dropped { invalid: 1, ..Dropped::default() }),
        ),
        (
            "negative",
            name,
            "app",
            now + 1,
            Some(-0.1),
            Some(-1.0),
            dropped(Dropped { invalid: 1, ..Dropped::default() }),
        ),
        ("nothing measured is nothing", name, "app", now + 1, None, None, other(1, 0, 0)),
    ] {
        let mut world = World::simple();
        world.put_all([web("a", "x"), Pod::app("pending").phase("Pending")]);
        world.now = now;
        world.scan(&[(name, 0.5, 1e8)]);
        world.sample(pod, container, nanos, cpu, memory);
        assert_eq!(world.recommender.counts(), expected, "{rule}");
    }
}

#[test]
fn a_broken_value_leaves_the_other_one() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.assign();
    world.sample("web-a-x", "app", world.now, Some(f64::NAN), Some(1e8));
    let app = world.app(&web_key());
    assert!(app.cpu.is_none() && app.memory.is_some());
}

#[test]
fn cpu_and_memory_of_one_time_are_one_sample() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.assign();
    for minute in 0..10 {
        world.now = start() + minute * MINUTE;
        world.sample("web-a-x", "app", world.now, Some(0.5), None);
        world.sample("web-a-x", "app", world.now, None, Some(1e8));
    }
    assert_eq!(world.app(&web_key()).samples, 10, "also where a source tells of them one by one");
}

#[test]
fn missing_is_never_zero() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.scans(10, &[("web-a-x", 0.5, 1e8)]);
    let before = total_of(&world, &web_key(), "app");
    for _ in 0..100 {
        world.now += MINUTE;
        world.scan(&[]);
        world.sample("web-a-x", "app", world.now, None, Some(1e8));
    }
    let after = total_of(&world, &web_key(), "app");
    assert!(after.0 < before.0 && after.1 > before.1 + 90.0, "only memory was added: {before:?} {after:?}");
    assert_eq!(world.app(&web_key()).cpu.unwrap().lower.to_string(), "512m");
}

#[test]
fn the_last_samples_of_a_pod_that_is_gone() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    world.remove("web-a-x");
    world.scans(2, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(world.recommender.counts().accepted, 3, "it was measured a little longer");
    world.scans(5, &[]);
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(world.recommender.counts().unknown, 1, "then it is forgotten");
    assert_eq!(world.app(&web_key()).samples, 3, "what it used is not");
}

#[test]
fn a_pod_of_a_stateful_set_that_is_made_anew() {
    let mut world = World::simple();
    world.put(db(0).killed("app", "lastState", start()));
    world.scans(10, &[("db-0", 0.5, 1e8)]);
    let before = total_of(&world, &db_key(), "app");
    for listed_anew in [false, true] {
        let uid = format!("uid-{listed_anew}");
        let successor = db(0).set("/metadata/uid", uid.into()).created(world.now);
        if listed_anew {
            world.recommender.replace_pods(vec![successor.facts()]);
            world.pods.insert("db-0".to_owned(), successor);
        } else {
            world.remove("db-0");
            world.put(successor);
        }
        // The source still tells of the one before.
        world.scan(&[("db-0", 0.5, 1e8)]);
        let after = total_of(&world, &db_key(), "app");
        assert!(close(before.0, after.0) && close(before.1, after.1), "{listed_anew}: {before:?} {after:?}");
    }
    world.scans(1, &[("db-0", 0.5, 1e8)]);
    assert_eq!((world.app(&db_key()).samples, world.recommender.counts().kills), (11, 1));
}

#[test]
fn a_pod_with_a_new_container_and_without_an_old_one() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.scans(5, &[("web-a-x", 0.5, 1e8)]);
    world.remove("web-a-x");
    world.put(Pod::new("web-b-x").owner("apps/v1", "ReplicaSet", "web-b").container("next", &json!({})));
    world.scans(3, &[]);
    world.sample("web-b-x", "next", world.now, Some(0.2), None);
    let names: Vec<_> =
        world.desired()[0].status.containers.iter().map(|container| container.name.clone()).collect();
    assert_eq!(names, ["next", "app"], "those that run come first");
    world.scans(10 * 24 * 60 / 60, &[]);
    assert_eq!(world.app(&web_key()).samples, 5, "usage that is young enough stays");
}

#[test]
fn a_lowered_pod_weighs_by_its_original() {
    let record = json!({"containers": {"app": {"requests": {"cpu": "2"}, "set": {"cpu": "500m"}}}});
    let mut world = World::new(&[crate::support::dynamic("p", &json!({"halfLife": {"cpu": "24h"}}))]);
    let mut pod = web("a", "x");
    pod.0["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
    pod.0["metadata"]["annotations"]["plimsoll.dev/original-resources"] = record.to_string().into();
    world.put(pod);
    world.scan(&[("web-a-x", 0.5, 1e8)]);
    let (cpu, memory) = total_of(&world, &web_key(), "app");
    assert!(close(cpu, 2.0) && close(memory, 1.0), "{cpu} {memory}");
}

#[test]
fn a_container_without_request_weighs_the_least() {
    let mut world = World::new(&[crate::support::dynamic("p", &json!({}))]);
    world.put(Pod::new("x").container("app", &json!({})));
    world.scan(&[("x", 0.5, 1e8)]);
    let (cpu, _) = total_of(&world, &crate::support::key("", "Pod", "x"), "app");
    assert!(close(cpu, 0.1), "{cpu}");
    assert!(world.now < start() + DAY);
}
