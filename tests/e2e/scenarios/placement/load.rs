//! Pods go where the load is small, whatever is requested.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Seen, full_by_requests};
use crate::harness::metrics_server::using;
use crate::harness::node_load::{Gauges, NodeMeans, STEP, exported};
use crate::harness::placement::{Nodes, with_nodes};
use crate::harness::scheduler::plain;
use crate::harness::{World, check_eq, until};

/// By requests the idle node is the fullest: a scheduler avoids it, and with the extender prefers it. Strangers are not
/// let in.
pub(in super::super) async fn idle_node(world: &World) -> Result<()> {
    with_nodes(world, "idle", Nodes::new(5), async |placement| {
        let mut loads = [0.7, 0.6, 0.8, 0.7, 0.05].map(NodeMeans::all);
        // The idle node has just come: a mean over a day is one over what there is.
        loads[4].young = true;
        let nodes: Vec<_> = placement.instances().into_iter().zip(loads).collect();
        let (_target, prometheus) = exported(&placement.dir.join("prometheus"), 1, &nodes).await?;
        placement.schedule_by(&plain())?;
        full_by_requests(placement, "n5").await?;
        let small = json!({"requests": {"cpu": "250m", "memory": "256Mi"}});
        for name in ["before-1", "before-2", "before-3"] {
            world.cluster.create(&placement.pod(name, &small)).await?;
            let placed = placement.placed(&format!("app={name}"), 1).await?;
            ensure!(!placed.contains_key("n5"), "{name} goes by requests, and is on {placed:?}");
        }
        placement.serve(&json!({"load": {"prometheus": {"address": prometheus.url()}}})).await?;
        placement.loaded(5).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        for name in ["after-1", "after-2", "after-3"] {
            world.cluster.create(&placement.pod(name, &small)).await?;
            let placed = placement.placed(&format!("app={name}"), 1).await?;
            check_eq!(placed, [("n5".to_owned(), 1)].into(), "where {name} is");
        }
        let asked = placement.calls("prioritize").await?;
        ensure!(asked >= 3.0, "the extender was asked {asked} times");
        let (code, answer) = placement.call("/scheduler/prioritize", Some(&json!({})), true).await?;
        ensure!(code < 500, "a scheduler that sends nothing: {code}: {answer}");
        let stranger = placement.call("/scheduler/prioritize", Some(&json!({})), false).await;
        ensure!(stranger.is_err(), "a caller without a certificate gets {stranger:?}");
        Ok(())
    })
    .await
}

/// Means over 15 minutes, an hour and a day of CPU, memory, disk and load, and what comes of them.
const TABLE: [([[f64; 3]; 4], f64); 4] = [
    ([[0.8, 0.7, 0.6], [0.6, 0.6, 0.5], [0.3, 0.2, 0.1], [0.9, 0.8, 0.7]], 45.6),
    ([[0.2, 0.3, 0.4], [0.3, 0.3, 0.4], [0.1, 0.1, 0.2], [0.2, 0.2, 0.3]], 70.8),
    ([[0.5, 0.5, 0.5], [0.7, 0.7, 0.7], [0.4, 0.4, 0.4], [0.5, 0.5, 0.5]], 46.0),
    ([[0.3, 0.4, 0.6], [0.5, 0.5, 0.5], [0.1, 0.2, 0.3], [1.5, 0.6, 0.4]], 55.4),
];
/// The windows move on while the scenario runs.
const TOLERANCE: f64 = 0.5;

/// What `node_exporter` said for a day becomes the known scores; five bindings cost nothing, a sixth costs 20, and then
/// the second best node wins. A restart forgets none of it.
pub(in super::super) async fn hot_spot(world: &World) -> Result<()> {
    with_nodes(world, "hot", Nodes::new(4), async |placement| {
        let means =
            |[cpu, memory, disk, load]: [[f64; 3]; 4]| NodeMeans { young: false, cpu, memory, disk, load };
        let loads = TABLE.map(|(row, _)| means(row));
        let nodes: Vec<_> = placement.instances().into_iter().zip(loads).collect();
        let (_target, prometheus) = exported(&placement.dir.join("prometheus"), STEP, &nodes).await?;
        let section = json!({
            "load": {"prometheus": {"address": prometheus.url()}},
            // The scenario takes a while.
            "hotSpot": {"window": "5m"},
        });
        placement.serve(&section).await?;
        placement.loaded(4).await?;
        let scores = async |what: &str, want: [f64; 4]| {
            until(format!("{what}: scores {want:?}"), async || {
                let seen = placement.seen().await?;
                for (node, want) in ["n1", "n2", "n3", "n4"].into_iter().zip(want) {
                    let Seen { score, .. } = seen[node];
                    ensure!((score - want).abs() < TOLERANCE, "{node}: {score}");
                }
                Ok(Some(()))
            })
            .await
        };
        let [n1, n2, n3, n4] = TABLE.map(|(_, score)| score);
        scores("nothing was bound", [n1, n2, n3, n4]).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        for number in 1..=7 {
            let name = format!("pod-{number}");
            world.cluster.create(&placement.pod(&name, &json!({}))).await?;
            let placed = placement.placed(&format!("app={name}"), 1).await?;
            let want = if number <= 6 { "n2" } else { "n4" };
            check_eq!(placed, [(want.to_owned(), 1)].into(), "where {name} is");
            let bound = number.min(6);
            until(format!("{bound} bindings to be known"), async || {
                Ok((placement.seen().await?["n2"].bindings == bound).then_some(()))
            })
            .await?;
            let n2 = if number <= 5 { n2 } else { n2 - 20.0 };
            scores(&format!("{number} bindings"), [n1, n2, n3, n4]).await?;
        }
        // A replica that starts now knows what was bound before.
        placement.serve(&section).await?;
        placement.loaded(4).await?;
        scores("after a restart", [n1, n2 - 20.0, n3, n4]).await
    })
    .await
}

