//! Pods are moved off nodes that are busier than the others, and only those that may be.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, Placement, USES, names, requests, with_nodes};
use crate::harness::scheduler::plain;
use crate::harness::world::SCENARIO;
use crate::harness::{World, check_eq, until};

const BASE: [(&str, f64); 4] = [("n1", 0.0), ("n2", 0.2), ("n3", 0.2), ("n4", 0.2)];

/// The section `placement` with a round each second.
fn section(gauges: &Gauges, more: &Value) -> Value {
    let mut section = gauges.section_of_means();
    section["balance"] = json!({
        "enabled": true, "dryRun": false, "interval": "1s", "minimumAge": "1s", "cooldown": "1s",
    });
    json_patch::merge(&mut section["balance"], more);
    section
}

/// A workload whose pods use this share of a node each.
fn using(placement: &Placement<'_>, kind: &str, name: &str, replicas: usize, share: f64) -> Value {
    let mut object = placement.workload(kind, name, replicas, &requests(share));
    object["spec"]["template"]["metadata"]["annotations"] = json!({USES: share.to_string()});
    object
}

/// Names of the pods on a node, by the label `app`.
async fn on(placement: &Placement<'_>, short: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pod in placement.pods("").await? {
        if placement.short(&pod) == short {
            all.entry(pod["metadata"]["labels"]["app"].as_str().unwrap_or_default().into())
                .or_default()
                .push(pod);
        }
    }
    Ok(all.into_iter().map(|(app, pods)| (app, names(&pods))).collect())
}

/// Waits for so many rounds more.
async fn rounds(placement: &Placement<'_>, count: f64) -> Result<()> {
    let so_far = placement.metric("plimsoll_balance_rounds_total", &[]).await?;
    until(format!("{count} rounds"), async || {
        let now = placement.metric("plimsoll_balance_rounds_total", &[]).await?;
        Ok((now >= so_far + count).then_some(()))
    })
    .await
}

async fn evictions(placement: &Placement<'_>) -> Result<f64> {
    placement.metric("plimsoll_balance_evictions_total", &[r#"result="evicted""#]).await
}

/// Workloads that stay on the hot node, how many pods they have, and why they stay.
fn kinds_that_stay(placement: &Placement<'_>) -> Vec<(Value, usize, &'static str)> {
    let two = |name: &str, change: Value| {
        let mut object = using(placement, "Deployment", name, 2, 0.02);
        json_patch::merge(&mut object["spec"]["template"], &change);
        object
    };
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let mut daemons = using(placement, "DaemonSet", "daemons", 0, 0.03);
    daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({SCENARIO: "right-pod"});
    let mut bare = placement.pod("bare", &requests(0.04));
    bare["metadata"]["annotations"] = json!({USES: "0.04"});
    let hostname = json!({"kubernetes.io/hostname": placement.node("n1")});
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    let disk = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    vec![
        (daemons, 4, "daemon_set"),
        (bare, 1, "not_controlled"),
        (two("ours", annotated("plimsoll.dev/do-not-evict", "true")), 2, "annotation"),
        (
            two("descheduler", annotated("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true")),
            2,
            "annotation",
        ),
        (
            two("autoscaler", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")),
            2,
            "annotation",
        ),
        (two("critical", json!({"spec": {"priorityClassName": "system-cluster-critical"}})), 2, "critical"),
        (two("bound", json!({"spec": {"nodeSelector": hostname}})), 2, "bound_to_node"),
        (two("scratch", json!({"spec": {"volumes": scratch}})), 2, "local_storage"),
        (two("disk", json!({"spec": {"volumes": disk}})), 2, "local_volume"),
        (using(placement, "Deployment", "single", 1, 0.05), 1, "few_replicas"),
        // Bound in the future, below: younger than any age.
        (two("young", json!({})), 2, "too_young"),
    ]
}

/// A disk of node n1, and the claim `disk` that has it.
async fn local_disk(placement: &Placement<'_>) -> Result<()> {
    let (name, size) = (placement.node("disk"), json!({"storage": "1Gi"}));
    let term = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [placement.node("n1")]},
    ]});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": size, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": placement.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": name,
            "storageClassName": "",
        },
    });
    placement.world.create_for_now(&volume).await?;
    placement.world.cluster.create(&claim).await.map(drop)
}

