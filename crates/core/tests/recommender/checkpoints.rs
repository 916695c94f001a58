//! What is kept over a restart, when it is written, and what is refused.

use std::collections::BTreeMap;

use plimsoll_core::recommender::{Options, Parked, ParkedContainer, Stored};
use plimsoll_core::usage::Checkpoint;
use serde_json::json;

use crate::support::{
    HOUR, MI, MINUTE, Pod, World, close, db, db_key, dynamic, key, options, parked, start, total_of, web,
    web_key,
};

fn busy(profile: &serde_json::Value) -> World {
    let mut world = World::new(&[dynamic("p", profile)]);
    world.put_all([web("a", "x"), web("a", "y"), db(0)]);
    for round in 0..90 {
        let bytes = 1e8 + 1e6 * f64::from(round % 17);
        world.scans(1, &[("web-a-x", 0.3, bytes), ("web-a-y", 0.5, 2.0 * bytes), ("db-0", 1.0, 5e8)]);
    }
    world
}

#[test]
fn a_saved_state_that_is_loaded_and_saved_is_the_same() {
    for granularity in ["Workload", "Pod", "Namespace"] {
        for samples in ["PerScan", "PeakPerInterval"] {
            let world = busy(&json!({"granularity": granularity, "memorySamples": samples}));
            let first = world.saved();
            assert!(!first.is_empty());
            let again = world.restarted();
            let keys: Vec<_> = first.iter().map(|stored| stored.key.clone()).collect();
            let second: Vec<_> = keys.iter().map(|key| again.recommender.checkpoint(key).unwrap()).collect();
            assert_eq!(first, second, "{granularity} {samples}");
            assert_eq!(
                again.recommender.checkpoints_left(),
                vec![],
                "nothing to write: {granularity} {samples}"
            );
        }
    }
}

#[test]
fn estimates_are_the_same_after_a_restart() {
    for granularity in ["Workload", "Pod", "Namespace"] {
        let world = busy(&json!({"granularity": granularity, "minimumHistory": "0s"}));
        let again = world.restarted();
        assert_eq!(world.desired(), again.desired(), "{granularity}");
        assert_eq!(again.recommender.namespaces_without_past(), Vec::<String>::new());
    }
}

#[test]
fn the_last_minutes_once_more_count_nothing() {
    let world = busy(&json!({"memorySamples": "PeakPerInterval"}));
    let mut again = world.restarted();
    let before = [total_of(&again, &web_key(), "app"), total_of(&again, &db_key(), "app")];
    for minute in 0..10 {
        for pod in ["web-a-x", "web-a-y", "db-0"] {
            again.sample(pod, "app", world.now - minute * MINUTE, Some(8.0), Some(8e9));
        }
    }
    let after = [total_of(&again, &web_key(), "app"), total_of(&again, &db_key(), "app")];
    assert_eq!(before, after);
    assert_eq!(again.recommender.counts().accepted, 0);
}

#[test]
fn a_window_goes_on_after_a_restart() {
    let mut world = World::new(&[dynamic("p", &json!({"memorySamples": "PeakPerInterval"}))]);
    world.put(db(0));
    for round in 0..20 {
        world.scans(30, &[("db-0", 0.5, 1e8 + 1e7 * f64::from(round))]);
        let (mut again, _) = world.successor(options(), &world.saved());
        std::mem::swap(&mut world, &mut again);
    }
    let (_, memory) = total_of(&world, &db_key(), "app");
    assert!((1.0..=2.01).contains(&memory), "one sample, at the end of the window: {memory}");
}

