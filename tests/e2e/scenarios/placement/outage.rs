//! Scheduling goes on whatever becomes of the extender.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, Placement, with_nodes};
use crate::harness::{World, check_eq, until};

/// The extender answers, is gone, is back, stands still, and goes on; each pod gets a node.
pub(in super::super) async fn stopped_and_hanging(world: &World) -> Result<()> {
    with_nodes(world, "outage", Nodes::new(3), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        for (node, share) in [("n1", 0.8), ("n2", 0.1), ("n3", 0.8)] {
            gauges.set(&placement.node(node), share, share);
        }
        placement.serve(&gauges.section()).await?;
        placement.loaded(3).await?;
        // As it is recommended: what is slower is passed over.
        let mut configuration = placement.configuration(&[])?;
        configuration["extenders"][0]["httpTimeout"] = "500ms".into();
        placement.schedule_by(&configuration)?;
        idle_one_wins(placement, "first").await?;
        placement.take_server()?.stop().await?;
        five(placement, "gone").await?;
        placement.serve(&gauges.section()).await?;
        placement.loaded(3).await?;
        idle_one_wins(placement, "again").await?;
        let server = placement.take_server()?;
        server.pause().await?;
        let slow = five(placement, "hanging").await;
        server.resume()?;
        placement.put_server(server);
        let took = slow?;
        ensure!(took < Duration::from_secs(60), "five pods took {took:?} with an extender that hangs");
        until("the replica to answer again", async || placement.seen().await.map(Some)).await?;
        idle_one_wins(placement, "at-last").await
    })
    .await
}

async fn idle_one_wins(placement: &Placement<'_>, name: &str) -> Result<()> {
    until(format!("{name}: the extender to be asked again"), async || {
        let before = placement.calls("prioritize").await?;
        let pod = placement.pod(name, &json!({}));
        placement.world.cluster.delete(&pod).await?;
        placement.world.cluster.create(&pod).await?;
        let placed = placement.placed(&format!("app={name}"), 1).await?;
        ensure!(placement.calls("prioritize").await? > before, "it was not asked");
        check_eq!(placed, [("n2".to_owned(), 1)].into(), "where {name} is");
        Ok(Some(()))
    })
    .await
}

/// Five pods get a node each; in which time.
async fn five(placement: &Placement<'_>, name: &str) -> Result<Duration> {
    let start = Instant::now();
    let workload = placement.workload("Deployment", name, 5, &json!({"requests": {"cpu": "100m"}}));
    placement.world.cluster.create(&workload).await?;
    placement.placed(&format!("app={name}"), 5).await?;
    let said = placement.scheduler_said(&["extender", "gnor"]);
    ensure!(!said.is_empty(), "{name}: the scheduler did not say that it passed the extender over");
    Ok(start.elapsed())
}
