//! A cluster with its load and its pods, and what its scheduler asks.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is made up here is right, or the run is worth nothing"
)]

use std::fmt::Write as _;

use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    ByMetric, ByResource, LearntWeights, LoadSnapshot, Metric, NodeLoad, Placed, PlacedPod, Policies,
    Settings, workload_key,
};
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;
/// Pods of each node.
const PODS: usize = 20;

/// Everything that a decision reads.
pub(crate) struct Cluster {
    pub(crate) names: Vec<String>,
    pub(crate) objects: Objects,
    pub(crate) load: LoadSnapshot,
    pub(crate) placed: Placed,
    pub(crate) weights: LearntWeights,
    pub(crate) settings: Settings,
}

impl Cluster {
    /// So many nodes at `now` (nanoseconds since 1970), each with 20 pods, of which one was bound within the last minute on
    /// every tenth node, and stays so for an hour. All policies have a part in decisions if `all_policies`, else that which
    /// has by default.
    pub(crate) fn new(nodes: usize, now: i64, all_policies: bool) -> Self {
        let names: Vec<String> = (0..nodes).map(name).collect();
        let mut objects = Objects::default();
        let mut load = LoadSnapshot { taken: now - 10 * SECOND, ..LoadSnapshot::default() };
        let mut pods = Vec::with_capacity(nodes * PODS);
        for (number, name) in names.iter().enumerate() {
            objects.put(read_manifest(&node(name)).unwrap().unwrap());
            load.nodes.insert(name.as_str().into(), measured(number, now));
            pods.extend(
                (0..PODS)
                    .map(|pod| PlacedPod::read(&bound(number * PODS + pod, name, now), &objects).unwrap()),
            );
        }
        let mut weights = LearntWeights::default();
        let mut of_workload = ByResource::all(0.2);
        of_workload.set(plimsoll_core::placement::NodeResource::Cpu, 0.4);
        weights.workloads.insert(workload_key("shop/StatefulSet/web-0").unwrap(), of_workload);
        let mut settings = Settings::default();
        // Nobody reads it anew.
        settings.load.maximum_age = 86_400;
        if all_policies {
            settings.policies = Policies { load: 1.0, weights: 1.0, overcommit_risk: 1.0 };
        }
        Self { names, objects, load, placed: Placed::listed(pods), weights, settings }
    }
}

/// What a scheduler sends that knows of `nodes` nodes that the pod fits on.
pub(crate) fn request(nodes: usize) -> Vec<u8> {
    let review: Value = serde_json::from_slice(&crate::data::review()).unwrap();
    let mut pod = review["request"]["object"].clone();
    pod["metadata"]["name"] = "web-0-77".into();
    pod["metadata"]["namespace"] = "shop".into();
    pod["metadata"]["ownerReferences"] = owner(0);
    let names: Vec<String> = (0..nodes).map(name).collect();
    json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string().into_bytes()
}

/// As clouds name nodes.
fn name(number: usize) -> String {
    let mut name = String::new();
    write!(name, "ip-10-{}-{}-{}.region-1.compute.internal", number >> 16, (number >> 8) & 255, number & 255)
        .unwrap();
    name
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "allocatable": {"cpu": "31500m", "memory": "120Gi", "pods": "110"}}})
}

fn measured(number: usize, now: i64) -> NodeLoad {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let share = |salt: usize| ((number * 7919 + salt * 104_729) % 1000) as f64 / 1000.0;
    let means = (0..3).map(|window| {
        let mut means = ByMetric::default();
        for (index, metric) in
            [Metric::Cpu, Metric::Memory, Metric::Disk, Metric::Load].into_iter().enumerate()
        {
            means.set(metric, Some(share(window * 4 + index)));
        }
        means
    });
    NodeLoad { means: means.collect(), sampled: now - 15 * SECOND, ..NodeLoad::default() }
}

/// Workloads have 50 replicas each.
fn owner(pod: usize) -> Value {
    let name = format!("web-{}", pod / 50);
    json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": true}])
}

fn bound(pod: usize, node: &str, now: i64) -> Value {
    let ago = if pod.is_multiple_of(PODS * 10) { -3600 } else { 172_800 };
    let time = jiff::Timestamp::from_nanosecond(i128::from(now - ago * SECOND)).unwrap().to_string();
    let name = format!("web-{}-{}", pod / 50, pod % 50);
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": time,
            "labels": {"app": "web"}, "ownerReferences": owner(pod)},
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "shop/web:1",
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
        ]},
    })
}