/// Exactly the pods go that may; a disruption budget holds the better ones, and everything else stays although the node
/// stays hot.
pub(in super::super) async fn the_right_pod(world: &World) -> Result<()> {
    with_nodes(world, "right-pod", Nodes::sized(4), async |placement| {
        let guarded = using(placement, "Deployment", "guarded", 2, 0.10);
        let right = using(placement, "Deployment", "right", 2, 0.08);
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": placement.namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
        });
        let mut all = kinds_that_stay(placement);
        all.extend([(guarded, 2, ""), (right, 2, "")]);
        placement.schedule_by(&plain())?;
        placement.only_open("n1").await?;
        world.cluster.create(&budget).await?;
        local_disk(placement).await?;
        for (object, ..) in &all {
            world.cluster.create(object).await?;
        }
        for (object, count, _) in &all {
            let app = object["metadata"]["name"].as_str().unwrap_or_default();
            placement.placed(&format!("app={app}"), *count).await?;
        }
        placement.aged("app!=young").await?;
        for pod in placement.pods("app=young").await? {
            placement.bound_ago(&pod, -3_600).await?;
        }
        placement.all_open().await?;
        let before = on(placement, "n1").await?;
        balanced(placement, &BASE, &json!({}), async |_| {
            until("both pods to have moved", async || {
                Ok((!on(placement, "n1").await?.contains_key("right")).then_some(()))
            })
            .await?;
            placement.placed("app=right", 2).await?;
            rounds(placement, 10.0).await?;
            let mut now = on(placement, "n1").await?;
            now.insert("right".into(), before["right"].clone());
            check_eq!(now, before, "who is on the hot node, but for the pods that may go");
            check_eq!(evictions(placement).await?.to_string(), "2", "evictions");
            // A round may be one without figures.
            until("the reasons of a round", async || {
                let told = last_round(placement).await?;
                for (object, _, word) in &all {
                    let app = object["metadata"]["name"].as_str().unwrap_or_default();
                    if !word.is_empty() {
                        reason(&told, &before[app][0], word)?;
                    }
                }
                let candidates = told["candidates"].as_array().into_iter().flatten();
                let outcomes: Vec<_> = candidates.map(|one| (&one["workload"], &one["outcome"])).collect();
                // What a budget forbids for one it forbids for the other, who is not tried.
                let (guarded, refused, later) =
                    (json!("Deployment/guarded"), json!("refused"), json!("later"));
                let expected = [(&guarded, &refused), (&guarded, &later)];
                ensure!(outcomes == expected, "who may go, but for a budget: {outcomes:?}");
                Ok(Some(()))
            })
            .await
        })
        .await
    })
    .await
}

/// What was told of the last round.
async fn last_round(placement: &Placement<'_>) -> Result<Value> {
    let mut told = placement.ask("/api/v1/balance").await?;
    ensure!(told["rounds"][0].is_object(), "no round: {told}");
    Ok(told["rounds"][0].take())
}

/// A replica balances while load follows the pods, from how they are now.
async fn balanced(
    placement: &Placement<'_>,
    base: &[(&str, f64)],
    more: &Value,
    scenario: impl AsyncFnOnce(&Gauges) -> Result<()>,
) -> Result<()> {
    placement
        .while_load_follows(base, async |gauges| {
            placement.serve(&section(gauges, more)).await?;
            placement.schedule_by(&placement.configuration(&[])?)?;
            let outcome = scenario(gauges).await;
            let told = last_round(placement).await.unwrap_or_default();
            outcome.with_context(|| format!("the last round: {told:#}"))
        })
        .await
}

/// Fails unless this is why a pod stays.
fn reason(told: &Value, pod: &str, word: &str) -> Result<()> {
    let mut spared = told["spared"].as_array().into_iter().flatten();
    let of_pod = spared.find(|one| one["name"] == pod).with_context(|| format!("nothing of {pod}"))?;
    ensure!(of_pod["reason"] == word, "not because of {word}: {of_pod}");
    Ok(())
}

/// The node is relieved until it is hardly busier than the others; then, for ten rounds and more, nothing moves.
pub(in super::super) async fn comes_to_rest(world: &World) -> Result<()> {
    with_nodes(world, "rest", Nodes::sized(4), async |placement| {
        placement.schedule_by(&plain())?;
        placement.only_open("n1").await?;
        world.cluster.create(&using(placement, "Deployment", "web", 6, 0.1)).await?;
        placement.placed("app=web", 6).await?;
        placement.aged("app=web").await?;
        placement.all_open().await?;
        // 0.63, 0.1, 0.1, 0.02: after four moves the node is 0.23, which is 0.02 above the mean.
        let base = [("n1", 0.03), ("n2", 0.1), ("n3", 0.1), ("n4", 0.02)];
        balanced(placement, &base, &json!({}), async |_| {
            until("the node to be relieved", async || {
                let left = on(placement, "n1").await?.get("web").map_or(0, Vec::len);
                Ok((left <= 2).then_some(()))
            })
            .await?;
            placement.placed("app=web", 6).await?;
            rounds(placement, 3.0).await?;
            let before = names(&placement.pods("app=web").await?);
            rounds(placement, 10.0).await?;
            check_eq!(names(&placement.pods("app=web").await?), before, "the pods, ten rounds later");
            check_eq!(evictions(placement).await?.to_string(), "4", "evictions");
            let spread = placement.placed("app=web", 6).await?;
            check_eq!(spread["n1"], 2, "pods that are left: {spread:?}");
            Ok(())
        })
        .await
    })
    .await
}

