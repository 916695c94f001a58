//! Placement by real load. Each scenario has nodes and a scheduler of its own while it runs.

pub(super) mod balance;
pub(super) mod load;
pub(super) mod outage;
pub(super) mod refusals;
pub(super) mod spread;
pub(super) mod told;
pub(super) mod wire;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::harness::placement::Placement;
use crate::harness::until;

/// What is said of a node.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// For a pod of which nothing is known.
    score: f64,
    bindings: u64,
    measured: bool,
}

impl Placement<'_> {
    /// What the replica says of the scenario's nodes, by their short names.
    async fn seen(&self) -> Result<BTreeMap<&'static str, Seen>> {
        let answer = self.ask("/api/v1/nodes").await?;
        let all = answer["nodes"].as_array().context("no nodes")?;
        let mut seen = BTreeMap::new();
        for short in ["n1", "n2", "n3", "n4", "n5", "n6"] {
            let Some(node) = all.iter().find(|node| node["name"] == self.node(short)) else { continue };
            let score = node["score"].as_f64().with_context(|| format!("no score in {node}"))?;
            let bindings = node["bindings"].as_u64().with_context(|| format!("no bindings in {node}"))?;
            seen.insert(short, Seen { score, bindings, measured: !node["U"].is_null() });
        }
        ensure!(seen.len() == self.node_names().len(), "only {:?} are known", seen.keys());
        Ok(seen)
    }

    /// Waits until so many of the scenario's nodes are measured.
    async fn loaded(&self, count: usize) -> Result<()> {
        until(format!("the load of {count} nodes"), async || {
            let seen = self.seen().await?;
            let measured = seen.values().filter(|node| node.measured).count();
            ensure!(measured == count, "{measured} are measured: {}", self.ask("/api/v1/nodes").await?);
            Ok(Some(()))
        })
        .await
    }

    /// How often the extender was asked so.
    async fn calls(&self, verb: &str) -> Result<f64> {
        self.metric("plimsoll_extender_requests_total", &[&format!(r#"verb="{verb}""#)]).await
    }
}

/// Three quarters of the node are requested by a pod that has been there for days.
async fn full_by_requests(placement: &Placement<'_>, short: &str) -> Result<()> {
    let large = json!({"requests": {"cpu": "24", "memory": "48Gi"}});
    let pod = placement.pinned(&format!("large-{short}"), &large, short).await?;
    placement.bound_ago(&pod, 3 * 86_400).await
}
