//! The filter: nodes above a threshold are refused, unless all would be.

use anyhow::{Result, ensure};
use serde_json::json;

use super::full_by_requests;
use crate::harness::node_load::Gauges;
use crate::harness::placement::{Nodes, with_nodes};
use crate::harness::scheduler::plain;
use crate::harness::{World, check_eq};

pub(in super::super) async fn thresholds(world: &World) -> Result<()> {
    with_nodes(world, "refused", Nodes::new(4), async |placement| {
        let gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        // n4 is not measured.
        for (node, cpu, memory) in [("n1", 0.9, 0.1), ("n2", 0.1, 0.95), ("n3", 0.84, 0.89)] {
            gauges.set(&placement.node(node), cpu, memory);
        }
        placement.schedule_by(&plain())?;
        full_by_requests(placement, "n3").await?;
        placement.cordon(&placement.node("n4"), true).await?;
        placement.serve(&gauges.section()).await?;
        placement.loaded(3).await?;
        let mut configuration = placement.configuration(&["--filter"])?;
        for extender in configuration["extenders"].as_array_mut().into_iter().flatten() {
            // Only the filter speaks.
            extender["prioritizeVerb"] = "".into();
        }
        placement.schedule_by(&configuration)?;
        for name in ["free-1", "free-2"] {
            world.cluster.create(&placement.pod(name, &json!({"requests": {"cpu": "100m"}}))).await?;
            let placed = placement.placed(&format!("app={name}"), 1).await?;
            check_eq!(placed, [("n3".to_owned(), 1)].into(), "where {name} is");
        }
        ensure!(placement.calls("filter").await? >= 2.0, "the filter was not asked");
        // Too large for n3, so that only nodes above the threshold are left: they are let pass.
        world.cluster.create(&placement.pod("large", &json!({"requests": {"cpu": "20"}}))).await?;
        let placed = placement.placed("app=large", 1).await?;
        ensure!(!placed.contains_key("n3"), "{placed:?}");
        let daemons = placement.workload("DaemonSet", "daemons", 0, &json!({}));
        world.cluster.create(&daemons).await?;
        let placed = placement.placed("app=daemons", placement.node_names().len() + 3).await?;
        ensure!(["n1", "n2", "n3"].iter().all(|node| placed.contains_key(*node)), "{placed:?}");
        // An unmeasured node passes.
        placement.cordon(&placement.node("n4"), false).await?;
        placement.cordon(&placement.node("n3"), true).await?;
        world.cluster.create(&placement.pod("unmeasured", &json!({}))).await?;
        let placed = placement.placed("app=unmeasured", 1).await?;
        check_eq!(placed, [("n4".to_owned(), 1)].into(), "where the unmeasured node is");
        refused_with_a_reason(placement).await?;
        // With whole nodes in place of names.
        placement.cordon(&placement.node("n3"), false).await?;
        let mut configuration = placement.configuration(&["--filter"])?;
        configuration["extenders"][0]["nodeCacheCapable"] = false.into();
        placement.schedule_by(&configuration)?;
        world.cluster.create(&placement.pod("whole", &json!({}))).await?;
        let placed = placement.placed("app=whole", 1).await?;
        ensure!(placed.contains_key("n3") || placed.contains_key("n4"), "with whole nodes: {placed:?}");
        let whole = placement.metric("plimsoll_extender_whole_nodes_total", &[]).await?;
        ensure!(whole >= 2.0, "{whole} requests with whole nodes");
        ensure!(!placement.server_said(&["WARN", "nodeCacheCapable"])?.is_empty(), "no warning in the log");
        Ok(())
    })
    .await
}

async fn refused_with_a_reason(placement: &crate::harness::placement::Placement<'_>) -> Result<()> {
    let nodes: Vec<String> = placement.node_names().to_vec();
    let asked = json!({"Pod": placement.pod("any", &json!({})), "Nodes": null, "NodeNames": nodes});
    let (code, answer) = placement.call("/scheduler/filter", Some(&asked), true).await?;
    check_eq!(code, 200, "the filter: {answer}");
    check_eq!(answer["NodeNames"], json!([placement.node("n3"), placement.node("n4")]), "who passes");
    for (node, words) in [("n1", ["cpu", "0.9"]), ("n2", ["memory", "0.95"])] {
        let reason = answer["FailedNodes"][placement.node(node)].as_str().unwrap_or_default().to_lowercase();
        ensure!(reason.contains(words[0]), "{node} is refused because {reason:?}");
    }
    Ok(())
}