/// A hot node with a workload that could be moved, and a replica whose balance has these settings.
async fn hot(
    world: &World,
    name: &'static str,
    more: &Value,
    scenario: impl AsyncFnOnce(&Placement<'_>, &Gauges) -> Result<()>,
) -> Result<()> {
    with_nodes(world, name, Nodes::sized(5), async |placement| {
        placement.schedule_by(&plain())?;
        placement.only_open("n1").await?;
        world.cluster.create(&using(placement, "Deployment", "web", 4, 0.1)).await?;
        placement.placed("app=web", 4).await?;
        placement.aged("app=web").await?;
        placement.all_open().await?;
        let base = [("n1", 0.2), ("n2", 0.1), ("n3", 0.1), ("n4", 0.1), ("n5", 0.1)];
        balanced(placement, &base, more, async |gauges| scenario(placement, gauges).await).await
    })
    .await
}

/// Waits for an event of the controller about a pod of the scenario.
async fn event(placement: &Placement<'_>, reason: &str) -> Result<()> {
    let namespace = Some(placement.namespace.as_str());
    until(format!("an event {reason}"), async || {
        let all = placement.world.cluster.list("events.k8s.io/v1", "Event", namespace, "").await?;
        Ok(all.iter().any(|event| event["reason"] == reason).then_some(()))
    })
    .await
}

/// With `dryRun` it is told what would be done, and nothing is.
pub(in super::super) async fn only_told(world: &World) -> Result<()> {
    hot(world, "only-told", &json!({"dryRun": true}), async |placement, _| {
        let before = names(&placement.pods("app=web").await?);
        until("a decision", async || {
            let told = last_round(placement).await?;
            let chosen = &told["candidates"][0];
            ensure!(chosen["outcome"] == "wouldBeEvicted", "{chosen}");
            ensure!(before.iter().any(|pod| chosen["name"] == *pod), "{chosen}");
            ensure!(told["source"]["name"] == placement.node("n1"), "{}", told["source"]);
            Ok(Some(()))
        })
        .await?;
        event(placement, "BalanceDryRun").await?;
        rounds(placement, 5.0).await?;
        check_eq!(names(&placement.pods("app=web").await?), before, "the pods");
        check_eq!(evictions(placement).await?.to_string(), "0", "evictions");
        Ok(())
    })
    .await
}

/// A node fails while another one is hot: nobody is evicted, and bindings count for longer.
pub(in super::super) async fn node_lost(world: &World) -> Result<()> {
    hot(world, "lost", &json!({"rounds": 20}), async |placement, _| {
        rounds(placement, 2.0).await?;
        let before = names(&placement.pods("app=web").await?);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": placement.node("n5")}});
        world.cluster.delete(&node).await?;
        until("the loss to be told", async || {
            let told = last_round(placement).await?;
            ensure!(told["verdict"] == "node_lost", "{} {}", told["verdict"], told["why"]);
            Ok(Some(()))
        })
        .await?;
        // More than it takes to evict anybody.
        rounds(placement, 24.0).await?;
        check_eq!(names(&placement.pods("app=web").await?), before, "the pods");
        check_eq!(evictions(placement).await?.to_string(), "0", "evictions");
        let flood = placement.ask("/api/v1/nodes").await?["flood"].clone();
        ensure!(flood != json!(false) && !flood.is_null(), "flood: {flood}");
        Ok(())
    })
    .await
}

/// The leader dies after an eviction: the next one leaves the workload alone for as long as the first would have.
pub(in super::super) async fn leader_dies(world: &World) -> Result<()> {
    let settings = json!({"cooldown": "10m"});
    hot(world, "next", &settings, async |placement, gauges| {
        until("the first eviction", async || Ok((evictions(placement).await? >= 1.0).then_some(()))).await?;
        placement.placed("app=web", 4).await?;
        let before = names(&placement.pods("app=web").await?);
        placement.serve_next(&section(gauges, &settings)).await?;
        until("a round of the next leader in which the node is too busy", async || {
            let told = last_round(placement).await?;
            ensure!(told["source"]["name"] == placement.node("n1"), "{told:#}");
            Ok(Some(()))
        })
        .await?;
        rounds(placement, 5.0).await?;
        check_eq!(names(&placement.pods("app=web").await?), before, "the pods");
        let there = on(placement, "n1").await?;
        until("the reason why they stay", async || {
            let told = last_round(placement).await?;
            there["web"].iter().try_for_each(|pod| reason(&told, pod, "cooldown"))?;
            Ok(Some(()))
        })
        .await
    })
    .await
}
