//! Pods are moved off nodes that are busier than the others, and only those that may be.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, Placement, USES, names, with_nodes};
use crate::harness::world::SCENARIO;
use crate::harness::{World, check_eq, until};

const BASE: [(&str, f64); 4] = [("n1", 0.0), ("n2", 0.2), ("n3", 0.2), ("n4", 0.2)];

/// The section `placement` with a round each second.
fn section(gauges: &Gauges, more: &Value) -> Value {
    let mut section = gauges.section();
    section["balance"] = json!({
        "enabled": true, "dryRun": false, "interval": "1s", "minimumAge": "1s", "cooldown": "1s",
    });
    json_patch::merge(&mut section["balance"], more);
    section
}

/// A workload whose pods use this share of a node each.
fn using(placement: &Placement<'_>, kind: &str, name: &str, replicas: usize, share: &str) -> Value {
    let mut object = placement.workload(kind, name, replicas, &json!({"requests": {"cpu": "10m"}}));
    object["spec"]["template"]["metadata"]["annotations"] = json!({USES: share});
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
    placement.metric("plimsoll_balance_evictions_total", &[r#"outcome="evicted""#]).await
}

/// Workloads that stay on the hot node: name, what makes them stay, and a word of why.
fn kinds_that_stay(placement: &Placement<'_>) -> Vec<(Value, usize, &'static str)> {
    let two = |name: &str, change: Value| {
        let mut object = using(placement, "Deployment", name, 2, "0.02");
        json_patch::merge(&mut object["spec"]["template"], &change);
        object
    };
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let mut daemons = using(placement, "DaemonSet", "daemons", 0, "0.03");
    daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({SCENARIO: "right-pod"});
    let mut bare = placement.pod("bare", &json!({}));
    bare["metadata"]["annotations"] = json!({USES: "0.04"});
    let hostname = json!({"kubernetes.io/hostname": placement.node("n1")});
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    vec![
        (daemons, 4, "DaemonSet"),
        (bare, 1, "controller"),
        (two("ours", annotated("plimsoll.dev/do-not-evict", "true")), 2, "do-not-evict"),
        (
            two("descheduler", annotated("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true")),
            2,
            "prefer-no-eviction",
        ),
        (
            two("autoscaler", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")),
            2,
            "safe-to-evict",
        ),
        (two("critical", json!({"spec": {"priorityClassName": "system-cluster-critical"}})), 2, "priority"),
        (two("bound", json!({"spec": {"nodeSelector": hostname}})), 2, "node"),
        (two("scratch", json!({"spec": {"volumes": scratch}})), 2, "scratch"),
        (using(placement, "Deployment", "single", 1, "0.05"), 1, "replica"),
        // Bound in the future, below: younger than any age.
        (two("young", json!({})), 2, "young"),
    ]
}

/// Exactly the pods go that may; a disruption budget holds the better ones, and everything else stays although the node
/// stays hot.
pub(in super::super) async fn the_right_pod(world: &World) -> Result<()> {
    with_nodes(world, "right-pod", Nodes::sized(4), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        let guarded = using(placement, "Deployment", "guarded", 2, "0.10");
        let right = using(placement, "Deployment", "right", 2, "0.08");
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": placement.namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
        });
        let mut all = kinds_that_stay(placement);
        all.extend([(guarded, 2, "budget"), (right, 2, "")]);
        for (node, share) in BASE {
            gauges.set(&placement.node(node), share, share);
        }
        placement.serve(&section(&gauges, &json!({"enabled": false}))).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        placement.only_open("n1").await?;
        world.cluster.create(&budget).await?;
        for (object, ..) in &all {
            world.cluster.create(object).await?;
        }
        for (object, count, _) in &all {
            let app = object["metadata"]["name"].as_str().unwrap_or_default();
            placement.placed(&format!("app={app}"), *count).await?;
        }
        for pod in placement.pods("app=young").await? {
            placement.bound_ago(&pod, -3600).await?;
        }
        placement.all_open().await?;
        let before = on(placement, "n1").await?;
        placement
            .while_load_follows(&gauges, &BASE, async || {
                drop(placement.take_server());
                placement.serve(&section(&gauges, &json!({}))).await?;
                until("both pods to have moved", async || {
                    let now = on(placement, "n1").await?;
                    Ok((!now.contains_key("right")).then_some(()))
                })
                .await?;
                placement.placed("app=right", 2).await?;
                rounds(placement, 10.0).await?;
                let mut now = on(placement, "n1").await?;
                now.insert("right".into(), before["right"].clone());
                check_eq!(now, before, "who is on the hot node, but for the pods that may go");
                check_eq!(evictions(placement).await?.to_string(), "2", "evictions");
                let told = placement.ask("/api/v1/balance").await?;
                for (object, _, word) in &all {
                    let app = object["metadata"]["name"].as_str().unwrap_or_default();
                    if !word.is_empty() {
                        reason(&told, &before[app][0], word).with_context(|| format!("{told:#}"))?;
                    }
                }
                Ok(())
            })
            .await
    })
    .await
}

