//! The watches against an API server that is absent, forgetful, wrong, or down.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

#[path = "cluster/fake.rs"]
mod fake;

use std::sync::Arc;
use std::time::Duration;

use plimsoll::admission::{NamespaceReadError, NamespaceReader as _};
use plimsoll::cluster::{self, ClusterOptions, LiveNamespaces, PodChange, Snapshots};
use plimsoll::metrics::Metrics;
use plimsoll::server::{Readiness, Shutdown};
use plimsoll_core::objects::{FactKind, Objects, OwnerLookup, WorkloadKind};
use plimsoll_core::pod::Workload;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::fake::{
    ADVANCED_STATEFUL_SETS, CLONE_SETS, DEPLOYMENTS, FLAVORS, FakeApi, HPAS, JOBS, LIMIT_RANGES, NAMESPACES,
    NODES, OLD_FLAVORS, PODS, PROFILES, RECOMMENDATIONS, REPLICA_SETS, STATEFUL_SETS, TREES, eventually,
};

/// The watches of one replica.
struct Replica {
    snapshots: Arc<Snapshots>,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

/// A pace for tests.
fn options() -> ClusterOptions {
    ClusterOptions {
        quota: true,
        hpa: true,
        placement: false,
        page_size: 2,
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        status_jitter: Duration::ZERO,
        status_repeat: Duration::from_secs(600),
    }
}

impl Replica {
    fn start(fake: &FakeApi) -> Self {
        Self::start_with(fake, options())
    }

    fn start_with(fake: &FakeApi, options: ClusterOptions) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let snapshots = Arc::new(Snapshots::new(Arc::clone(&metrics)));
        let readiness = Readiness::new(Shutdown::new());
        let cancel = CancellationToken::new();
        let run = cluster::run(
            fake.client(),
            Arc::clone(&snapshots),
            Arc::clone(&metrics),
            readiness.condition("snapshots"),
            options,
            cancel.clone(),
        );
        Self { snapshots, metrics, readiness, cancel, task: tokio::spawn(run) }
    }

    async fn start_ready(fake: &FakeApi) -> Self {
        let replica = Self::start(fake);
        eventually("ready", || replica.readiness.is_ready()).await;
        replica
    }

    fn objects(&self) -> Arc<Objects> {
        self.snapshots.current().load_full()
    }

    fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

fn profile(name: &str, generation: i64, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "generation": generation}, "spec": spec})
}

fn half() -> Value {
    json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}})
}

fn limit_range(name: &str, min: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": min}}]},
    })
}

fn namespace(name: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": name, "labels": {"plimsoll.dev/pool": "shared"}, "annotations": {"a": "b"},
            "managedFields": [{"manager": "somebody"}],
        },
    })
}

fn owned(name: &str, owner_kind: &str, owner: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "controller": true},
    ]}})
}

fn recommendation(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "profile": "shared"},
        "status": {"containers": [{"name": "app", "cpu": {"target": "800m"}}]},
    })
}

fn limit_range_names(objects: &Objects) -> Vec<String> {
    objects.limit_ranges("shop").map(|range| range.name.clone()).collect()
}

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

fn flavor(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeLabels": {"instance-type": label}}})
}

fn label_of(objects: &Objects, name: &str) -> Option<String> {
    objects.flavor(name).and_then(|flavor| Some(flavor.labels.get("instance-type")?.to_string()))
}

