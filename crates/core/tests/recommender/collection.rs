//! What is forgotten, and what is not.

use plimsoll_core::usage::DAY;
use serde_json::json;

use crate::support::{HOUR, MINUTE, Pod, World, db, db_key, dynamic, web, web_key};

/// A workload without pods that was sampled, beside one that runs.
fn world() -> World {
    let mut world = World::new(&[dynamic("p", &json!({"maximumAge": "8d"}))]);
    world.put_all([web("a", "x"), Pod::app("bare")]);
    world.scans(5, &[("web-a-x", 0.5, 1e8), ("bare", 0.5, 1e8)]);
    world.remove("web-a-x");
    world.scans(5, &[("bare", 0.5, 1e8)]);
    world
}

#[test]
fn age_is_counted_from_the_newest_sample() {
    let mut world = world();
    let last = world.now - 5 * MINUTE;
    world.now = last + 8 * DAY - 1;
    world.scan(&[("bare", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 5, "just young enough");
    world.now = last + 8 * DAY;
    world.scan(&[("bare", 0.5, 1e8)]);
    assert!(!world.recommender.knows(&web_key()), "too old");
    assert_eq!(world.recommender.aggregates(), 1, "what runs stays");
}

#[test]
fn a_source_that_is_away_collects_nothing() {
    let mut world = world();
    for _ in 0..31 {
        world.now += DAY;
        world.scan(&[]);
    }
    assert_eq!(world.recommender.aggregates(), 2);
    assert_eq!(world.app(&web_key()).samples, 5);
}

#[test]
fn a_clock_that_jumps_collects_nothing() {
    for (rule, jump) in [("a year ahead", 365 * DAY), ("a year back", -365 * DAY), ("a day back", -DAY)] {
        let mut world = world();
        let before = world.now;
        world.now += jump;
        for _ in 0..3 {
            world.scan(&[]);
            // The source's clock is right.
            world.sample("bare", "app", before + MINUTE, Some(0.5), Some(1e8));
            world.recommender.end_scan(world.now);
        }
        assert_eq!(world.recommender.aggregates(), 2, "{rule}");
        world.now = before + 2 * MINUTE;
        world.scan(&[("bare", 0.5, 1e8)]);
        assert_eq!(world.app(&web_key()).samples, 5, "{rule}: and back");
    }
}

#[test]
fn a_pod_that_runs_but_is_not_measured_keeps_its_usage() {
    let mut world = World::new(&[dynamic("p", &json!({"maximumAge": "1h"}))]);
    world.put_all([web("a", "x"), Pod::app("bare")]);
    world.scans(5, &[("web-a-x", 0.5, 1e8), ("bare", 0.5, 1e8)]);
    world.scans(300, &[("bare", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 5);
}

#[test]
fn pods_of_a_stateful_set_that_was_made_smaller() {
    let mut world = World::new(&[dynamic("p", &json!({"granularity": "Pod", "maximumAge": "1h"}))]);
    world.put_all([db(0), db(1)]);
    world.scans(5, &[("db-0", 0.5, 1e8), ("db-1", 0.5, 1e8)]);
    world.remove("db-1");
    world.scans(30, &[("db-0", 0.5, 1e8)]);
    assert_eq!(world.desired().len(), 2, "it may come back soon");
    world.scans(40, &[("db-0", 0.5, 1e8)]);
    assert_eq!(world.desired().len(), 1);
    assert_eq!(world.recommender.checkpoint(&db_key()).unwrap().containers.len(), 1);
}

#[test]
fn a_workload_that_was_deleted() {
    let mut world = world();
    world.recommender.forget(&web_key());
    world.scans(1, &[("bare", 0.5, 1e8)]);
    assert!(!world.recommender.knows(&web_key()));
    assert_eq!(world.recommender.checkpoint(&web_key()), None);
    world.put(web("b", "y"));
    world.scans(1, &[("web-b-y", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 1, "one of the same name begins anew");
}

#[test]
fn pods_that_ended_long_ago_are_no_workload() {
    // A Job that is done stays for days; it needs no recommendation.
    let mut world = World::new(&[dynamic("p", &json!({}))]);
    world.put(Pod::app("bare"));
    world.put(Pod::app("once").owner("example.com/v1", "Once", "once").phase("Succeeded"));
    world.scans(10, &[("bare", 0.5, 1e8)]);
    world.assign();
    let kinds: Vec<_> = world.desired().iter().map(|desired| desired.key.workload.kind.clone()).collect();
    assert_eq!(kinds, ["Pod"], "nothing was ever measured of it, and nothing runs");
}

#[test]
fn nothing_grows_with_pods_that_come_and_go() {
    let mut world = World::new(&[dynamic("p", &json!({}))]);
    for n in 0..500 {
        let name = format!("web-a-{n}");
        world.put(web("a", &n.to_string()));
        world.scans(1, &[(&name, 0.5, 1e8)]);
        world.remove(&name);
    }
    world.scans(5, &[]);
    assert_eq!(world.recommender.aggregates(), 1);
    assert!(world.recommender.bytes() < 2000);
    assert_eq!(world.recommender.checkpoint(&web_key()).unwrap().peaks, Vec::<String>::new());
    assert!(world.now > HOUR);
}
