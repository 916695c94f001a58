//! Usage of the past, also of pods that are gone.

use plimsoll_core::recommender::{PastPods, Sample, workload_of_pod_name};
use plimsoll_core::usage::DAY;
use serde_json::json;

use crate::support::{HOUR, MINUTE, Pod, World, db, db_key, dynamic, key, total_of, web, web_key};

#[test]
fn workloads_of_names() {
    let all: &[(&str, &str)] = &[
        ("Deployment", "web"),
        ("Deployment", "web-api"),
        ("StatefulSet", "db"),
        ("StatefulSet", "db-0"),
        ("DaemonSet", "agent"),
        ("CronJob", "report"),
        ("Job", "once"),
        ("CloneSet", "clones"),
        ("Rollout", "canary"),
        ("Pod", "bare"),
        ("DaemonSet", "twin"),
        ("Job", "twin"),
        ("ReplicaSet", "rs"),
        ("Namespace", "shop"),
    ];
    for (rule, pod, expected) in [
        ("a Deployment", "web-5d4f8c7b9c-x2x2x", Some("web")),
        ("a short hash", "web-9-x2x2x", Some("web")),
        ("the longest name", "web-api-5d4f8c7b9c-x2x2x", Some("web-api")),
        ("a hash of too many letters", "web-5d4f8c7b9c5-x2x2x", None),
        ("letters that are never random", "web-5d4f8c7b9a-x2x2x", None),
        ("a suffix of too few letters", "web-5d4f8c7b9c-x2x2", None),
        ("no hash", "web-x2x2x", None),
        ("no suffix", "web", None),
        ("a dash only", "web-", None),
        ("nothing between the dashes", "web--x2x2x", None),
        ("another name that begins so", "website-5d4f8c7b9c-x2x2x", None),
        ("upper case", "web-5D4F8C7B9C-x2x2x", None),
        ("a StatefulSet", "db-0", Some("db")),
        ("with two digits", "db-11", Some("db")),
        ("of a name with a number", "db-0-1", Some("db-0")),
        ("no number", "db-x", None),
        ("a minus", "db--1", None),
        ("a DaemonSet", "agent-x2x2x", Some("agent")),
        ("a DaemonSet's pod with a hash", "agent-5d4f8c7b9c-x2x2x", None),
        ("a CronJob", "report-29532960-x2x2x", Some("report")),
        ("a CronJob that was started by hand", "report-manual-x2x2x", None),
        ("a Job", "once-x2x2x", Some("once")),
        ("another kind", "clones-x2x2x", Some("clones")),
        ("a Rollout", "canary-5d4f8c7b9c-x2x2x", Some("canary")),
        ("a bare pod", "bare", None),
        ("as if a bare pod had pods", "bare-x2x2x", None),
        ("two of one name", "twin-x2x2x", None),
        ("a ReplicaSet", "rs-x2x2x", Some("rs")),
        ("a namespace is no prefix", "shop-x2x2x", None),
        ("nothing", "", None),
        ("not ASCII", "web-5d4f8c7b9c-x2x2é", None),
    ] {
        let found = workload_of_pod_name(pod, all.iter().copied());
        assert_eq!(found.map(|index| all[index].1), expected, "{rule}: {pod}");
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        let found = workload_of_pod_name(pod, reversed.iter().copied());
        assert_eq!(found.map(|index| reversed[index].1), expected, "{rule}: in another order");
    }
    assert_eq!(workload_of_pod_name("web-x2x2x", []), None);
}

#[test]
fn a_shorter_name_that_fits_twice_does_not_hide_the_longer() {
    let all = [("DaemonSet", "a"), ("Job", "a"), ("DaemonSet", "a-bcdfg")];
    assert_eq!(workload_of_pod_name("a-bcdfg-x2x2x", all), Some(2));
    let all = [("Deployment", "a"), ("DaemonSet", "a-bcdfg")];
    assert_eq!(workload_of_pod_name("a-bcdfg-x2x2x", all), Some(1));
}

fn of<'a>(pod: &'a str, container: &'a str, nanos: i64) -> Sample<'a> {
    Sample { namespace: "shop", pod, container, nanos, cpu: Some(0.5), memory: Some(1e8) }
}

