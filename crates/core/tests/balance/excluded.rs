//! Pods that stay whatever the other nodes look like.

use plimsoll_core::balance::{PastEviction, Pause, Spared, State, Unsettled};
use serde_json::{Value, json};

use crate::support::{NOW, World, arc, pod};

/// Each row is a pod that would go but for one thing.
#[test]
fn each_exclusion_has_its_reason() {
    let owner = |group: &str, kind: &str| json!({"metadata": {"ownerReferences": [{"apiVersion": group, "kind": kind, "name": "x", "uid": "x", "controller": true}]}});
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let volume = |volume: Value| json!({"spec": {"volumes": [volume]}});
    let rows: Vec<(&str, Value, Option<&str>)> = vec![
        ("as it is", json!({}), None),
        ("no owner", json!({"metadata": {"ownerReferences": null}}), Some("not_controlled")),
        (
            "an owner that does not control it",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]}}),
            Some("not_controlled"),
        ),
        ("a daemon set's", owner("apps/v1", "DaemonSet"), Some("daemon_set")),
        ("an advanced daemon set's", owner("apps.kruise.io/v1alpha1", "DaemonSet"), Some("daemon_set")),
        ("a mirror", annotated("kubernetes.io/config.mirror", "x"), Some("mirror")),
        ("a static pod", owner("v1", "Node"), Some("static")),
        ("a job's", owner("batch/v1", "Job"), Some("job")),
        ("a broadcast job's", owner("apps.kruise.io/v1alpha1", "BroadcastJob"), Some("job")),
        ("another's that is called so", owner("example.org/v1", "Job"), None),
        ("it ends", json!({"metadata": {"deletionTimestamp": "2026-03-01T10:00:00Z"}}), Some("terminating")),
        ("critical for the cluster", json!({"spec": {"priority": 2_000_000_000}}), Some("critical")),
        ("critical for the node", json!({"spec": {"priority": 2_000_001_000}}), Some("critical")),
        ("just not critical", json!({"spec": {"priority": 1_999_999_999}}), None),
        ("excluded namespace", json!({"metadata": {"namespace": "kube-system"}}), Some("namespace")),
        ("do-not-evict", annotated("plimsoll.dev/do-not-evict", "true"), Some("annotation")),
        ("do-not-evict: false", annotated("plimsoll.dev/do-not-evict", "false"), None),
        (
            "the descheduler's",
            annotated("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
            Some("annotation"),
        ),
        (
            "the autoscaler's",
            annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            Some("annotation"),
        ),
        ("safe-to-evict: true", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"), None),
        ("emptyDir", volume(json!({"name": "v", "emptyDir": {}})), Some("local_storage")),
        ("hostPath", volume(json!({"name": "v", "hostPath": {"path": "/"}})), Some("local_storage")),
        (
            "a volume that lives as long as the pod",
            volume(json!({"name": "v", "ephemeral": {}})),
            Some("local_storage"),
        ),
        ("a config map", volume(json!({"name": "v", "configMap": {"name": "c"}})), None),
        (
            "bound by selector",
            json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}),
            Some("bound_to_node"),
        ),
        (
            "bound by affinity",
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}}}),
            Some("bound_to_node"),
        ),
        (
            "bound late",
            json!({"status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-11-30T19:59:00Z"},
                {"type": "Ready", "status": "True"},
            ]}}),
            Some("too_young"),
        ),
        (
            "no time at all",
            json!({"metadata": {"creationTimestamp": null}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            None,
        ),
        ("of its owner's pods none is ready", json!({"status": {"conditions": []}}), Some("few_replicas")),
    ];
    for (rule, more, expected) in rows {
        let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
        world.pod_like("n1", "web", 1.0, &more);
        assert_eq!(world.spared("web"), expected, "{rule}");
        assert_eq!(world.goes().len(), usize::from(expected.is_none()), "{rule}");
    }
}

