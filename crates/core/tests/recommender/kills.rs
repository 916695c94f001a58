//! Kills for memory: each is counted, and only once.

use plimsoll_core::usage::AHEAD;
use serde_json::json;

use crate::support::{
    HOUR, KILL, MI, MINUTE, Pod, World, close, db, db_key, dynamic, key, start, total_of, web, web_key,
};

fn peaks() -> World {
    World::new(&[dynamic("p", &json!({"memorySamples": "PeakPerInterval", "minimumHistory": "0s"}))])
}

fn kills(world: &World) -> u64 {
    world.recommender.counts().kills
}

#[test]
fn statuses_repeat_a_kill_at_each_scan() {
    let mut world = World::simple();
    let pod = web("a", "x").killed("app", "lastState", start() - MINUTE);
    for _ in 0..20 {
        world.put(pod.clone());
        world.scans(1, &[("web-a-x", 0.5, 100.0 * MI)]);
    }
    assert_eq!(kills(&world), 1);
    let (_, memory) = total_of(&world, &web_key(), "app");
    assert!((memory - KILL - 20.0).abs() < 0.02 * KILL, "{memory}");
    let target = world.app(&web_key()).memory.unwrap().target.nanos() / 1_000_000_000;
    assert!(target >= 1_288_490_188, "at least 1.2 times the request of 1Gi: {target}");
    let mut again = world.restarted();
    again.put(pod);
    again.scans(5, &[("web-a-x", 0.5, 100.0 * MI)]);
    assert_eq!(kills(&again), 0, "nor does a restart make it two");
}

#[test]
fn a_second_kill_counts_anew() {
    let mut world = peaks();
    world.put(web("a", "x").killed("app", "state", start()));
    world.scans(1, &[]);
    world.put(web("a", "x").killed("app", "lastState", start()).killed("app", "state", start() + HOUR));
    world.scans(60, &[]);
    assert_eq!(kills(&world), 2);
    let (_, memory) = total_of(&world, &web_key(), "app");
    assert!(memory <= 2.0, "but it does not compound within a window: {memory}");
}

#[test]
fn a_kill_is_not_lost() {
    type Story = fn(&mut World);
    let stories: [(&str, Story); 11] = [
        ("a metric came later", |world| {
            world.put(web("a", "x"));
            world.scans(10, &[("web-a-x", 0.5, 1e8)]);
            world.put(web("a", "x").killed("app", "lastState", start() + 5 * MINUTE));
            world.scans(1, &[("web-a-x", 0.5, 1e8)]);
        }),
        ("before any metric", |world| {
            world.put(web("a", "x").killed("app", "lastState", start()));
            world.scans(1, &[]);
            world.scans(1, &[("web-a-x", 0.5, 1e8)]);
        }),
        ("ahead of the clock", |world| {
            world.put(web("a", "x").killed("app", "lastState", start() + AHEAD + 3 * MINUTE));
            world.scans(1, &[]);
            assert_eq!(kills(world), 0, "it waits for the clock");
            world.scans(5, &[]);
        }),
        ("the owner was not known yet", |world| {
            world.put(web("late", "x").killed("app", "lastState", start()));
            world.scans(3, &[]);
            world.object(&crate::support::owned(
                "ReplicaSet",
                "web-late",
                Some(("apps/v1", "Deployment", "web")),
            ));
            world.scans(1, &[]);
        }),
        ("Failed before any metric, and nothing else runs", |world| {
            world.put(web("a", "y"));
            world.scans(1, &[("web-a-y", 0.5, 1e8)]);
            world.remove("web-a-y");
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.scans(5, &[]);
        }),
        ("Failed before any metric, while another container is measured", |world| {
            world.put(Pod::app("bare"));
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.scans(5, &[("bare", 0.5, 1e8)]);
        }),
        ("its pod was gone at the next scan", |world| {
            world.put(web("a", "x"));
            world.scans(1, &[("web-a-x", 0.5, 1e8)]);
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.remove("web-a-x");
            world.scans(1, &[]);
        }),
        ("its pod came and went between two scans", |world| {
            world.put(web("a", "y"));
            world.scans(1, &[("web-a-y", 0.5, 1e8)]);
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.remove("web-a-x");
            world.scans(1, &[("web-a-y", 0.5, 1e8)]);
        }),
        ("a pod of the same name followed", |world| {
            world.put(web("a", "x"));
            world.scans(1, &[("web-a-x", 0.5, 1e8)]);
            world.remove("web-a-x");
            let successor = web("a", "x").set("/metadata/uid", "another".into());
            world.put(successor.killed("app", "lastState", world.now));
            world.scans(1, &[]);
        }),
        ("a pod of the same name took its place before the next scan", |world| {
            world.put(web("a", "x"));
            world.scans(1, &[("web-a-x", 0.5, 1e8)]);
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.remove("web-a-x");
            world.put(web("a", "x").set("/metadata/uid", "another".into()));
            world.scans(1, &[]);
        }),
        ("its status came between two scans and the container was collected", |world| {
            world.put(web("a", "x").phase("Failed"));
            world.put(Pod::app("bare"));
            world.scans(2, &[("bare", 0.5, 1e8)]);
            world.put(web("a", "x").phase("Failed").killed("app", "state", start()));
            world.recommender.take_kills(world.now);
            world.scans(2, &[("bare", 0.5, 1e8)]);
        }),
    ];
    for (rule, story) in stories {
        for peaks in [false, true] {
            let mut world = if peaks { self::peaks() } else { World::simple() };
            story(&mut world);
            assert_eq!(kills(&world), 1, "{rule}");
            let memory =
                world.app(&web_key()).memory.unwrap_or_else(|| panic!("{rule}: it is in the figures"));
            let target = memory.target.nanos() / 1_000_000_000;
            assert!(target >= 1_288_490_188, "{rule}: {target}");
            let mut again = world.restarted();
            again.put(web("c", "next"));
            again.assign();
            let target_after = again.app(&web_key()).memory.unwrap().target;
            assert_eq!(target_after, memory.target, "{rule}: nor by a restart");
        }
    }
}

