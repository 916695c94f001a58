//! What is watched becomes what is known.

use plimsoll_core::objects::{FactKind, OwnerLookup};
use serde_json::json;

use crate::fake::{
    FakeApi, JOBS, LIMIT_RANGES, NAMESPACES, PROFILES, RECOMMENDATIONS, REPLICA_SETS, eventually,
};
use crate::replica::{
    Replica, half, limit_range, limit_range_names, namespace, owned, profile, recommendation,
};

#[tokio::test]
async fn every_kind_is_folded_and_ready_comes_last() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    fake.put(RECOMMENDATIONS, recommendation("web"));
    fake.put(LIMIT_RANGES, limit_range("bounds", "100m"));
    for index in 0..5 {
        fake.put(NAMESPACES, namespace(&format!("n{index}")));
    }
    fake.put(REPLICA_SETS, owned("web-1", "Deployment", "web"));
    fake.put(JOBS, owned("nightly-1", "CronJob", "nightly"));
    fake.hold(JOBS, true);

    let replica = Replica::start(&fake);
    eventually("only Jobs are missing", || {
        let missing = replica.readiness.missing();
        missing.iter().any(|(_, why)| why == "waiting for the first list of Job")
    })
    .await;
    assert_eq!(replica.metric("plimsoll_snapshot_synced{kind=\"Job\"}"), Some(0.0));
    fake.hold(JOBS, false);
    eventually("ready", || replica.readiness.is_ready()).await;

    let objects = replica.objects();
    assert_eq!(
        objects.profiles().iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>(),
        ["shared"]
    );
    assert_eq!(objects.count(FactKind::Namespace), 5, "pages are put together");
    assert_eq!(objects.namespace("n4").unwrap().labels["plimsoll.dev/pool"], "shared");
    assert_eq!(objects.namespace("n4").unwrap().annotations["a"], "b");
    assert_eq!(objects.count(FactKind::Recommendation), 1);
    assert_eq!(limit_range_names(&objects), ["bounds"]);
    for (kind, name, owner) in [("ReplicaSet", "web-1", "web"), ("Job", "nightly-1", "nightly")] {
        let OwnerLookup::Controller(found) = objects.owner_of(kind, "shop", name) else { panic!("{kind}") };
        assert_eq!(found.workload.name, owner);
    }
    replica.stop().await;
}

#[tokio::test]
async fn edits_and_deletions_arrive() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let replica = Replica::start_ready(&fake).await;
    fake.put(PROFILES, profile("shared", 2, &json!({"mode": "Static", "priority": 7})));
    eventually("the edit", || replica.objects().profiles().iter().any(|profile| profile.priority == 7)).await;
    fake.delete(PROFILES, "shared");
    eventually("the deletion", || replica.objects().profiles().iter().count() == 0).await;
    replica.stop().await;
}

#[tokio::test]
async fn an_absent_crd_is_picked_up_when_it_appears() {
    let fake = FakeApi::start().await;
    fake.set_absent(PROFILES, true);
    let replica = Replica::start_ready(&fake).await;
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"crd_absent\"}"), Some(1.0));
    assert!(format!("{:?}", replica.readiness).contains("overcommitprofiles.plimsoll.dev"), "says which");

    fake.put(PROFILES, profile("shared", 1, &half()));
    fake.set_absent(PROFILES, false);
    eventually("the profile", || replica.objects().profiles().iter().count() == 1).await;
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"crd_absent\"}"), Some(0.0));

    fake.set_absent(PROFILES, true);
    eventually("the profile goes with its CRD", || replica.objects().profiles().iter().count() == 0).await;
    assert!(replica.readiness.is_ready(), "degraded is ready");
    replica.stop().await;
}
