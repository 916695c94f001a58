//! Rights that are missing.

use crate::fake::{FLAVORS, FakeApi, HPAS, LIMIT_RANGES, NODES, TREES, eventually};
use crate::replica::Replica;

#[tokio::test]
async fn a_right_that_only_a_part_needs_keeps_no_replica_from_starting() {
    let fake = FakeApi::start().await;
    for path in [TREES, FLAVORS, NODES, HPAS] {
        fake.forbid(path, true);
    }
    let replica = Replica::start_ready(&fake).await;
    assert!(replica.readiness.has_started());
    let said = || format!("{:?}", replica.readiness);
    eventually("all are named", || {
        [
            "elasticquotatrees.scheduling.sigs.k8s.io",
            "resourceflavors.kueue.x-k8s.io",
            "nodes",
            "horizontalpodautoscalers",
        ]
        .iter()
        .all(|kind| said().contains(kind))
    })
    .await;
    assert!(said().contains("Degraded"), "{}", said());
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"right_missing\"}"), Some(1.0));
    assert!(!replica.snapshots.knows_quota_tree(), "what a tree binds must wait");
    assert!(!replica.snapshots.has_autoscalers(), "nothing is written");
    assert!(replica.snapshots.is_complete());

    // Granted later.
    for path in [TREES, FLAVORS, NODES, HPAS] {
        fake.forbid(path, false);
    }
    eventually("the tree", || replica.snapshots.knows_quota_tree() && replica.snapshots.has_autoscalers())
        .await;
    eventually("all is well", || !said().contains("Degraded")).await;
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"right_missing\"}"), Some(0.0));

    // Taken away: what was known stays.
    fake.forbid(TREES, true);
    fake.expire(TREES);
    let lists = || replica.metric("plimsoll_watch_errors_total{kind=\"ElasticQuotaTree\"}");
    let before = lists();
    eventually("it was refused again", || lists() > before).await;
    assert!(replica.snapshots.knows_quota_tree() && replica.readiness.is_ready());
    replica.stop().await;
}

#[tokio::test]
async fn a_right_that_every_replica_needs_is_waited_for_without_restarts() {
    let fake = FakeApi::start().await;
    fake.forbid(LIMIT_RANGES, true);
    let replica = Replica::start(&fake);
    eventually("it says which", || {
        replica.readiness.missing().iter().any(|(_, why)| why.contains("grant list and watch on limitranges"))
    })
    .await;
    assert!(!replica.readiness.is_ready(), "pods would be lowered below a minimum");
    assert!(replica.readiness.has_started(), "the kubelet must not restart it");
    fake.forbid(LIMIT_RANGES, false);
    eventually("ready", || replica.readiness.is_ready()).await;
    replica.stop().await;
}
