//! The kinds that only quota needs.

use plimsoll::cluster::ClusterOptions;
use plimsoll_core::objects::Objects;
use serde_json::{Value, json};

use crate::fake::{FLAVORS, FakeApi, NODES, OLD_FLAVORS, TREES, eventually};
use crate::replica::{Replica, options};

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
