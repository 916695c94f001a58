//! The loop against a store in memory, scan by scan, with leaders that die.

mod world;

use std::sync::Mutex;

use plimsoll_core::recommender::ParkedContainer;

use self::world::{Cluster, FakeStore, set_minute};
use super::*;

async fn run(shard: &mut Shard<FakeStore>, minutes: std::ops::Range<i64>) {
    for minute in minutes {
        set_minute(minute);
        shard.scan().await.unwrap();
    }
}

#[tokio::test]
async fn usage_becomes_a_recommendation_that_is_seldom_written() {
    let cluster = Cluster::new(1, 400);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..1).await;
    assert_eq!(cluster.condition("Ready").as_deref(), Some("False LowHistory"));
    run(&mut leader, 1..120).await;
    assert_eq!(cluster.condition("Ready").as_deref(), Some("True Usable"));
    let target: f64 = cluster.target("deployment-d0").unwrap().trim_end_matches('m').parse().unwrap();
    assert!(
        (600.0..=760.0).contains(&target),
        "the 95th percentile of 100m to 690m, at most two buckets up: {target}"
    );
    assert_eq!(cluster.world().events, [("deployment-d0".to_owned(), true)], "told when it turned");
    let before = cluster.world().writes.clone();
    run(&mut leader, 120..360).await;
    let after = cluster.world().writes.clone();
    let written = after["recommendation"] - before["recommendation"];
    assert!(written <= 20, "four hours of steadily growing memory: {written} writes");
    assert_eq!(after["checkpoint"] - before["checkpoint"], 240, "one workload has its turn at each scan");
}

#[tokio::test]
async fn a_follower_goes_on_where_a_leader_died() {
    let cluster = Cluster::new(1, 90);
    set_minute(0);
    let mut alone = cluster.leader().await;
    run(&mut alone, 0..90).await;
    let whole: Vec<_> = (0..1).map(|n| cluster.target(&format!("deployment-d{n}"))).collect();
    let total = alone.recommender.counts().accepted;
    for died in [1, 2, 17, 60, 61, 89] {
        let cluster = Cluster::new(1, 90);
        set_minute(0);
        let mut first = cluster.leader().await;
        run(&mut first, 0..died).await;
        let accepted = first.recommender.counts().accepted;
        drop(first);
        let mut second = cluster.leader().await;
        run(&mut second, died..90).await;
        let seen = accepted + second.recommender.counts().accepted;
        // What came after the last checkpoints comes again; what came before does not.
        let mut samples = 0;
        for (_, stored) in cluster.world().checkpoints.values() {
            samples += stored.containers.iter().map(|container| container.checkpoint.samples).sum::<u64>();
        }
        assert!(samples <= total && seen >= samples, "died at {died}: {samples} of {total}");
        for (n, whole) in whole.iter().enumerate() {
            let (now, whole) = (cluster.target(&format!("deployment-d{n}")), whole.clone());
            let milli =
                |text: Option<String>| -> f64 { text.unwrap().trim_end_matches('m').parse().unwrap() };
            let (now, whole) = (milli(now), milli(whole));
            assert!((now / whole).max(whole / now) < 1.2, "died at {died}, d{n}: {now} for {whole}");
        }
    }
}

#[tokio::test]
async fn two_leaders_do_not_write_over_each_other() {
    let cluster = Cluster::new(1, 60);
    set_minute(0);
    let mut old = cluster.leader().await;
    run(&mut old, 0..20).await;
    let mut new = cluster.leader().await;
    run(&mut new, 20..30).await;
    let samples = |cluster: &Cluster| {
        let world = cluster.world();
        world.checkpoints.values().next().unwrap().1.containers[0].checkpoint.samples
    };
    let written = samples(&cluster);
    // The old one wakes up and thinks it still leads.
    set_minute(30);
    assert!(old.scan().await.is_err(), "it learns that it does not");
    assert_eq!(samples(&cluster), written, "and what the new one wrote stands");
    run(&mut new, 30..40).await;
    assert!(samples(&cluster) > written);
}