#[tokio::test]
async fn flavors_are_read_in_the_version_that_is_served() {
    let fake = FakeApi::start().await;
    fake.set_absent(FLAVORS, true);
    fake.set_absent(OLD_FLAVORS, true);
    let replica = Replica::start_ready(&fake).await;
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"crd_absent\"}"), Some(0.0), "not needed by all");
    assert_eq!(replica.metric("plimsoll_snapshot_synced{kind=\"ResourceFlavor\"}"), Some(0.0));

    fake.put(OLD_FLAVORS, flavor("spot", "old"));
    fake.set_absent(OLD_FLAVORS, false);
    let has = |label: Option<&str>| label_of(&replica.objects(), "spot").as_deref() == label;
    eventually("the older version", || has(Some("old"))).await;
    assert_eq!(replica.metric("plimsoll_snapshot_synced{kind=\"ResourceFlavor\"}"), Some(1.0));
    fake.put(OLD_FLAVORS, flavor("spot", "changed"));
    eventually("its watch", || has(Some("changed"))).await;

    fake.put(FLAVORS, flavor("spot", "new"));
    fake.set_absent(FLAVORS, false);
    fake.set_absent(OLD_FLAVORS, true);
    eventually("the newer version", || has(Some("new"))).await;
    fake.put(FLAVORS, flavor("spot", "newer"));
    eventually("its watch", || has(Some("newer"))).await;

    fake.set_absent(FLAVORS, true);
    fake.set_absent(OLD_FLAVORS, false);
    eventually("back", || has(Some("changed"))).await;
    fake.set_absent(OLD_FLAVORS, true);
    eventually("gone with its CRD", || has(None)).await;
    assert!(replica.readiness.is_ready());
    replica.stop().await;
}

#[tokio::test]
async fn trees_and_nodes_are_watched_for_quota() {
    let fake = FakeApi::start().await;
    fake.set_absent(TREES, true);
    fake.put(
        NODES,
        json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3", "memory": "1Gi"}}}),
    );
    let replica = Replica::start_ready(&fake).await;
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"crd_absent\"}"), Some(1.0));
    assert!(format!("{:?}", replica.readiness).contains("elasticquotatrees.scheduling.sigs.k8s.io"));
    assert_eq!(replica.objects().allocatable().unwrap().quantities()["cpu"], "3");

    let tree = |generation: i64, spec: &Value| {
        json!({"metadata": {"name": "t", "namespace": "kube-system", "uid": "u", "generation": generation,
            "creationTimestamp": "2026-03-01T10:00:00Z"}, "spec": spec})
    };
    let flat = json!({"root": {"name": "root", "max": {"cpu": "1"}, "min": {"cpu": "1"}, "children": [
        {"name": "leaf", "namespaces": ["shop"], "max": {"cpu": "1"}}]}});
    fake.put(TREES, tree(1, &flat));
    fake.set_absent(TREES, false);
    let generation = || replica.objects().quota_tree().map(|stored| stored.tree.generation);
    eventually("the tree", || generation() == Some(1)).await;
    let objects = replica.objects();
    let stored = objects.quota_tree().unwrap();
    assert_eq!((stored.tree.uid.as_str(), stored.created), ("u", 1_772_359_200));
    assert!(stored.tree.leaf_of("shop").is_some());

    // Deeper than a JSON reader goes by itself, in a watch's event.
    let mut deep = json!({"name": "n0", "namespaces": ["deep"], "max": {"cpu": "1"}});
    for index in 1..100 {
        deep = json!({"name": format!("n{index}"), "max": {"cpu": "1"}, "children": [deep]});
    }
    deep["min"] = json!({"cpu": "1"});
    fake.put(TREES, tree(2, &json!({ "root": deep })));
    eventually("the deep tree", || generation() == Some(2)).await;
    let leaf = replica.objects().quota_tree().unwrap().tree.leaf_of("deep");
    assert!(leaf.is_some(), "{:?}", replica.objects().quota_tree().unwrap().problems);
    fake.put(TREES, tree(3, &flat));
    eventually("and the next one", || generation() == Some(3)).await;
    replica.stop().await;
}

#[tokio::test]
async fn without_quota_its_kinds_are_not_asked_for() {
    let fake = FakeApi::start().await;
    let replica = Replica::start_with(&fake, ClusterOptions { quota: false, ..options() });
    eventually("ready", || replica.readiness.is_ready()).await;
    for path in [TREES, FLAVORS, OLD_FLAVORS, NODES] {
        assert_eq!(fake.lists(path), 0, "{path}");
    }
    assert_eq!(replica.metric("plimsoll_snapshot_synced{kind=\"Node\"}"), None);
    replica.stop().await;
}

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