#[test]
fn history_and_then_now() {
    let mut world = World::simple();
    world.put_all([web("a", "x"), db(0)]);
    world.now += 2 * DAY;
    world.assign();
    assert_eq!(world.recommender.namespaces_without_past(), ["shop"]);
    let mut past = PastPods::default();
    let from = world.now - DAY;
    for step in 0..=(DAY / (5 * MINUTE)) {
        let at = from + step * 5 * MINUTE;
        for pod in ["web-a-x", "web-b-bcdfg", "db-0", "db-1", "somebody"] {
            world.recommender.observe_past(&mut past, &of(pod, "app", at), world.now);
        }
        world.recommender.observe_past(&mut past, &of("web-b-bcdfg", "old", at), world.now);
    }
    assert_eq!(world.app(&web_key()).samples, 2 * 289, "also of a pod that is gone");
    assert_eq!(world.app(&db_key()).samples, 2 * 289);
    assert_eq!(world.recommender.aggregates(), 2, "not of containers that nobody has");
    world.recommender.past_was_read(&["shop".to_owned()]);
    assert_eq!(world.recommender.namespaces_without_past(), Vec::<String>::new());
    world.scan(&[("web-a-x", 0.5, 1e8), ("db-0", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 2 * 289, "the last time of the past is not counted twice");
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 2 * 289 + 1);
    world.recommender.observe_past(&mut past, &of("web-b-bcdfg", "app", world.now), world.now);
    assert_eq!(world.app(&web_key()).samples, 2 * 289 + 1, "the past is over");
}

#[test]
fn only_workloads_without_a_checkpoint() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.scans(5, &[("web-a-x", 0.5, 1e8)]);
    let mut again = world.restarted();
    again.put(db(0));
    again.assign();
    assert_eq!(again.recommender.namespaces_without_past(), ["shop"], "for the new one");
    let before = total_of(&again, &web_key(), "app");
    let mut past = PastPods::default();
    for minute in 0..60 {
        let at = again.now - HOUR + minute * MINUTE;
        for pod in ["web-a-x", "web-b-bcdfg", "db-0"] {
            again.recommender.observe_past(&mut past, &of(pod, "app", at), again.now);
        }
    }
    assert_eq!(total_of(&again, &web_key(), "app"), before);
    assert_eq!(again.app(&db_key()).samples, 60);
}

#[test]
fn at_granularity_pod_each_has_its_own_past() {
    let mut world = World::new(&[dynamic("p", &json!({"granularity": "Pod"}))]);
    world.put_all([db(0), db(1)]);
    world.assign();
    let mut past = PastPods::default();
    for (pod, count) in [("db-0", 5), ("db-1", 3), ("db-2", 9)] {
        for minute in 0..count {
            let at = world.now - HOUR + minute * MINUTE;
            world.recommender.observe_past(&mut past, &of(pod, "app", at), world.now);
        }
    }
    let found: Vec<_> = world.desired().iter().map(|desired| desired.status.containers[0].samples).collect();
    assert_eq!(found, [5, 3], "and none for a pod that is not there");
}

#[test]
fn what_cannot_be_known_of_the_past() {
    let mut world = World::simple();
    world.put_all([web("a", "x"), Pod::app("web-by-hand")]);
    world.assign();
    let mut past = PastPods::default();
    let at = world.now - HOUR;
    for (rule, pod) in [("a hand-given name", "web-other"), ("of nobody", "x"), ("empty", "")] {
        world.recommender.observe_past(&mut past, &of(pod, "app", at), world.now);
        assert_eq!(world.recommender.counts().accepted, 0, "{rule}");
    }
    let elsewhere = Sample { namespace: "other", ..of("web-a-bcdfg", "app", at) };
    world.recommender.observe_past(&mut past, &elsewhere, world.now);
    assert_eq!((world.recommender.counts().accepted, world.recommender.counts().unknown), (0, 4));
    world.recommender.observe_past(&mut past, &of("web-by-hand", "app", at), world.now);
    assert_eq!(world.app(&key("", "Pod", "web-by-hand")).samples, 1, "a bare pod that is there");
    let broken = Sample { cpu: Some(f64::NAN), memory: None, ..of("web-by-hand", "app", at + 1) };
    world.recommender.observe_past(&mut past, &broken, world.now);
    let ahead = of("web-by-hand", "app", world.now + DAY);
    world.recommender.observe_past(&mut past, &ahead, world.now);
    let dropped = world.recommender.counts().dropped;
    assert_eq!((dropped.invalid, dropped.future), (1, 1));
}