#[tokio::test]
async fn nothing_is_written_before_everything_was_read() {
    let cluster = Cluster::new(1, 100);
    set_minute(0);
    let mut first = cluster.leader().await;
    run(&mut first, 0..80).await;
    drop(first);
    cluster.world().down = true;
    let before = cluster.world().total();
    tokio::time::pause();
    let waiting = timeout(Duration::from_secs(3600), cluster.leader()).await;
    assert!(waiting.is_err(), "it asks until it is answered");
    assert_eq!(cluster.world().total(), before);
    cluster.world().down = false;
    let mut second = cluster.leader().await;
    run(&mut second, 80..81).await;
    let world = cluster.world();
    let samples = world.checkpoints.values().next().unwrap().1.containers[0].checkpoint.samples;
    assert!(samples >= 160, "{samples}");
}

#[tokio::test]
async fn a_store_that_is_away_costs_nothing_but_time() {
    let cluster = Cluster::new(1, 100);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..30).await;
    cluster.world().down = true;
    run(&mut leader, 30..70).await;
    cluster.world().down = false;
    run(&mut leader, 70..71).await;
    assert_eq!(cluster.condition("Ready").as_deref(), Some("True Usable"));
    let world = cluster.world();
    assert_eq!(world.checkpoints.values().next().unwrap().1.containers[0].checkpoint.samples, 142);
}

#[tokio::test]
async fn a_workload_that_was_deleted_is_not_written_again() {
    let cluster = Cluster::new(1, 100);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..20).await;
    // The pods go first, and the garbage collector deletes what the Deployment owned.
    for (deployment, pod) in cluster.pods() {
        leader.take_pod(PodChange::Gone {
            namespace: "shop".to_owned(),
            name: format!("d{deployment}-{pod}"),
            uid: String::new(),
        });
    }
    run(&mut leader, 20..25).await;
    assert_eq!(cluster.condition("NoPods").as_deref(), Some("True NoPods"), "it might only be scaled down");
    {
        let store = &leader.store;
        let mut world = store.lock();
        world.recommendations.clear();
        world.checkpoints.clear();
        store.show(&world);
    }
    let before = cluster.world().total();
    run(&mut leader, 25..60).await;
    assert_eq!(cluster.world().total(), before);
    assert_eq!(leader.recommender.aggregates(), 0);
}

#[tokio::test]
async fn a_recommendation_that_somebody_deleted_comes_back_while_pods_run() {
    let cluster = Cluster::new(1, 100);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..70).await;
    {
        let mut world = leader.store.lock();
        world.recommendations.clear();
        leader.store.show(&world);
    }
    run(&mut leader, 70..72).await;
    assert_eq!(cluster.condition("Ready").as_deref(), Some("True Usable"));
}

#[tokio::test]
async fn what_somebody_wrote_by_hand_stays_alone() {
    let cluster = Cluster::new(1, 20);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..2).await;
    let by_hand = {
        let mut world = cluster.world();
        let mut stored = world.recommendations.values().next().unwrap().clone();
        world.recommendations.clear();
        (stored.managed, stored.name) = (false, "mine".to_owned());
        world.recommendations.insert(("shop".to_owned(), "mine".to_owned()), stored.clone());
        stored
    };
    leader.store.show(&cluster.world());
    let mut leader = cluster.leader().await;
    run(&mut leader, 2..20).await;
    let world = cluster.world();
    assert_eq!(world.recommendations.values().collect::<Vec<_>>(), [&by_hand]);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_used_is_set_aside() {
    let cluster = Cluster::new(2, 40);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..20).await;
    drop(leader);
    {
        let mut world = cluster.world();
        // One that is not even of the form, and one whose content is impossible.
        let (version, stored) = world.checkpoints.remove("shop/Deployment/d0").unwrap();
        world.broken.insert("shop/Deployment/d0".to_owned(), (version, Key::clone(&stored.key)));
        let (_, stored) = world.checkpoints.get_mut("shop/Deployment/d1").unwrap();
        let ParkedContainer { checkpoint, .. } = &mut stored.containers[0];
        checkpoint.cpu.as_mut().unwrap().total_weight = "-1".to_owned();
    }
    let mut leader = cluster.leader().await;
    run(&mut leader, 20..40).await;
    let world = cluster.world();
    assert_eq!(world.set_aside.len(), 2, "{:?}", world.set_aside);
    assert!(world.set_aside[1].contains("cpu.totalWeight"), "{:?}", world.set_aside);
    for (_, stored) in world.checkpoints.values() {
        let samples = stored.containers[0].checkpoint.samples;
        assert!((30..=80).contains(&samples), "begun anew: {samples}");
    }
    assert_eq!((world.checkpoints.len(), world.broken.len()), (2, 0));
}

