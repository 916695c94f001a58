//! Load told in other ways: by labels, by annotations, and to Trimaran.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, Placement, with_nodes};
use crate::harness::scheduler::plain;
use crate::harness::{World, check_eq, until};

const CLASS: &str = "plimsoll.dev/load-class";
/// The label of namespaces whose pods prefer nodes by it.
const AWARE: &str = "plimsoll.dev/load-aware";

async fn gauges(placement: &Placement<'_>) -> Result<Gauges> {
    let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
    for (node, share) in [("n1", 0.9), ("n2", 0.6), ("n3", 0.1)] {
        gauges.set(&placement.node(node), share, share);
    }
    Ok(gauges)
}

async fn node(placement: &Placement<'_>, short: &str) -> Result<Value> {
    let name = placement.node(short);
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    placement.world.cluster.get(&object).await
}

/// Waits until the nodes n1 .. are of these classes.
async fn classes(placement: &Placement<'_>, want: [&str; 3]) -> Result<()> {
    until(format!("classes {want:?}"), async || {
        for (short, want) in ["n1", "n2", "n3"].into_iter().zip(want) {
            let class = node(placement, short).await?["metadata"]["labels"][CLASS].clone();
            ensure!(class == want, "{short} is {class}");
        }
        Ok(Some(()))
    })
    .await
}

/// A scheduler that nobody configured: nodes are labelled, pods of namespaces that want it prefer the idle one.
pub(in super::super) async fn load_class(world: &World) -> Result<()> {
    with_nodes(world, "class", Nodes::new(3), async |placement| {
        let gauges = gauges(placement).await?;
        let mut section = gauges.section();
        section["loadClass"] = json!({"enabled": true, "interval": "1s"});
        // It answers admission too: the other replica knows nothing of placement.
        drop(world.server.lock().await.take());
        placement.serve(&section).await?;
        classes(placement, ["high", "mid", "low"]).await?;
        placement.schedule_by(&plain())?;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": placement.namespace}});
        let plain_pod = world.cluster.create(&placement.pod("plain", &json!({}))).await?;
        ensure!(plain_pod["spec"]["affinity"].is_null(), "not asked for: {}", plain_pod["spec"]["affinity"]);
        world.cluster.merge(&namespace, &json!({"metadata": {"labels": {AWARE: "true"}}})).await?;
        until("pods to prefer idle nodes", async || {
            let seen = world.cluster.create_dry(&placement.pod("probe", &json!({}))).await?;
            let text = seen["spec"]["affinity"].to_string();
            ensure!(text.contains("preferred") && text.contains(CLASS), "{text}");
            ensure!(!text.contains("required"), "{text}");
            Ok(Some(()))
        })
        .await?;
        let web = placement.workload("Deployment", "web", 2, &json!({"requests": {"cpu": "10m"}}));
        world.cluster.create(&web).await?;
        let placed = placement.placed("app=web", 2).await?;
        ensure!(placed.contains_key("n3") && !placed.contains_key("n1"), "{placed:?}");
        // A little less is no other class; much less is.
        gauges.set(&placement.node("n1"), 0.72, 0.72);
        gauges.set(&placement.node("n2"), 0.3, 0.3);
        classes(placement, ["high", "low", "low"]).await?;
        gauges.set(&placement.node("n1"), 0.1, 0.1);
        classes(placement, ["low", "low", "low"]).await
    })
    .await
}

/// Annotations as Crane's scheduler reads them, a value and a time; and what Trimaran's plugins read from a load-watcher.
pub(in super::super) async fn crane_and_trimaran(world: &World) -> Result<()> {
    with_nodes(world, "others", Nodes::new(3), async |placement| {
        let gauges = gauges(placement).await?;
        let mut section = gauges.section();
        section["craneAnnotations"] = true.into();
        section["loadClass"] = json!({"interval": "1s"});
        placement.serve(&section).await?;
        until("the annotations", async || {
            let node = node(placement, "n2").await?;
            let all = node["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let cpu = all.iter().find(|(key, _)| key.starts_with("cpu_usage"));
            let value = cpu.and_then(|(_, value)| value.as_str()).unwrap_or_default();
            let (share, at) = value.split_once(',').unwrap_or_default();
            ensure!(share.parse::<f64>().is_ok_and(|share| (share - 0.6).abs() < 0.01), "{all:?}");
            ensure!(at.ends_with('Z'), "{at}");
            Ok(Some(()))
        })
        .await?;
        placement.loaded(3).await?;
        load_watcher(placement).await
    })
    .await
}

async fn load_watcher(placement: &Placement<'_>) -> Result<()> {
    let (code, answer) = placement.call("/watcher", None, true).await?;
    check_eq!(code, 200, "/watcher: {answer}");
    for (short, want) in [("n1", 90.0), ("n2", 60.0), ("n3", 10.0)] {
        let metrics = &answer["data"]["NodeMetricsMap"][placement.node(short)]["metrics"];
        let mut cpu = metrics.as_array().into_iter().flatten().filter(|one| one["type"] == "CPU");
        let near = |one: &Value| one["value"].as_f64().is_some_and(|value| (value - want).abs() < 0.5);
        ensure!(cpu.any(near), "{short}: {answer:#}");
    }
    ensure!(answer["window"]["end"].as_i64().is_some_and(|end| end > 1_000_000_000), "{answer:#}");
    Ok(())
}