#[tokio::test]
async fn a_version_that_is_too_old_leads_to_a_new_list() {
    let fake = FakeApi::start().await;
    fake.put(LIMIT_RANGES, limit_range("old", "1"));
    let replica = Replica::start_ready(&fake).await;
    let lists = fake.lists(LIMIT_RANGES);
    fake.put_silently(LIMIT_RANGES, limit_range("missed", "1"));
    fake.expire(LIMIT_RANGES);
    eventually("what was missed", || limit_range_names(&replica.objects()) == ["missed", "old"]).await;
    assert!(fake.lists(LIMIT_RANGES) > lists);
    // And the watch goes on from there.
    fake.put(LIMIT_RANGES, limit_range("new", "1"));
    eventually("what is new", || replica.objects().count(FactKind::LimitRange) == 3).await;
    replica.stop().await;
}

#[tokio::test]
async fn garbage_costs_nothing_but_itself() {
    let fake = FakeApi::start().await;
    let mut nameless = limit_range("", "1");
    nameless["metadata"] = json!({});
    fake.put(LIMIT_RANGES, nameless);
    fake.put(LIMIT_RANGES, limit_range("bad", "many"));
    fake.put(LIMIT_RANGES, limit_range("good", "1"));
    let mut aimless = recommendation("aimless");
    aimless["spec"] = json!({});
    fake.put(RECOMMENDATIONS, aimless);
    let replica = Replica::start_ready(&fake).await;
    assert_eq!(limit_range_names(&replica.objects()), ["good"]);
    assert_eq!(replica.objects().count(FactKind::Recommendation), 0);
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"LimitRange\"}"), Some(1.0));
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"Recommendation\"}"), Some(1.0));
    assert_eq!(replica.metric("plimsoll_degraded{reason=\"objects_refused\"}"), Some(1.0));

    // Lines of a watch that make no sense, then one that does.
    fake.send_line(LIMIT_RANGES, "{\"type\": \"ADDED\", \"object\": ");
    fake.send_line(LIMIT_RANGES, "{\"type\": \"WHATEVER\", \"object\": {}}");
    fake.send_line(LIMIT_RANGES, "{\"type\": \"ADDED\", \"object\": {\"metadata\": 5}}");
    fake.put(LIMIT_RANGES, limit_range("bad", "2"));
    eventually("good now", || limit_range_names(&replica.objects()) == ["bad", "good"]).await;

    // One that goes bad is gone; said once although it is sent twice.
    fake.put(LIMIT_RANGES, limit_range("good", "few"));
    fake.put(LIMIT_RANGES, limit_range("good", "few"));
    fake.put(LIMIT_RANGES, limit_range("last", "1"));
    eventually("bad now", || limit_range_names(&replica.objects()) == ["bad", "last"]).await;
    assert_eq!(replica.metric("plimsoll_objects_refused_total{kind=\"LimitRange\"}"), Some(2.0));
    replica.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_leaves_the_last_snapshot() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let replica = Replica::start_ready(&fake).await;
    fake.set_down(true);
    eventually("errors are counted", || {
        replica
            .metric("plimsoll_watch_errors_total{kind=\"OvercommitProfile\"}")
            .is_some_and(|count| count > 2.0)
    })
    .await;
    assert_eq!(replica.objects().profiles().iter().count(), 1);
    assert!(replica.readiness.is_ready());
    assert!(replica.metric("plimsoll_snapshot_age_seconds{kind=\"OvercommitProfile\"}").is_some());

    fake.set_down(false);
    fake.put(PROFILES, profile("other", 1, &half()));
    eventually("back", || replica.objects().profiles().iter().count() == 2).await;
    replica.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_at_the_start_is_waited_for() {
    let fake = FakeApi::start().await;
    fake.set_down(true);
    let replica = Replica::start(&fake);
    eventually("tried", || {
        replica.metric("plimsoll_watch_errors_total{kind=\"Job\"}").is_some_and(|count| count > 1.0)
    })
    .await;
    assert!(!replica.readiness.is_ready());
    fake.set_down(false);
    eventually("ready", || replica.readiness.is_ready()).await;
    replica.stop().await;
}

