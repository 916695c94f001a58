//! Load that follows the pods: a node is used by what its pods say that they use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Placement;
use crate::harness::node_load::Gauges;
use crate::harness::objects::{annotation, is_running};

impl Placement<'_> {
    /// Runs a scenario while the load of the nodes follows the pods that are on them; see [`USES`]. It has been as it is
    /// now for a while. `base` is what each node is used besides. CPU and memory are used alike.
    pub(crate) async fn while_load_follows(
        &self,
        base: &[(&str, f64)],
        scenario: impl AsyncFnOnce(&Gauges) -> Result<()>,
    ) -> Result<()> {
        let used = self.used(base, &self.pods("").await?);
        let gauges = Gauges::start_after(&self.dir.join("prometheus"), &used).await?;
        let follow = async {
            let mut known = BTreeSet::new();
            loop {
                // One look that fails is followed by the next.
                if let Ok(pods) = self.pods("").await {
                    for (node, share) in self.used(base, &pods) {
                        gauges.set(&node, share, share);
                    }
                    known = self.containers(&gauges, &pods, &known);
                }
                sleep(FOLLOW).await;
            }
        };
        tokio::select! {
            outcome = scenario(&gauges) => outcome,
            () = follow => Ok(()),
        }
    }

    /// How much the nodes are used.
    fn used(&self, base: &[(&str, f64)], pods: &[Value]) -> BTreeMap<String, f64> {
        let mut used: BTreeMap<String, f64> =
            base.iter().map(|(node, share)| (self.node(node), *share)).collect();
        for pod in pods.iter().filter(|pod| is_running(pod)) {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if let Some(used) = used.get_mut(node) {
                *used += uses(pod);
            }
        }
        used
    }

    /// Says what these pods use, and nothing more of others that are known; which are known now.
    fn containers(&self, gauges: &Gauges, pods: &[Value], known: &BTreeSet<String>) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        for pod in pods.iter().filter(|pod| is_running(pod)) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            gauges.container(&self.namespace, name, Some((uses(pod) * CORES, uses(pod) * BYTES)));
            named.insert(name.to_owned());
        }
        for gone in known.difference(&named) {
            gauges.container(&self.namespace, gone, None);
        }
        named
    }
}

/// Which share of its node a pod uses.
fn uses(pod: &Value) -> f64 {
    annotation(pod, USES).and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// The annotation of pods that says which share of a node of [`Nodes::sized`] they use.
pub(crate) const USES: &str = "e2e.plimsoll.dev/uses";
const CORES: f64 = 16.0;
const BYTES: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// What a pod requests that uses this share of a node of [`Nodes::sized`].
pub(crate) fn requests(share: f64) -> Value {
    json!({"requests": {"cpu": format!("{:.3}", share * CORES), "memory": format!("{:.0}", share * BYTES)}})
}

/// How often the load follows the pods.
const FOLLOW: Duration = Duration::from_millis(300);
