//! What counts as one.

use plimsoll_core::recommender::shard_of;
use serde_json::json;

use crate::support::{
    HOUR, MINUTE, Pod, World, close, db, dynamic, key, options, profile, start, total_of, web, web_key,
};

fn simple(granularity: &str) -> World {
    World::new(&[dynamic(
        "p",
        &json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s", "granularity": granularity}),
    )])
}

#[test]
fn template_hashes_and_job_names_do_not_multiply() {
    let mut world = simple("Workload");
    for (round, hash) in ["a", "b", "c"].into_iter().enumerate() {
        let pod = web(hash, "x").label("version", hash).label("track", &round.to_string());
        let name = pod.name();
        world.put(pod);
        world.scans(5, &[(&name, 0.5, 1e8)]);
        world.remove(&name);
    }
    for job in ["report-1", "report-2"] {
        let name = format!("{job}-x");
        world.put(Pod::app(&name).owner("batch/v1", "Job", job).label("batch.kubernetes.io/job-name", job));
        world.scans(5, &[(&name, 0.5, 1e8)]);
        world.remove(&name);
    }
    assert_eq!(world.recommender.aggregates(), 2);
    assert_eq!(world.app(&web_key()).samples, 15, "all ReplicaSets together");
    assert_eq!(world.app(&key("batch", "CronJob", "report")).samples, 10, "all Jobs together");
}

#[test]
fn pods_of_a_workload_count_together_by_container() {
    let mut world = simple("Workload");
    for n in 0..3 {
        world.put(web("a", &n.to_string()).container("side", &json!({"cpu": "100m"})));
    }
    world.scans(1, &[("web-a-0", 0.5, 1e8), ("web-a-1", 0.5, 1e8), ("web-a-2", 2.0, 3e8)]);
    world.sample("web-a-0", "side", world.now, Some(0.01), None);
    assert_eq!(world.recommender.aggregates(), 2);
    assert_eq!((world.app(&web_key()).samples, world.container(&web_key(), "side").samples), (3, 1));
    assert!(world.container(&web_key(), "side").memory.is_none(), "what was not measured is not 0");
}

#[test]
fn pod_0_of_a_stateful_set_may_use_ten_times_more() {
    for (granularity, names) in [("Pod", vec![Some("db-0"), Some("db-1")]), ("Workload", vec![None])] {
        let mut world = simple(granularity);
        world.put_all([db(0), db(1)]);
        world.scans(20, &[("db-0", 0.9, 9e8), ("db-1", 0.09, 9e7)]);
        let desired = world.desired();
        let found: Vec<_> = desired.iter().map(|desired| desired.pod.as_deref()).collect();
        assert_eq!(found, names, "{granularity}");
        let targets: Vec<_> = desired
            .iter()
            .map(|desired| desired.status.containers[0].cpu.as_ref().unwrap().target.to_string())
            .collect();
        if granularity == "Pod" {
            assert_eq!(targets, ["904m", "96m"], "each by its own usage");
        } else {
            assert_eq!(targets, ["904m"], "the highest decides for all");
        }
    }
}

#[test]
fn pods_without_stable_names_share_at_granularity_pod() {
    let mut world = simple("Pod");
    world.put_all([web("a", "x"), web("a", "y"), Pod::app("bare")]);
    let clone = |name: &str| Pod::app(name).owner("apps.kruise.io/v1alpha1", "CloneSet", "clones");
    world.put_all([clone("clones-x"), clone("clones-y")]);
    world.scans(1, &[("web-a-x", 0.5, 1e8), ("web-a-y", 0.5, 1e8), ("bare", 0.5, 1e8)]);
    let found: Vec<_> = world
        .desired()
        .iter()
        .map(|desired| (desired.key.workload.kind.clone(), desired.pod.clone()))
        .collect();
    let kinds = ["Pod", "Deployment", "CloneSet"];
    assert_eq!(found, kinds.map(|kind| (kind.to_owned(), None)), "one for each, for no pod in particular");
}

