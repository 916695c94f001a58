//! What a round of the balance controller costs in a large cluster: 5,000 nodes, 100,000 pods of 2,000 workloads.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark, of which criterion's macros are not documented"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use plimsoll_core::balance::{
    BalanceNode, BalanceSettings, Claims, Input, PodUses, Round, State, Verdict, plan,
};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    ByMetric, ByResource, ContainerUse, LearntWeights, LoadSnapshot, Metric, NodeLoad, NodeResource, Placed,
    PlacedPod, Settings, View,
};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 5_000;
const PODS: usize = 100_000;
const WORKLOADS: usize = 2_000;
const NOW: i64 = 1_764_532_800_000_000_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args().measurement_time(Duration::from_secs(10));
    let mut group = criterion.benchmark_group("balance/round");
    group.sample_size(20);
    for (name, spec) in [
        ("plain pods", json!({})),
        (
            "pods spread over zones, that keep away from their own",
            json!({
                "topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "$"}}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "$"}}}]}},
            }),
        ),
        // Every pod of the source is compared with every target.
        (
            "pods that fit nowhere",
            json!({"tolerations": [], "nodeSelector": {"kubernetes.io/os": "windows"}}),
        ),
    ] {
        let world = World::new(&spec);
        let state = world.busy_for_long_enough();
        let round = world.round(&state);
        let all = round.candidates.len() + round.spared.len();
        assert!(matches!(round.verdict, Verdict::Evict { .. } | Verdict::NoCandidate { .. }) && all >= 120);
        group.bench_function(name, |b| b.iter(|| world.round(black_box(&state))));
    }
    group.finish();
    criterion.final_summary();
}

struct World {
    objects: Objects,
    load: LoadSnapshot,
    placed: Placed,
    containers: Vec<ContainerUse>,
    weights: LearntWeights,
    settings: Settings,
    balance: BalanceSettings,
    claims: Claims,
}

impl World {
    fn new(spec: &Value) -> Self {
        let settings = Settings::default();
        let mut objects = Objects::default();
        let mut load = LoadSnapshot { taken: NOW, ..LoadSnapshot::default() };
        let names: Vec<Arc<str>> = (0..NODES).map(|node| format!("node-{node}").into()).collect();
        for (index, name) in names.iter().enumerate() {
            let amounts =
                json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name.as_ref(), "labels": {
                    "kubernetes.io/hostname": name.as_ref(), "kubernetes.io/os": if index == 1 { "windows" } else { "linux" },
                    "topology.kubernetes.io/zone": format!("z{}", index % 3), "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/instance-type": "large",
                }},
                "spec": if index == 1 { json!({"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]}) } else { json!({}) },
                "status": {"capacity": amounts, "allocatable": amounts},
            });
            objects.put(read_manifest(&node).unwrap().unwrap());
            // Half of the nodes have room; the first one is far too busy.
            let busy = if index == 0 { 0.95 } else { 0.3 + 0.4 * (index % 1000) as f64 / 1000.0 };
            let mut means = ByMetric::default();
            for metric in [Metric::Cpu, Metric::Memory, Metric::Disk, Metric::Load] {
                means.set(metric, Some(busy));
            }
            let measured = NodeLoad {
                means: vec![means; settings.load.windows.len()],
                sampled: NOW,
                ..NodeLoad::default()
            };
            load.nodes.insert(Arc::clone(name), measured);
        }
        let shapes: Vec<PlacedPod> =
            (0..WORKLOADS).map(|workload| template(workload, spec, &objects)).collect();
        let mut containers = Vec::with_capacity(PODS);
        let pods: Vec<PlacedPod> = (0..PODS)
            .map(|index| {
                // 120 pods are on the node that is too busy; the others are spread over all.
                let node = if index < 120 { 0 } else { index % NODES };
                let like = &shapes[index % WORKLOADS];
                let pod = PlacedPod {
                    name: format!("{}-{index}", like.name).into(),
                    node: Some(Arc::clone(&names[node])),
                    ..like.clone()
                };
                let mut local = ByResource::default();
                local.set(NodeResource::Cpu, Some(0.004));
                local.set(NodeResource::Memory, Some(0.004));
                containers.push(ContainerUse {
                    workload: pod.shape.workload.clone(),
                    pod: format!("{}/{}", pod.namespace(), pod.name).into(),
                    container: "app".into(),
                    image: "app:1".into(),
                    node: Arc::clone(&names[node]),
                    local,
                });
                pod
            })
            .collect();
        Self {
            objects,
            load,
            placed: Placed::listed(pods),
            containers,
            weights: LearntWeights::default(),
            settings,
            balance: BalanceSettings::default(),
            claims: Claims::default(),
        }
    }

    fn round(&self, state: &State) -> Round {
        self.round_by(state, &self.load)
    }

    fn round_by(&self, state: &State, load: &LoadSnapshot) -> Round {
        let view = View {
            objects: &self.objects,
            load,
            placed: &self.placed,
            weights: &self.weights,
            settings: &self.settings,
            now: NOW,
            node_lost: 0,
            bindings: None,
        };
        let nodes = BalanceNode::all(&view);
        let uses = PodUses::new(&self.containers, &nodes, &self.placed);
        let input = Input {
            nodes: &nodes,
            pods: &self.placed,
            usage: &|pod| uses.of(pod),
            claims: &self.claims,
            quota: None,
            load: &self.settings.load,
            settings: &self.balance,
            now: NOW,
            node_lost: 0,
        };
        plan(&input, state)
    }

    fn busy_for_long_enough(&self) -> State {
        // The same samples do not count twice.
        let mut state = State::default();
        for ago in [2, 1] {
            let mut load = self.load.clone();
            for node in load.nodes.values_mut() {
                node.sampled -= ago;
            }
            state = self.round_by(&state, &load).state;
        }
        state
    }
}

fn template(workload: usize, spec: &Value, objects: &Objects) -> PlacedPod {
    let name = format!("app-{workload}");
    let spec = spec.to_string().replace("\"$\"", &format!("\"{name}\""));
    let mut spec: Value = serde_json::from_str(&spec).unwrap();
    spec["containers"] =
        json!([{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]);
    spec["nodeName"] = json!("x");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": format!("team-{}", workload % 200), "labels": {"app": name},
            "creationTimestamp": "2025-11-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    PlacedPod::read(&pod, objects).unwrap()
}
