//! The kinds that only the keeping of autoscalers needs.

use plimsoll::cluster::ClusterOptions;
use plimsoll_core::objects::{FactKind, WorkloadKind};
use plimsoll_core::pod::Workload;
use serde_json::{Value, json};

use crate::fake::{
    ADVANCED_STATEFUL_SETS, CLONE_SETS, DEPLOYMENTS, FakeApi, HPAS, PROFILES, STATEFUL_SETS, eventually,
};
use crate::replica::{Replica, options};

fn workload(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    })
}

#[tokio::test]
async fn autoscalers_and_what_they_scale_are_watched() {
    let fake = FakeApi::start().await;
    fake.set_absent(CLONE_SETS, true);
    fake.set_absent(ADVANCED_STATEFUL_SETS, true);
    fake.put(DEPLOYMENTS, workload("web"));
    // Of one name, in two groups.
    fake.put(STATEFUL_SETS, workload("db"));
    fake.put(ADVANCED_STATEFUL_SETS, workload("db"));
    fake.put(CLONE_SETS, workload("clone"));
    fake.put(
        HPAS,
        json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        }),
    );
    let replica = Replica::start_ready(&fake).await;
    eventually("all kinds", || replica.snapshots.has_autoscalers()).await;
    let found = |group: &str, kind: &str, name: &str| {
        let workload = Workload { group: group.into(), kind: kind.into(), name: name.into() };
        let found = replica.objects().workload("shop", &workload).cloned();
        found.is_some_and(|found| found.template.is_some() && found.selector.is_some())
    };
    assert!(found("apps", "Deployment", "web") && found("apps", "StatefulSet", "db"));
    assert!(!found("apps.kruise.io", "StatefulSet", "db"), "another kind of the same name");
    assert_eq!(replica.objects().hpa("shop", "web").unwrap().target.name, "web");
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"crd_absent\"}"), Some(0.0), "nobody has them");

    fake.set_absent(CLONE_SETS, false);
    fake.set_absent(ADVANCED_STATEFUL_SETS, false);
    eventually("they are installed", || {
        found("apps.kruise.io", "CloneSet", "clone") && found("apps.kruise.io", "StatefulSet", "db")
    })
    .await;
    fake.delete(DEPLOYMENTS, "web");
    let count = |kind| replica.objects().count(FactKind::Workload(kind));
    eventually("gone", || count(WorkloadKind::Deployment) == 0).await;
    assert_eq!(count(WorkloadKind::StatefulSet), 1);
    replica.stop().await;
}

#[tokio::test]
async fn pods_are_answered_before_autoscalers_are_known() {
    let fake = FakeApi::start().await;
    fake.hold(DEPLOYMENTS, true);
    let replica = Replica::start_ready(&fake).await;
    assert!(!replica.snapshots.has_autoscalers(), "nothing is written yet");
    fake.hold(DEPLOYMENTS, false);
    eventually("everything", || replica.snapshots.has_autoscalers()).await;
    // Lists that come again say nothing else.
    fake.expire(HPAS);
    fake.expire(PROFILES);
    fake.put(DEPLOYMENTS, workload("web"));
    eventually("the workload", || replica.objects().count(FactKind::Workload(WorkloadKind::Deployment)) == 1)
        .await;
    assert!(replica.snapshots.has_autoscalers());
    replica.stop().await;
}

#[tokio::test]
async fn without_autoscalers_their_kinds_are_not_asked_for() {
    let fake = FakeApi::start().await;
    let replica = Replica::start_with(&fake, ClusterOptions { hpa: false, ..options() });
    eventually("ready", || replica.readiness.is_ready()).await;
    for path in [HPAS, DEPLOYMENTS, STATEFUL_SETS, CLONE_SETS, ADVANCED_STATEFUL_SETS] {
        assert_eq!(fake.lists(path), 0, "{path}");
    }
    replica.stop().await;
}