/// A node that nobody measures has the median of the others, and takes pods; so does everybody when the source is gone.
pub(in super::super) async fn unmeasured(world: &World) -> Result<()> {
    with_nodes(world, "unmeasured", Nodes::new(4), async |placement| {
        let mut gauges = Gauges::start(&placement.dir.join("prometheus")).await?;
        for (node, share) in [("n1", 0.9), ("n2", 0.6), ("n3", 0.2)] {
            gauges.set(&placement.node(node), share, share);
        }
        placement.serve(&gauges.section()).await?;
        placement.loaded(3).await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        let seen = placement.seen().await?;
        ensure!((seen["n4"].score - 40.0).abs() < 1e-6, "the median: {seen:?}");
        ensure!(!seen["n4"].measured && seen["n1"].measured, "who is measured: {seen:?}");
        placement.pinned("pinned", &json!({}), "n4").await?;
        world.cluster.create(&placement.pod("free", &json!({}))).await?;
        let placed = placement.placed("app=free", 1).await?;
        check_eq!(placed, [("n3".to_owned(), 1)].into(), "where the best node is");
        // Without n3 the unmeasured one is as good as n2, and better than n1.
        placement.cordon(&placement.node("n3"), true).await?;
        let six = placement.workload("Deployment", "six", 6, &json!({}));
        world.cluster.create(&six).await?;
        let placed = placement.placed("app=six", 6).await?;
        ensure!(placed.get("n4").is_some_and(|count| *count >= 2), "{placed:?}");
        placement.cordon(&placement.node("n3"), false).await?;
        gauges.silence(&placement.node("n3"));
        until("n3 to be unmeasured", async || Ok((!placement.seen().await?["n3"].measured).then_some(())))
            .await?;
        gauges.kill();
        until("nothing to be measured", async || {
            Ok(placement.seen().await?.values().all(|node| !node.measured).then_some(()))
        })
        .await?;
        let eight = placement.workload("Deployment", "eight", 8, &json!({}));
        world.cluster.create(&eight).await?;
        let placed = placement.placed("app=eight", 8).await?;
        check_eq!(placed.len(), 4, "nodes in use without any load: {placed:?}");
        Ok(())
    })
    .await
}

/// Usage of nodes by metrics-server.
pub(in super::super) async fn metrics_server(world: &World) -> Result<()> {
    let nodes = Nodes { at_kwok: true, ..Nodes::new(3) };
    with_nodes(world, "by-metrics", nodes, async |placement| {
        world.metrics_server().await?;
        placement.schedule_by(&plain())?;
        for (node, cpu, memory) in [("n1", "28", "40Gi"), ("n2", "20", "30Gi"), ("n3", "1", "1Gi")] {
            let mut pod = using(placement.pod(&format!("busy-{node}"), &json!({})), cpu, memory);
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": placement.node(node)});
            world.cluster.create(&pod).await?;
        }
        placement
            .serve(&json!({
                "load": {
                    "source": "MetricsServer", "windows": {"15m": 1}, "metrics": {"cpu": 0.5, "memory": 0.5},
                },
            }))
            .await?;
        placement.loaded(3).await?;
        until("scores by what the pods use", async || {
            let seen = placement.seen().await?;
            ensure!(
                seen["n1"].score < seen["n2"].score && seen["n2"].score < seen["n3"].score,
                "scores: {seen:?}"
            );
            Ok(Some(()))
        })
        .await?;
        full_by_requests(placement, "n3").await?;
        placement.schedule_by(&placement.configuration(&[])?)?;
        world.cluster.create(&placement.pod("free", &json!({"requests": {"cpu": "100m"}}))).await?;
        let placed = placement.placed("app=free", 1).await?;
        check_eq!(placed, [("n3".to_owned(), 1)].into(), "where the pod is");
        Ok(())
    })
    .await
}