#[test]
fn owners_keep_enough_ready_pods() {
    let not_ready = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-11-30T19:00:00Z"}]}});
    for (rule, others, other, min, expected) in [
        ("the only one", 0, json!({}), 1, Some("few_replicas")),
        ("one of two", 1, json!({}), 1, None),
        ("one of two, of which one is ready", 1, not_ready, 1, Some("few_replicas")),
        ("one of two, and two must stay", 1, json!({}), 2, Some("few_replicas")),
        ("one of three", 2, json!({}), 2, None),
        ("the only one, and none must stay", 0, json!({}), 0, None),
        (
            "one ends",
            1,
            json!({"metadata": {"deletionTimestamp": "2026-03-01T10:00:00Z"}}),
            1,
            Some("few_replicas"),
        ),
        (
            "the other one is another owner's",
            1,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "of before", "controller": true}]}}),
            1,
            Some("few_replicas"),
        ),
    ] {
        let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
        world.balance.min_replicas = min;
        world.put(&pod("n1", "web", &json!({})), 1.0);
        for index in 0..others {
            let mut other = pod("n2", "web", &other);
            other["metadata"]["name"] = json!(format!("web-{index}"));
            world.put(&other, 1.0);
        }
        assert_eq!(world.spared("web"), expected, "{rule}");
    }
}

/// A candidate, the other pods of its workload, and how many of those are pending, not ready, and end.
type Rows = Vec<(&'static str, Value, Vec<Value>, Option<(u32, u32, u32)>)>;

#[test]
fn a_workload_that_is_not_settled_is_left_alone() {
    let not_ready = || json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
    let pending = || json!({"spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": null}});
    let ends = || json!({"metadata": {"deletionTimestamp": "2026-03-01T10:00:00Z"}});
    let of_new = || {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6b7d9f", "uid": "new", "controller": true}],
        "labels": {"pod-template-hash": "6b7d9f"}}})
    };
    let finished = || json!({"status": {"phase": "Failed", "conditions": null}});
    let more = |base: Value, with: Value| {
        let mut merged = base;
        crate::support::merge(&mut merged, &with);
        merged
    };
    let old = || {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5c4f8d", "uid": "old", "controller": true}],
        "labels": {"pod-template-hash": "5c4f8d"}}})
    };
    let set = || json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true}]}});
    let rows: Rows = vec![
        ("all are ready", set(), vec![set(), set()], None),
        (
            "one of a stateful set's three is not",
            set(),
            vec![set(), more(set(), not_ready())],
            Some((0, 1, 0)),
        ),
        (
            "eight of ten crash",
            json!({}),
            std::iter::repeat_n(json!({}), 2).chain(std::iter::repeat_n(not_ready(), 8)).collect(),
            Some((0, 8, 0)),
        ),
        ("what was evicted is pending", json!({}), vec![json!({}), json!({}), pending()], Some((1, 0, 0))),
        ("one ends", json!({}), vec![json!({}), json!({}), ends()], Some((0, 0, 1))),
        (
            "an update goes on",
            old(),
            vec![old(), old(), more(of_new(), not_ready()), more(of_new(), pending())],
            Some((1, 1, 0)),
        ),
        ("one has failed, and is no more", json!({}), vec![json!({}), finished()], None),
        ("the candidate itself is not ready", not_ready(), vec![json!({}), json!({})], None),
        (
            "another workload's",
            json!({}),
            vec![json!({}), more(pending(), json!({"metadata": {"namespace": "else"}}))],
            None,
        ),
    ];
    for (rule, own, others, expected) in rows {
        let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
        world.put(&pod("n1", "web", &own), 1.0);
        for (index, other) in others.iter().enumerate() {
            let mut other = pod("n2", "web", other);
            other["metadata"]["name"] = json!(format!("web-{index}"));
            world.put(&other, 1.0);
        }
        let round = world.rounds(3);
        let why = round.spared.iter().find(|(pod, _)| pod.name.as_ref() == "web").map(|(_, why)| why);
        let expected = expected.map(|(pending, not_ready, terminating)| {
            Spared::Unsettled(Unsettled { pending, not_ready, terminating })
        });
        assert_eq!(why, expected.as_ref(), "{rule}");
    }
}