#[tokio::test]
async fn a_broken_profile_is_told_once() {
    let fake = FakeApi::start().await;
    let broken = json!({"mode": "Static", "static": {"factors": {"cpu": "5"}}});
    fake.put(PROFILES, profile("shared", 1, &broken));
    let replica = Replica::start_ready(&fake).await;
    eventually("the status", || !fake.writes("/shared/status").is_empty()).await;
    eventually("the event", || !fake.writes("/events").is_empty()).await;
    let write = &fake.writes("/shared/status")[0];
    assert_eq!(write.method, http::Method::PATCH);
    let condition = &write.body["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Valid"), &json!("False")));
    assert!(condition["message"].as_str().unwrap().contains("spec.static.factors.cpu"), "{condition}");
    assert_eq!(write.body["status"]["observedGeneration"], 1);
    let event = &fake.writes("/events")[0].body;
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("ProfileInvalid")));
    assert_eq!(event["regarding"]["name"], "shared");

    // Sent again with the status in it, it is nothing new. The next profile's status shows that it was looked at.
    let mut labelled = profile("shared", 1, &broken);
    labelled["status"] = write.body["status"].clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    fake.put(PROFILES, labelled);
    fake.put(PROFILES, profile("second", 1, &half()));
    eventually("the second's status", || !fake.writes("/second/status").is_empty()).await;
    assert_eq!(fake.writes("/shared/status").len(), 1);

    // A new generation is told anew, and that it is well now is worth an event.
    let mut repaired = profile("shared", 2, &half());
    repaired["status"] = write.body["status"].clone();
    fake.put(PROFILES, repaired);
    eventually("the new status", || fake.writes("/shared/status").len() == 2).await;
    assert_eq!(fake.writes("/shared/status")[1].body["status"]["conditions"][0]["status"], "True");
    eventually("the new event", || fake.writes("/events").len() == 2).await;
    assert_eq!(fake.writes("/events")[1].body["reason"], "ProfileValid");
    assert_eq!(fake.writes("/second/status").len(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn somebody_who_contradicts_is_not_fought() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let replica = Replica::start_ready(&fake).await;
    eventually("the status", || fake.writes("/shared/status").len() == 1).await;
    let mut other = profile("shared", 1, &half());
    other["status"] = json!({"conditions": [{"type": "Valid", "status": "False", "reason": "Other", "message": "",
        "observedGeneration": 1}]});
    fake.put(PROFILES, other);
    fake.put(PROFILES, profile("second", 1, &half()));
    eventually("the second's status", || fake.writes("/second/status").len() == 1).await;
    assert_eq!(fake.writes("/shared/status").len(), 1, "not before the time between two writes is over");
    replica.stop().await;
}

#[tokio::test]
async fn a_second_replica_finds_nothing_to_write() {
    let fake = FakeApi::start().await;
    fake.put(PROFILES, profile("shared", 1, &half()));
    let first = Replica::start_ready(&fake).await;
    eventually("the status", || fake.writes("/shared/status").len() == 1).await;
    let second = Replica::start_ready(&fake).await;
    fake.put(PROFILES, profile("later", 1, &json!({"mode": "Nonsense"})));
    eventually("the later one's status", || !fake.writes("/later/status").is_empty()).await;
    assert_eq!(fake.writes("/shared/status").len(), 1);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn namespaces_are_read_live() {
    let fake = FakeApi::start().await;
    fake.put(NAMESPACES, namespace("shop"));
    let reader = LiveNamespaces::new(fake.client(), Duration::from_secs(20));
    let found = reader.read("shop").await.unwrap().unwrap();
    assert_eq!(found.labels["plimsoll.dev/pool"], "shared");
    assert!(reader.read("none").await.unwrap().is_none());

    // Readers of the same name share one call.
    let before = fake.gets();
    fake.hold(NAMESPACES, true);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let reader = reader.clone();
            tokio::spawn(async move { reader.read("shop").await.unwrap().unwrap().name })
        })
        .collect();
    eventually("the call", || fake.gets() > before).await;
    tokio::task::yield_now().await;
    fake.hold(NAMESPACES, false);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), "shop");
    }
    assert_eq!(fake.gets(), before + 1);

    // And do not share an old answer.
    fake.delete(NAMESPACES, "shop");
    assert!(reader.read("shop").await.unwrap().is_none());
}