#[test]
fn a_stateful_set_of_another_group_has_stable_names_too() {
    let mut world = simple("Pod");
    world.put(Pod::app("sts-0").owner("apps.kruise.io/v1beta1", "StatefulSet", "sts"));
    world.scans(1, &[("sts-0", 0.5, 1e8)]);
    assert_eq!(world.desired()[0].pod.as_deref(), Some("sts-0"));
}

#[test]
fn a_namespace_counts_by_container_name() {
    let mut world = simple("Namespace");
    world.put_all([web("a", "x"), db(0)]);
    world.put(Pod::new("bare").container("other", &json!({"cpu": "1"})));
    world.scans(3, &[("web-a-x", 0.5, 1e8), ("db-0", 0.5, 1e8)]);
    let desired = world.desired();
    assert_eq!(desired.len(), 1);
    assert_eq!(*desired[0].key, key("", "Namespace", "shop"));
    assert_eq!((&desired[0].pod, &desired[0].owner), (&None, &None), "no object of the namespace owns it");
    assert_eq!(world.app(&key("", "Namespace", "shop")).samples, 6);
}

#[test]
fn the_newest_pod_decides_between_profiles() {
    let canary = json!({"mode": "Dynamic", "priority": 10, "match": {"podSelector": {"matchLabels": {"track": "canary"}}},
        "dynamic": {"percentile": {"cpu": 50}, "minimumHistory": "0s"}});
    for (rule, created, expected) in [("newer", HOUR, "canary"), ("older", -HOUR, "p")] {
        let mut world = simple("Workload");
        world.object(&profile("canary", &canary));
        world.put(web("a", "x"));
        world.put(web("b", "y").label("track", "canary").created(start() + created));
        world.scans(1, &[("web-a-x", 0.5, 1e8), ("web-b-y", 0.5, 1e8)]);
        let desired = world.desired_of(&web_key()).unwrap();
        assert_eq!(desired.profile.name, expected, "{rule}");
        assert_eq!(world.recommender.aggregates(), 1, "{rule}: still one");
    }
}

#[test]
fn a_container_that_only_older_pods_have_shows_their_newest_request() {
    // Many pods, so that their order in a map is not that of their ages.
    let mut world = simple("Namespace");
    for n in 0..40_i64 {
        let requests = json!({"cpu": format!("{}m", 100 + n)});
        world.put(Pod::new(&format!("old-{n}")).container("side", &requests).created(start() + n * MINUTE));
        world.put(Pod::app(&format!("new-{n}")).created(start() + HOUR + n * MINUTE));
    }
    world.assign();
    world.sample("old-0", "side", world.now, Some(0.05), None);
    let shop = key("", "Namespace", "shop");
    let original = |world: &World| world.container(&shop, "side").cpu.unwrap().original.unwrap().to_string();
    assert_eq!(original(&world), "139m");
    world.remove("old-39");
    world.assign();
    assert_eq!(original(&world), "138m", "and of those that are left");
}

#[test]
fn a_profile_with_another_half_life_keeps_what_was_learnt() {
    let mut world = simple("Workload");
    world.put(web("a", "x"));
    world.scans(600, &[("web-a-x", 0.5, 1e8)]);
    let before = world.app(&web_key());
    world
        .object(&dynamic("p", &json!({"cpuSampleWeight": "0.1", "halfLife": {"cpu": "6h", "memory": "7d"}})));
    world.assign();
    let after = world.app(&web_key());
    assert_eq!((before.cpu.unwrap().target, before.samples), (after.cpu.unwrap().target, after.samples));
    let (cpu, _) = total_of(&world, &web_key(), "app");
    assert!(cpu > 30.0, "{cpu} of about 60 x 0.1 x 10");
    assert_eq!(world.recommender.checkpoints_left().len(), 1, "it is to be written");
    let again = world.restarted();
    assert_eq!(again.app(&web_key()).cpu.unwrap().target.to_string(), "512m");
}