/// Fails unless the reason why a pod stays has this word.
fn reason(told: &Value, pod: &str, word: &str) -> Result<()> {
    let spared = told["spared"].as_array().into_iter().flatten();
    let of_pod = spared.filter(|one| one["pod"].as_str().is_some_and(|name| name.ends_with(pod)));
    let texts: Vec<String> = of_pod.map(Value::to_string).collect();
    ensure!(!texts.is_empty(), "nothing is said of {pod}");
    ensure!(texts.iter().any(|text| text.contains(word)), "{pod}: {word:?} is not in {texts:?}");
    Ok(())
}

/// The node is relieved until it is hardly busier than the others; then, for ten rounds and more, nothing moves.
pub(in super::super) async fn comes_to_rest(world: &World) -> Result<()> {
    with_nodes(world, "rest", Nodes::sized(4), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        let base = [("n1", 0.05), ("n2", 0.1), ("n3", 0.1), ("n4", 0.1)];
        for (node, share) in base {
            gauges.set(&placement.node(node), share, share);
        }
        placement.serve(&section(&gauges, &json!({"enabled": false}))).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        placement.only_open("n1").await?;
        world.cluster.create(&using(placement, "Deployment", "web", 8, "0.08")).await?;
        placement.placed("app=web", 8).await?;
        placement.all_open().await?;
        placement
            .while_load_follows(&gauges, &base, async || {
                drop(placement.take_server());
                placement.serve(&section(&gauges, &json!({}))).await?;
                let left = until("the node to be relieved", async || {
                    let left = on(placement, "n1").await?.get("web").map_or(0, Vec::len);
                    Ok((left <= 3).then_some(left))
                })
                .await?;
                rounds(placement, 3.0).await?;
                let spread = placement.placed("app=web", 8).await?;
                // 0.69, .1, .1, .1: with 3 left it is .29, .23, .23, .23 or alike: 0.05 above the mean.
                ensure!(left == 3 && spread.values().all(|count| *count <= 3), "{spread:?}");
                let (before, gone) = (placement.pods("app=web").await?, evictions(placement).await?);
                rounds(placement, 10.0).await?;
                check_eq!(
                    names(&placement.pods("app=web").await?),
                    names(&before),
                    "the pods, ten rounds later"
                );
                check_eq!(evictions(placement).await?.to_string(), gone.to_string(), "evictions");
                check_eq!(gone.to_string(), "5", "evictions until it rested");
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
    scenario: impl AsyncFnOnce(&Placement<'_>) -> Result<()>,
) -> Result<()> {
    with_nodes(world, name, Nodes::sized(5), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        let base = [("n1", 0.2), ("n2", 0.1), ("n3", 0.1), ("n4", 0.1), ("n5", 0.1)];
        for (node, share) in base {
            gauges.set(&placement.node(node), share, share);
        }
        placement.schedule_by(&crate::harness::scheduler::plain())?;
        placement.only_open("n1").await?;
        world.cluster.create(&using(placement, "Deployment", "web", 4, "0.1")).await?;
        placement.placed("app=web", 4).await?;
        placement.all_open().await?;
        placement
            .while_load_follows(&gauges, &base, async || {
                placement.serve(&section(&gauges, more)).await?;
                scenario(placement).await
            })
            .await
    })
    .await
}

/// With `dryRun` it is told what would be done, and nothing is.
pub(in super::super) async fn only_told(world: &World) -> Result<()> {
    hot(world, "told", &json!({"dryRun": true}), async |placement| {
        let before = names(&placement.pods("app=web").await?);
        let told = until("a decision", async || {
            let told = placement.ask("/api/v1/balance").await?;
            let text = told.to_string();
            ensure!(before.iter().any(|pod| text.contains(pod)), "{text}");
            Ok(Some(told))
        })
        .await?;
        ensure!(told.to_string().contains(&placement.node("n1")), "{told}");
        rounds(placement, 5.0).await?;
        check_eq!(names(&placement.pods("app=web").await?), before, "the pods");
        check_eq!(evictions(placement).await?.to_string(), "0", "evictions");
        Ok(())
    })
    .await
}

/// A node fails while another one is hot: nobody is evicted, and bindings count for longer.
pub(in super::super) async fn node_lost(world: &World) -> Result<()> {
    hot(world, "lost", &json!({"rounds": 8}), async |placement| {
        rounds(placement, 2.0).await?;
        let before = names(&placement.pods("app=web").await?);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": placement.node("n5")}});
        world.cluster.delete(&node).await?;
        until("the loss to be told", async || {
            let text = placement.ask("/api/v1/balance").await?.to_string();
            ensure!(text.contains(&placement.node("n5")), "{text}");
            Ok(Some(()))
        })
        .await?;
        rounds(placement, 10.0).await?;
        check_eq!(names(&placement.pods("app=web").await?), before, "the pods");
        check_eq!(evictions(placement).await?.to_string(), "0", "evictions");
        let flood = placement.ask("/api/v1/nodes").await?["flood"].clone();
        ensure!(flood != json!(false) && !flood.is_null(), "flood: {flood}");
        Ok(())
    })
    .await
}