#[tokio::test]
async fn a_live_read_that_fails_says_why() {
    let fake = FakeApi::start().await;
    fake.hold(NAMESPACES, true);
    let reader = LiveNamespaces::new(fake.client(), Duration::from_millis(20));
    let error = reader.read("shop").await.unwrap_err();
    assert!(matches!(&error, NamespaceReadError::TimedOut { name, .. } if name == "shop"), "{error}");
    fake.hold(NAMESPACES, false);
    fake.set_down(true);
    let reader = LiveNamespaces::new(fake.client(), Duration::from_secs(20));
    let error = reader.read("shop").await.unwrap_err();
    assert!(error.to_string().contains("down on purpose"), "{error}");
    // A name that would change the path is not sent.
    let error = reader.read("a/b").await.unwrap_err();
    assert!(matches!(error, NamespaceReadError::Failed { .. }), "{error}");
}

fn pod(name: &str, phase: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "status": {"phase": phase}})
}

/// Name and phase of pods that are not of no interest.
fn read_pod(pod: &Value) -> Option<String> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let (name, phase) = (text("/metadata/name")?, text("/status/phase")?);
    (phase != "Pending").then(|| format!("{name} {phase}"))
}

fn is_list(change: PodChange<String>, pods: &[&str]) {
    match change {
        PodChange::Listed(found, version) => {
            assert_eq!(found, pods);
            assert!(version.is_some(), "the version of the list");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pods_are_read_where_they_arrive() {
    let fake = FakeApi::start().await;
    for (name, phase) in [("a", "Running"), ("b", "Pending"), ("c", "Failed")] {
        fake.put(PODS, pod(name, phase));
    }
    let metrics = Arc::new(Metrics::new("test"));
    let cancel = CancellationToken::new();
    let mut changes =
        cluster::watch_pods(fake.client(), options(), Arc::clone(&metrics), cancel.clone(), read_pod);
    let gone = |name: &str| PodChange::Gone {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    };
    let put = |text: &str| PodChange::Put(text.to_owned());

    is_list(changes.recv().await.unwrap(), &["a Running", "c Failed"]);
    fake.put(PODS, pod("b", "Running"));
    assert_eq!(changes.recv().await.unwrap(), put("b Running"), "of interest now");
    fake.put(PODS, pod("b", "Pending"));
    assert_eq!(changes.recv().await.unwrap(), gone("b"), "of none any more");
    fake.delete(PODS, "a");
    assert_eq!(changes.recv().await.unwrap(), put("a Running"), "the last state first");
    assert_eq!(changes.recv().await.unwrap(), gone("a"));
    fake.put_silently(PODS, pod("d", "Running"));
    fake.expire(PODS);
    is_list(changes.recv().await.unwrap(), &["c Failed", "d Running"]);
    assert!(metrics.encode().contains("plimsoll_snapshot_age_seconds{kind=\"Pod\"}"));

    cancel.cancel();
    assert_eq!(changes.recv().await, None);
    eventually("the age of what is not watched is not told", || !metrics.encode().contains("kind=\"Pod\"}"))
        .await;
}

#[tokio::test]
async fn a_watch_of_pods_ends_with_its_receiver() {
    let fake = FakeApi::start().await;
    let metrics = Arc::new(Metrics::new("test"));
    let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    let read = move |pod: &Value| {
        let _ = &alive;
        read_pod(pod)
    };
    let token = CancellationToken::new();
    let mut changes = cluster::watch_pods(fake.client(), options(), metrics, token, read);
    is_list(changes.recv().await.unwrap(), &[]);
    drop(changes);
    // The closure goes with the watch.
    assert_eq!(ended.recv().await, None);
}