#[test]
fn a_profile_with_other_memory_samples() {
    for (from, to) in [("PerScan", "PeakPerInterval"), ("PeakPerInterval", "PerScan")] {
        let of = |samples: &str| dynamic("p", &json!({"memorySamples": samples, "minimumHistory": "0s"}));
        let mut world = World::new(&[of(from)]);
        world.put(web("a", "x"));
        world.scans(10, &[("web-a-x", 0.5, 3e8)]);
        world.object(&of(to));
        world.scans(10, &[("web-a-x", 0.5, 4e8)]);
        let (_, memory) = total_of(&world, &web_key(), "app");
        // Ten scans, and a window that ends a half-life later.
        assert!((memory - 12.0).abs() < 0.2, "{from} to {to}: {memory}");
        assert_eq!(world.app(&web_key()).samples, 20, "{from} to {to}");
    }
}

#[test]
fn a_profile_with_another_granularity() {
    let of = |granularity: &str| {
        dynamic("p", &json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s", "granularity": granularity}))
    };
    let mut world = World::new(&[of("Workload")]);
    world.put(db(0));
    world.scans(5, &[("db-0", 0.5, 1e8)]);
    world.object(&of("Pod"));
    world.scans(3, &[("db-0", 0.5, 1e8)]);
    let desired = world.desired();
    assert_eq!(desired.len(), 1, "never two for one target");
    assert_eq!((desired[0].pod.as_deref(), desired[0].status.containers[0].samples), (Some("db-0"), 3));
    world.object(&of("Namespace"));
    world.scans(2, &[("db-0", 0.5, 1e8)]);
    let desired = world.desired();
    assert_eq!(desired.len(), 1, "what is not asked for any more is not wanted: {desired:?}");
    assert_eq!(*desired[0].key, key("", "Namespace", "shop"));
    world.object(&of("Workload"));
    world.scans(1, &[("db-0", 0.5, 1e8)]);
    let desired = world.desired();
    assert_eq!((desired.len(), desired[0].status.containers[0].samples), (1, 6), "what was learnt goes on");
}

#[test]
fn a_profile_that_is_switched_off_and_on() {
    let mut world = simple("Workload");
    world.put(web("a", "x").killed("app", "lastState", start()));
    world.scans(5, &[("web-a-x", 0.5, 1e8)]);
    let before = total_of(&world, &web_key(), "app");
    world.object(&profile("p", &json!({"mode": "Off"})));
    world.assign();
    assert_eq!(world.desired(), vec![]);
    world.object(&dynamic("p", &json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s"})));
    // The same samples and the same kill once more.
    world.put(web("a", "x").killed("app", "lastState", start()).killed("side", "state", start()));
    world.scan(&[("web-a-x", 0.5, 1e8)]);
    let after = total_of(&world, &web_key(), "app");
    assert!(close(before.0, after.0) && close(before.1, after.1), "{before:?} {after:?}");
    assert_eq!((world.recommender.counts().kills, world.app(&web_key()).samples), (1, 5));
}

#[test]
fn what_is_not_covered() {
    let mut world = simple("Workload");
    world.put(Pod::app("x").set("/metadata/namespace", "kube-system".into()));
    world.put(Pod::app("x").set("/metadata/namespace", "unseen".into()));
    world.scans(1, &[]);
    assert_eq!(world.desired(), vec![], "excluded, or of a namespace that was not seen");
}

#[test]
fn every_namespace_is_one_shards() {
    let shard = |shard| plimsoll_core::recommender::Options { shards: 3, shard, ..options() };
    let names = ["shop", "other", "x", "y", "z", ""];
    for name in names {
        let covering: Vec<_> =
            (0..3).filter(|n| plimsoll_core::recommender::Recommender::new(shard(*n)).covers(name)).collect();
        assert_eq!(covering, [shard_of(name, 3)], "{name}");
    }
    let mut world = World::with(shard((shard_of("shop", 3) + 1) % 3), &[dynamic("p", &json!({}))]);
    world.put(web("a", "x"));
    world.scans(1, &[("web-a-x", 0.5, 1e8)]);
    assert_eq!((world.desired(), world.recommender.aggregates()), (vec![], 0), "another's");
}