#[test]
fn peaks_of_pods_that_are_not_seen_again_are_given_up() {
    let mut world = World::new(&[dynamic("p", &json!({"memorySamples": "PeakPerInterval"}))]);
    world.put_all([web("a", "x"), web("a", "y")]);
    world.scans(5, &[("web-a-x", 0.5, 1e8), ("web-a-y", 0.5, 1e8)]);
    let saved = world.saved();
    assert_eq!(saved[0].peaks.len(), 2);
    world.pods.remove("web-a-y");
    let (mut again, _) = world.successor(options(), &saved);
    assert_eq!(again.saved()[0].peaks, saved[0].peaks, "its pod may be seen a little later");
    again.scans(2 * 24 * 60 + 10, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(again.saved()[0].peaks.len(), 1, "but its window is long over");
}

fn set_aside(rule: &str, change: impl FnOnce(&mut Stored)) {
    let mut world = World::simple();
    world.put(web("a", "x").container("side", &json!({"cpu": "100m"})));
    world.scans(3, &[("web-a-x", 0.5, 1e8)]);
    world.sample("web-a-x", "side", world.now, Some(0.1), Some(1e7));
    let mut saved = world.saved();
    change(&mut saved[0]);
    let (again, refused) = world.successor(options(), &saved);
    assert_eq!(refused.len(), 1, "{rule}");
    assert_eq!(*refused[0].key, web_key(), "{rule}");
    assert!(refused[0].message.starts_with("spec."), "{rule}: it says where: {}", refused[0].message);
    let found = again.desired();
    let samples: Vec<_> = found[0].status.containers.iter().map(|container| container.samples).collect();
    assert_eq!(samples, [0, 0], "{rule}: nothing of it is used");
    assert_eq!(again.recommender.checkpoint(&web_key()), None, "{rule}: and nothing emptier is written");
    assert_eq!(again.recommender.checkpoints_due(), vec![], "{rule}");
}

#[test]
fn broken_checkpoints_are_set_aside_whole() {
    fn cpu(stored: &mut Stored) -> &mut plimsoll_core::usage::HistogramCheckpoint {
        stored.containers[1].checkpoint.cpu.as_mut().unwrap()
    }
    set_aside("an unknown version", |stored| stored.containers[1].checkpoint.version = 2);
    set_aside("version 0", |stored| stored.containers[0].checkpoint = Checkpoint::default());
    set_aside("a negative total", |stored| cpu(stored).total_weight = "-1".to_owned());
    set_aside("a total of nothing", |stored| cpu(stored).total_weight = "0".to_owned());
    set_aside("a total that is no number", |stored| cpu(stored).total_weight = "NaN".to_owned());
    set_aside("an infinite total", |stored| cpu(stored).total_weight = "inf".to_owned());
    set_aside("a bucket out of range", |stored| cpu(stored).weights = "176:10000".to_owned());
    set_aside("a negative weight", |stored| cpu(stored).weights = "8:-5".to_owned());
    set_aside("buckets in disorder", |stored| cpu(stored).weights = "8:5 7:10000".to_owned());
    set_aside("no weights", |stored| cpu(stored).weights = String::new());
    set_aside("a half-life of 0", |stored| cpu(stored).half_life_seconds = 0);
    set_aside("a negative half-life", |stored| cpu(stored).half_life_seconds = -1);
    set_aside("a half-life of a thousand years", |stored| cpu(stored).half_life_seconds = i64::MAX);
    set_aside("a reference off the grid", |stored| cpu(stored).reference = "2026-03-01T00:00:01Z".to_owned());
    set_aside("a reference in the far future", |stored| {
        cpu(stored).reference = "2036-03-01T00:00:00Z".to_owned();
    });
    set_aside("a time that is none", |stored| {
        stored.containers[0].checkpoint.last_sample = Some("now".to_owned());
    });
    set_aside("no times", |stored| stored.containers[0].checkpoint.first_sample = None);
    set_aside("times in disorder", |stored| {
        stored.containers[0].checkpoint.first_sample = Some("2027-03-01T00:00:00Z".to_owned());
    });
    set_aside("a container twice", |stored| {
        let first = stored.containers[0].clone();
        stored.containers.push(first);
    });
    set_aside("peaks without a container", |stored| stored.peaks[0] = "web-a-x".to_owned());
    set_aside("peaks without figures", |stored| stored.peaks[0] = "web-a-x app".to_owned());
    set_aside("peaks of nothing", |stored| stored.peaks.push(String::new()));
    set_aside("peaks that are no numbers", |stored| stored.peaks[0] = "web-a-x app 5 much".to_owned());
    set_aside("peaks at no time", |stored| stored.peaks[0] = "web-a-x app soon 1.0".to_owned());
    set_aside("infinite peaks", |stored| stored.peaks[0] = "web-a-x app 5 inf".to_owned());
    set_aside("a window of next year", |stored| {
        stored.peaks[0] = format!("web-a-x app {} 1.0", start() + 365 * 24 * HOUR);
    });
    set_aside("windows that overlap", |stored| stored.peaks[0] = "web-a-x app 5 1.0 | 4 1.0".to_owned());
}

#[test]
fn a_checkpoint_waits_for_the_first_pod() {
    let world = busy(&json!({}));
    let saved = world.saved();
    let mut empty = World::new(&[dynamic("p", &json!({}))]);
    for stored in &saved {
        empty.recommender.park((*stored.key).clone(), parked(stored));
    }
    empty.scans(10, &[]);
    assert!(empty.recommender.is_parked(&web_key()) && !empty.recommender.knows(&web_key()));
    assert_eq!(empty.recommender.checkpoint(&web_key()), None, "nothing emptier can be written");
    empty.put(web("b", "z"));
    empty.scans(1, &[]);
    assert!(!empty.recommender.is_parked(&web_key()) && empty.recommender.knows(&web_key()));
    assert_eq!(empty.app(&web_key()).samples, 180);
}

#[test]
fn an_empty_checkpoint_is_no_harm() {
    let mut world = World::simple();
    world.recommender.park(web_key(), Parked::default());
    world.put(web("a", "x"));
    assert_eq!(world.assign(), vec![]);
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(world.app(&web_key()).samples, 1);
}

#[test]
fn another_half_life_was_in_force() {
    let world = busy(&json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s"}));
    let saved = world.saved();
    let mut other = World {
        objects: world.objects.clone(),
        recommender: plimsoll_core::recommender::Recommender::new(options()),
        pods: world.pods.clone(),
        now: world.now,
        source: world.source.clone(),
    };
    other.object(&dynamic(
        "p",
        &json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s", "halfLife": {"cpu": "6h"}}),
    ));
    let (again, refused) = other.successor(options(), &saved);
    assert_eq!(refused, vec![]);
    let target = |world: &World| world.app(&web_key()).cpu.unwrap().target;
    assert_eq!(target(&again), target(&world));
}

/// So many bare pods, each of them sampled once.
fn many(options: Options, count: usize) -> (World, Vec<String>) {
    let mut world = World::with(options, &[dynamic("p", &json!({}))]);
    let names: Vec<_> = (0..count).map(|n| format!("bare-{n}")).collect();
    world.put_all(names.iter().map(|name| Pod::app(name)));
    (world, names)
}

#[test]
fn all_that_changes_is_written_within_the_interval_and_the_oldest_first() {
    for (count, interval, per_scan) in [(95, 10 * MINUTE, 10), (10, 10 * MINUTE, 1), (3, 30, 3), (7, HOUR, 1)]
    {
        let (mut world, names) = many(Options { checkpoint_interval: interval, ..options() }, count);
        let usage: Vec<_> = names.iter().map(|name| (name.as_str(), 0.5, 1e8)).collect();
        let mut written = BTreeMap::new();
        let scans = interval / MINUTE + i64::from(interval < MINUTE);
        for _ in 0..3 * scans {
            world.scans(1, &usage);
            let due = world.recommender.checkpoints_due();
            assert!(due.len() <= per_scan, "{count} in {interval}: {} at once", due.len());
            let oldest_left = names
                .iter()
                .map(|name| key("", "Pod", name))
                .filter(|key| !due.iter().any(|due| **due == *key))
                .map(|key| written.get(&key).copied().unwrap_or_default())
                .min();
            for key in due {
                let before = written.insert((*key).clone(), world.now).unwrap_or_default();
                assert!(oldest_left.is_none_or(|left| before <= left), "the oldest first");
                world.recommender.checkpoint_written(&key, world.now);
            }
        }
        assert_eq!(written.len(), count, "all of them");
        let oldest = written.values().min().unwrap();
        assert!(world.now - oldest < interval.max(MINUTE), "{count}: none is older than the interval");
    }
}

#[test]
fn only_what_changed_is_written() {
    let (mut world, names) = many(options(), 20);
    world.scans(1, &[(&names[3], 0.5, 1e8)]);
    let due = world.recommender.checkpoints_due();
    assert_eq!(due.iter().map(|key| key.workload.name.as_str()).collect::<Vec<_>>(), ["bare-3"]);
    world.recommender.checkpoint_written(&due[0], world.now);
    world.scans(1, &[]);
    assert_eq!(world.recommender.checkpoints_due(), vec![]);
    assert_eq!(world.recommender.checkpoints_left(), vec![]);
}

#[test]
fn what_has_nothing_to_be_written_keeps_nobody_waiting() {
    // After a change of the model all workloads had changed, and those without samples stood first for ever.
    let (mut world, names) = many(options(), 100);
    world.scans(1, &[]);
    world.object(&dynamic("p", &json!({"halfLife": {"cpu": "6h"}})));
    world.scans(1, &[(&names[7], 0.5, 1e8)]);
    let due = world.recommender.checkpoints_due();
    assert_eq!(due.iter().map(|key| key.workload.name.as_str()).collect::<Vec<_>>(), ["bare-7"]);
    assert_eq!(world.recommender.checkpoints_left(), due);
}

#[test]
fn a_checkpoint_holds_what_its_workload_has() {
    let mut world = World::simple();
    assert_eq!(world.recommender.checkpoint(&web_key()), None, "not known");
    world.put(web("a", "x").container("quiet", &json!({})));
    world.assign();
    assert_eq!(world.recommender.checkpoint(&web_key()), None, "no samples");
    world.scans(1, &[("web-a-x", 0.5, 100.0 * MI)]);
    let Stored { owner, containers, peaks, .. } = world.recommender.checkpoint(&web_key()).unwrap();
    assert_eq!(owner.unwrap().uid, "uid-of-Deployment-web");
    let names: Vec<_> =
        containers.iter().map(|ParkedContainer { pod, container, .. }| (pod, container)).collect();
    assert_eq!(names, [(&None, &"app".to_owned())], "without the containers that have none");
    assert_eq!(peaks.len(), 1);
    assert!(peaks[0].starts_with(&format!("web-a-x app {} ", world.now + 24 * HOUR)), "{peaks:?}");
    assert!(close(total_of(&world, &web_key(), "app").1, 1.0));
    assert!(start() < world.now);
}