#[test]
fn what_nobody_knows_is_not_touched() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod("n1", "web", 1.0);
    world.uses.clear();
    assert_eq!(world.spared("web"), Some("usage_unknown"));

    let mut world = World::new();
    for (name, busy) in [("n1", 0.80), ("n2", 0.50), ("n3", 0.50), ("n4", 0.20)] {
        let capacity = if name == "n1" { json!({"status": {"capacity": null}}) } else { json!({}) };
        world.node(name, &capacity);
        world.busy(name, busy);
    }
    world.pod("n1", "web", 1.0);
    assert_eq!(world.spared("web"), Some("usage_unknown"), "a node that does not say how much it has");

    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod("n1", "idle", 0.009);
    assert_eq!(world.spared("idle"), Some("uses_nothing"), "less than a thousandth of the node");
    world.pod("n1", "small", 0.011);
    assert_eq!(
        world.goes(),
        ["small"],
        "less than a hundredth of what is to go, but there may be nothing larger"
    );
}

#[test]
fn local_data_may_be_given_up() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.balance.evict_local_storage = true;
    world.pod_like("n1", "web", 1.0, &json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}));
    assert_eq!(world.goes(), ["web"]);
}

#[test]
fn a_workload_is_left_alone_for_a_while() {
    let mut world = World::of_busy(&[0.80, 0.50, 0.50, 0.20]);
    world.pod("n1", "web", 1.0);
    world.pod("n1", "api", 1.0);
    let past = |workload: &str, ago: i64| PastEviction {
        workload: workload.to_owned(),
        node: "n9".to_owned(),
        at: NOW - ago,
        ..PastEviction::default()
    };
    let after = |past: Vec<PastEviction>| {
        let mut round = world.plan(&State::remembering(past, NOW * 1_000_000_000));
        for _ in 0..2 {
            round = world.plan(&round.state);
        }
        round
    };
    let round = after(vec![past("shop/ReplicaSet/web", 700), past("shop/ReplicaSet/api", 120)]);
    assert_eq!(round.candidates.iter().map(|found| &*found.pod.name).collect::<Vec<_>>(), ["web"]);
    assert_eq!(round.spared[0].1, Spared::Cooldown(Pause { left: 480, returns: 0 }));
    assert_eq!(
        round.spared[0].1.to_string(),
        "a pod of its workload was evicted lately; 480 s must pass yet"
    );
    let round = after(vec![past("shop/ReplicaSet/web", -1_000)]);
    let pause = Spared::Cooldown(Pause { left: 600, returns: 0 });
    assert_eq!(round.spared[0].1, pause, "a time that cannot be counts as now");
}

#[test]
fn every_reason_has_a_name_and_words() {
    let reasons = [
        Spared::NotControlled,
        Spared::DaemonSet,
        Spared::Mirror,
        Spared::Static,
        Spared::Job,
        Spared::Terminating,
        Spared::Terminal,
        Spared::Critical(2_000_000_000),
        Spared::Namespace,
        Spared::Annotation("k"),
        Spared::LocalStorage("v".to_owned()),
        Spared::TooYoung(5),
        Spared::FewReplicas { ready: 1, min: 1 },
        Spared::Unsettled(Unsettled { pending: 1, not_ready: 0, terminating: 2 }),
        Spared::Cooldown(Pause { left: 1, returns: 0 }),
        Spared::Quota(plimsoll_core::balance::Shortage::Unknown),
        Spared::UsageUnknown,
        Spared::UsesNothing,
        Spared::BoundToNode,
        Spared::LocalVolume("c".to_owned()),
        Spared::VolumeUnknown { claim: "c".to_owned(), why: "w".to_owned() },
        Spared::VolumeNotRead("c".to_owned()),
        Spared::NoTarget([(plimsoll_core::balance::Misfit::Requests(arc("cpu")), 2)].into()),
    ];
    assert_eq!(reasons.each_ref().map(Spared::name), Spared::NAMES);
    let words: std::collections::BTreeSet<String> = reasons.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), reasons.len());
}
