//! The pods of a scenario: what they are, and where.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Placement;
use crate::harness::kubelet::stamp;
use crate::harness::objects::{container, is_running, named, pod_spec};
use crate::harness::scheduler::SCHEDULER;
use crate::harness::until;

impl Placement<'_> {
    /// The pod was bound so many seconds ago, as far as anybody can tell.
    pub(crate) async fn bound_ago(&self, pod: &Value, seconds: i64) -> Result<()> {
        let stored = self.world.cluster.get(&named("v1", "Pod", pod)).await?;
        let mut conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        let at = Timestamp::from_second(Timestamp::now().as_second() - seconds)?;
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(at)}));
        let change = json!({"conditions": conditions});
        self.world.cluster.merge_status(&named("v1", "Pod", pod), &change).await.map(drop)
    }

    /// The pods with these labels have been where they are for an hour.
    pub(crate) async fn aged(&self, selector: &str) -> Result<()> {
        for pod in self.pods(selector).await? {
            self.bound_ago(&pod, 3_600).await?;
        }
        Ok(())
    }

    /// The pods of a namespace by node, once exactly `count` of them with these labels are bound and run.
    pub(crate) async fn placed(&self, selector: &str, count: usize) -> Result<BTreeMap<String, usize>> {
        let pods = until(format!("{count} pods ({selector}) to be placed"), async || {
            if let Err(ended) = self.check() {
                return Ok(Some(Err(ended)));
            }
            let pods = self.pods(selector).await?;
            let up = pods.iter().filter(|pod| is_running(pod)).count();
            ensure!(up == count && pods.len() == count, "{up} of {} run", pods.len());
            Ok(Some(Ok(pods)))
        })
        .await??;
        let mut by_node = BTreeMap::new();
        for pod in &pods {
            *by_node.entry(self.short(pod)).or_default() += 1;
        }
        Ok(by_node)
    }

    /// The pods of the namespace with these labels that are not on their way out.
    pub(crate) async fn pods(&self, selector: &str) -> Result<Vec<Value>> {
        let mut pods = self.world.cluster.list("v1", "Pod", Some(&self.namespace), selector).await?;
        pods.retain(|pod| pod["metadata"].get("deletionTimestamp").is_none());
        Ok(pods)
    }

    /// The node of a pod: `n1`, `n2` .., or the whole name of another.
    pub(crate) fn short(&self, pod: &Value) -> String {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let own = node.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('-'));
        own.unwrap_or(node).to_owned()
    }

    /// A pod of nobody.
    pub(crate) fn pod(&self, name: &str, resources: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"app": name}},
            "spec": spec(resources),
        })
    }

    /// A workload whose pods have the label `app: NAME`.
    pub(crate) fn workload(&self, kind: &str, name: &str, replicas: usize, resources: &Value) -> Value {
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec(resources)},
            },
        });
        if kind != "DaemonSet" {
            object["spec"]["replicas"] = replicas.into();
        }
        object
    }

    /// Creates a pod that may only be on this node, and waits until it is there.
    pub(crate) async fn pinned(&self, name: &str, resources: &Value, short: &str) -> Result<Value> {
        let mut object = self.pod(name, resources);
        object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": self.node(short)});
        self.world.cluster.create(&object).await?;
        self.placed(&format!("app={name}"), 1).await?;
        self.world.cluster.get(&object).await
    }
}

/// The spec of a pod of one container for the scheduler of the scenario.
fn spec(resources: &Value) -> Value {
    let mut spec = pod_spec(&[container("app", resources)]);
    spec["schedulerName"] = SCHEDULER.into();
    spec
}

/// The names of these pods, sorted.
pub(crate) fn names(pods: &[Value]) -> Vec<String> {
    let mut names: Vec<String> =
        pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
    names.sort();
    names
}