#[tokio::test]
async fn a_source_that_fails_leaves_what_was_learnt() {
    let cluster = Cluster::new(1, 100);
    set_minute(0);
    let mut leader = cluster.leader().await;
    run(&mut leader, 0..70).await;
    let before = cluster.target("deployment-d0");
    std::fs::remove_file(cluster.usage()).unwrap();
    run(&mut leader, 70..75).await;
    assert_eq!(
        cluster.condition("Stale").as_deref(),
        Some("False Fresh"),
        "a short time is nobody's concern"
    );
    run(&mut leader, 75..100).await;
    assert_eq!(cluster.condition("Stale").as_deref(), Some("True SourceFailing"));
    assert_eq!(cluster.condition("Ready").as_deref(), Some("True Usable"));
    assert_eq!(cluster.target("deployment-d0"), before);
}

#[tokio::test]
async fn many_workloads_are_written_bit_by_bit() {
    let cluster = Cluster::new(300, 12);
    set_minute(0);
    let mut leader = cluster.leader().await;
    let mut last = 0;
    for minute in 0..12 {
        run(&mut leader, minute..minute + 1).await;
        let total = cluster.world().total();
        assert!(total - last <= 46, "1 write a second for 45 s, and one: {}", total - last);
        last = total;
    }
    let world = cluster.world();
    assert_eq!(world.recommendations.len(), 300);
    assert!(world.checkpoints.len() >= 100, "{}", world.checkpoints.len());
}

#[tokio::test]
async fn a_leader_that_ends_before_it_has_read_everything_writes_nothing() {
    for (complete, expected) in [(false, 0), (true, 1)] {
        let cluster = Cluster::new(1, 10);
        set_minute(0);
        let mut leader = cluster.leader().await;
        for minute in 0..5 {
            set_minute(minute);
            leader.take_usage().await;
            leader.assign().await;
        }
        leader.complete = complete;
        let (_pods, received) = mpsc::channel(1);
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        leader.run(received, cancelled).await.unwrap();
        assert_eq!(cluster.world().checkpoints.len(), expected, "complete: {complete}");
    }
}

#[tokio::test]
async fn metrics_server_is_asked_for_the_namespaces_there_are_pods_of() {
    use crate::recommender::sources::{MetricsServer, MetricsServerOptions};

    let cluster = Cluster::new(1, 1);
    set_minute(0);
    let mut leader = cluster.leader().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        seen.lock().unwrap().push(request.uri().path().to_owned());
        async { Ok::<_, std::convert::Infallible>(http::Response::new(r#"{"items":[]}"#.to_owned())) }
    });
    let options = MetricsServerOptions { per_namespace: true, ..MetricsServerOptions::default() };
    let client = kube::Client::new(service, "default");
    leader.source = Source::MetricsServer(MetricsServer::new(client, options));
    run(&mut leader, 0..1).await;
    assert_eq!(*asked.lock().unwrap(), ["/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"]);
}