#[test]
fn what_is_no_kill_of_a_measured_container() {
    let mut world = World::simple();
    let mut pod = web("a", "x").killed("migrate", "lastState", start()).killed("nobody", "state", start());
    pod.0["spec"]["initContainers"] = json!([{"name": "migrate"}]);
    world.put(pod);
    world.scans(3, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!(kills(&world), 0);
}

#[test]
fn a_kill_counts_from_the_request_in_force() {
    let record = json!({"containers": {"app": {"requests": {"memory": "4Gi"}, "set": {"memory": "1Gi"}}}});
    let mut pod = web("a", "x").killed("app", "lastState", start());
    pod.0["metadata"]["annotations"]["plimsoll.dev/original-resources"] = record.to_string().into();
    let mut world = peaks();
    world.put(pod);
    world.scans(1, &[]);
    let memory = world.app(&web_key()).memory.unwrap();
    let target = memory.target.nanos() / 1_000_000_000;
    assert_eq!(memory.original.unwrap().to_string(), "4Gi");
    assert!((1_288_490_188..1_400_000_000).contains(&target), "1.2 x 1Gi, not 1.2 x 4Gi: {target}");
}

#[test]
fn kills_of_a_window_do_not_compound() {
    let mut world = peaks();
    world.put(web("a", "x"));
    world.scans(1, &[("web-a-x", 0.5, 1500.0 * MI)]);
    for n in 1..20 {
        world.put(web("a", "x").killed("app", "lastState", start() + n * MINUTE));
        world.scans(1, &[("web-a-x", 0.5, 1600.0 * MI)]);
    }
    let target = world.app(&web_key()).memory.unwrap().target.nanos() / 1_000_000_000;
    assert!(target < 2_100_000_000, "1.2 x 1600Mi at most: {target}");
    assert!(target >= 1_887_436_800, "1.2 x 1500Mi at least: {target}");
}

#[test]
fn a_kill_before_the_first_sample_of_one_of_two_containers() {
    // It was kept in the container's window, but not in its histogram: every sample was refused after a restart.
    let mut world = peaks();
    let pod =
        web("a", "x").container("side", &json!({"memory": "64Mi"})).killed("side", "lastState", start());
    world.put(pod);
    world.scans(5, &[("web-a-x", 0.5, 1e8)]);
    let before = world.container(&web_key(), "side").memory.unwrap().target;
    let mut again = world.restarted();
    assert_eq!(again.container(&web_key(), "side").memory.unwrap().target, before);
    again.now += MINUTE;
    again.sample("web-a-x", "side", again.now, None, Some(500.0 * MI));
    assert_eq!(again.recommender.counts().accepted, 1, "{:?}", again.recommender.counts());
    let (_, memory) = total_of(&again, &web_key(), "side");
    assert!((0.9..=2.0).contains(&memory), "one sample of one window: {memory}");
}

#[test]
fn kills_are_counted_per_pod() {
    let mut world = World::simple();
    for n in 0..3 {
        world.put(db(n).killed("app", "lastState", start()));
    }
    world.scans(1, &[]);
    assert_eq!(kills(&world), 3);
    let (_, memory) = total_of(&world, &db_key(), "app");
    assert!((memory - 3.0 * KILL).abs() < 0.02 * KILL, "{memory}");
}

#[test]
fn a_job_that_fails_each_time() {
    let mut world = World::simple();
    world.put(Pod::app("bare"));
    for (n, job) in ["report-1", "report-2"].into_iter().enumerate() {
        let name = format!("{job}-x");
        let pod = Pod::app(&name).owner("batch/v1", "Job", job).phase("Failed");
        world.put(pod.killed("app", "state", world.now));
        world.scans(3, &[("bare", 0.5, 1e8)]);
        assert_eq!(kills(&world), n as u64 + 1, "none of its pods was ever measured");
        world.remove(&name);
        world.scans(10, &[("bare", 0.5, 1e8)]);
    }
    let (_, memory) = total_of(&world, &key("batch", "CronJob", "report"), "app");
    assert!((memory - 2.0 * KILL).abs() < 0.05 * KILL, "{memory}");
}

#[test]
fn a_request_that_was_raised_after_the_kill() {
    let mut world = peaks();
    world.put(web("a", "x").killed("app", "lastState", start()));
    world.scans(2, &[]);
    let before = total_of(&world, &web_key(), "app");
    let mut raised = web("a", "x").killed("app", "lastState", start());
    raised.0["spec"]["containers"][0]["resources"]["requests"]["memory"] = "8Gi".into();
    world.put(raised);
    world.scans(2, &[]);
    let after = total_of(&world, &web_key(), "app");
    assert!(close(before.1, after.1 * (2.0_f64 / 1440.0).exp2()), "{before:?} {after:?}");
    assert_eq!(kills(&world), 1);
}
