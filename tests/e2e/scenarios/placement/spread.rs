//! What keeps pods apart although load does not move.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, with_nodes};
use crate::harness::{World, until};

/// Forty pods of nobody at once, on five nodes that are loaded almost alike: none gets more than twice its share.
pub(in super::super) async fn burst(world: &World) -> Result<()> {
    const PODS: usize = 40;
    with_nodes(world, "burst", Nodes::sized(5), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        for (node, share) in [("n1", 0.3), ("n2", 0.32), ("n3", 0.28), ("n4", 0.34), ("n5", 0.26)] {
            gauges.set(&placement.node(node), share, share);
        }
        placement.serve(&gauges.section()).await?;
        placement.loaded(5).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        for number in 0..PODS {
            let mut pod = placement
                .pod(&format!("pod-{number}"), &json!({"requests": {"cpu": "500m", "memory": "1Gi"}}));
            pod["metadata"]["labels"]["burst"] = "yes".into();
            world.cluster.create(&pod).await?;
        }
        let placed = placement.placed("burst=yes", PODS).await?;
        let most = placed.values().max().copied().unwrap_or_default();
        ensure!(placed.len() == 5 && most <= 2 * PODS / 5, "{placed:?}");
        ensure!(placement.calls("prioritize").await? >= 40.0, "the extender was passed over");
        Ok(())
    })
    .await
}

/// More pods wait than there may be: they go where least was bound, whatever the load.
pub(in super::super) async fn flood(world: &World) -> Result<()> {
    const PODS: usize = 60;
    with_nodes(world, "flood", Nodes::sized(3), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        for (node, share) in [("n1", 0.1), ("n2", 0.8), ("n3", 0.8)] {
            gauges.set(&placement.node(node), share, share);
        }
        let mut section = gauges.section();
        section["flood"] = json!({"pendingPods": 5, "form": "fuse"});
        placement.serve(&section).await?;
        placement.loaded(3).await?;
        for number in 0..PODS {
            let mut pod = placement.pod(&format!("pod-{number}"), &json!({}));
            pod["metadata"]["labels"]["flood"] = "yes".into();
            world.cluster.create(&pod).await?;
        }
        until("the flood to be told", async || {
            Ok(placement.ask("/api/v1/nodes").await?["flood"].is_string().then_some(()))
        })
        .await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        let placed = placement.placed("flood=yes", PODS).await?;
        // By load alone the idle node would get nearly all. Not a third each: of nodes that are equally good the scheduler
        // takes any, and which one it took is known only when the watch tells.
        let even = PODS / 3;
        ensure!(
            placed.len() == 3 && placed.values().all(|pods| (even / 2..=even * 3 / 2).contains(pods)),
            "placed {placed:?}"
        );
        until("the flood to be over", async || {
            Ok(placement.ask("/api/v1/nodes").await?["flood"].is_null().then_some(()))
        })
        .await
    })
    .await
}

/// Replicas of one workload do not all go to the idle node; without the penalty they do.
pub(in super::super) async fn replicas(world: &World) -> Result<()> {
    const PODS: usize = 20;
    with_nodes(world, "replicas", Nodes::new(4), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        for (node, share) in [("n1", 0.1), ("n2", 0.7), ("n3", 0.7), ("n4", 0.7)] {
            gauges.set(&placement.node(node), share, share);
        }
        let mut counts = Vec::new();
        for (name, penalty) in [("with", 2), ("without", 0)] {
            let mut section = gauges.section();
            section["replicaPenalty"] = penalty.into();
            // Nothing else is to keep the replicas apart.
            section["hotSpot"] = json!({"bindings": 1000});
            placement.serve(&section).await?;
            placement.loaded(4).await?;
            // With less the scheduler's own topology spread weighs about as much as load does.
            placement.schedule_by(&placement.configuration(&["--weight=3"])?)?;
            let web = placement.workload("Deployment", name, PODS, &json!({"requests": {"cpu": "100m"}}));
            world.cluster.create(&web).await?;
            let placed = placement.placed(&format!("app={name}"), PODS).await?;
            let idle = placed.get("n1").copied().unwrap_or_default();
            counts.push(idle);
            ensure!(penalty == 0 || placed.len() == 4, "with the penalty: {placed:?}");
        }
        // How many exactly is up to how soon a watch tells what was bound.
        ensure!(counts[0] < counts[1], "on the idle node with and without the penalty: {counts:?}");
        Ok(())
    })
    .await
}
