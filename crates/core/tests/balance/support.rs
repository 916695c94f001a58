//! A small cluster.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_core::balance::{BalanceNode, BalanceSettings, Claims, Input, QuotaRoom, Round, State, plan};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    ByMetric, Figures, LearntWeights, LoadSnapshot, Metric, NodeLoad, Placed, PlacedPod, Settings, View,
    Window,
};
use plimsoll_core::quota::Tree;
use plimsoll_core::quota::ledger::Ledger;
use serde_json::{Value, json};

/// A time at which everything in these tests happens: seconds since 1970.
pub(crate) const NOW: i64 = 1_764_532_800;
pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) struct World {
    pub(crate) objects: Objects,
    pub(crate) load: LoadSnapshot,
    pub(crate) pods: Vec<PlacedPod>,
    /// By pod name: cores and bytes.
    pub(crate) uses: HashMap<String, Figures>,
    pub(crate) claims: Claims,
    pub(crate) quota: Option<(Tree, Ledger)>,
    pub(crate) settings: Settings,
    pub(crate) balance: BalanceSettings,
    /// Seconds since 1970; 0: never.
    pub(crate) node_lost: i64,
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Whether each round has newer samples than the one before.
    pub(crate) news: bool,
    rounds: Cell<i64>,
}

impl World {
    /// Nodes are busy by CPU only, over one window of a quarter of an hour, unless a test says otherwise.
    pub(crate) fn new() -> Self {
        let mut settings = Settings::default();
        settings.load.metrics = vec![(Metric::Cpu, 1.0)];
        settings.load.windows = vec![Window { name: "15m".into(), seconds: 900, weight: 1.0 }];
        Self {
            objects: Objects::default(),
            load: LoadSnapshot::default(),
            pods: Vec::new(),
            uses: HashMap::new(),
            claims: Claims::default(),
            quota: None,
            settings,
            balance: BalanceSettings::default(),
            node_lost: 0,
            now: NOW,
            news: true,
            rounds: Cell::new(0),
        }
    }

    /// Nodes of 10 cores that are so busy, named `n1` and so on.
    pub(crate) fn of_busy(busy: &[f64]) -> Self {
        let mut world = Self::new();
        for (index, busy) in busy.iter().enumerate() {
            world.node(&format!("n{}", index + 1), &json!({}));
            world.busy(&format!("n{}", index + 1), *busy);
        }
        world
    }

    /// A node of 10 cores and 100 GiB; `more` is merged into it.
    pub(crate) fn node(&mut self, name: &str, more: &Value) {
        let amounts = json!({"cpu": "10", "memory": "100Gi", "pods": "110"});
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {}, "status": {"capacity": amounts, "allocatable": amounts},
        });
        merge(&mut node, more);
        self.objects.put(read_manifest(&node).unwrap().unwrap());
    }

    /// How busy its CPU is.
    pub(crate) fn busy(&mut self, name: &str, busy: f64) {
        let mut means = ByMetric::default();
        means.set(Metric::Cpu, Some(busy));
        self.measured(name, vec![means; self.settings.load.windows.len()]);
    }

    pub(crate) fn measured(&mut self, name: &str, means: Vec<ByMetric<Option<f64>>>) {
        let load = NodeLoad { means, sampled: self.now * SECOND, ..NodeLoad::default() };
        self.load.nodes.insert(name.into(), load);
    }

    /// A pod of the Deployment `web` that has been on its node for an hour and uses so many cores, and its other replica
    /// somewhere else.
    pub(crate) fn pod(&mut self, node: &str, name: &str, cores: f64) {
        self.pod_like(node, name, cores, &json!({}));
    }

    /// The same with more merged into it.
    pub(crate) fn pod_like(&mut self, node: &str, name: &str, cores: f64, more: &Value) {
        let pod = pod(node, name, more);
        let twin = pod_of(node, name, &format!("{name}-twin"), more);
        self.put(&pod, cores);
        let mut twin = twin;
        twin["spec"]["nodeName"] = json!("elsewhere");
        self.put(&twin, cores);
    }

    pub(crate) fn put(&mut self, pod: &Value, cores: f64) {
        let read = PlacedPod::read(pod, &self.objects).unwrap();
        self.uses.insert(read.name.to_string(), Figures { cpu: cores, memory: 0.0 });
        self.pods.push(read);
    }

    pub(crate) fn plan(&self, state: &State) -> Round {
        let placed = Placed::listed(self.pods.iter().cloned());
        self.plan_with(state, &placed)
    }

    pub(crate) fn plan_with(&self, state: &State, placed: &Placed) -> Round {
        self.rounds.set(self.rounds.get() + i64::from(self.news));
        let mut load = self.load.clone();
        for node in load.nodes.values_mut() {
            node.sampled += self.rounds.get();
        }
        let weights = LearntWeights::default();
        let view = View {
            objects: &self.objects,
            load: &load,
            placed,
            weights: &weights,
            settings: &self.settings,
            now: self.now * SECOND,
            node_lost: self.node_lost * SECOND,
            bindings: None,
        };
        let nodes = BalanceNode::all(&view);
        plan(
            &Input {
                nodes: &nodes,
                pods: placed,
                usage: &|pod| self.uses.get(pod.name.as_ref()).copied(),
                claims: &self.claims,
                quota: self.quota.as_ref().map(|(tree, ledger)| QuotaRoom::new(tree, ledger)).as_ref(),
                load: &self.settings.load,
                settings: &self.balance,
                now: self.now * SECOND,
                node_lost: self.node_lost * SECOND,
            },
            state,
        )
    }

    /// The last of so many rounds.
    pub(crate) fn rounds(&self, count: usize) -> Round {
        let mut round = self.plan(&State::default());
        for _ in 1..count {
            round = self.plan(&round.state);
        }
        round
    }

    /// Which pods go in the third round, the first one first.
    pub(crate) fn goes(&self) -> Vec<String> {
        self.rounds(3).candidates.iter().map(|found| found.pod.name.to_string()).collect()
    }

    /// Why a pod stays in the third round, in one word.
    pub(crate) fn spared(&self, name: &str) -> Option<&'static str> {
        let round = self.rounds(3);
        round.spared.iter().find(|(pod, _)| pod.name.as_ref() == name).map(|(_, why)| why.name())
    }
}

pub(crate) fn pod(node: &str, name: &str, more: &Value) -> Value {
    pod_of(node, name, name, more)
}

fn pod_of(node: &str, owner: &str, name: &str, more: &Value) -> Value {
    let time = |ago: i64| jiff::Timestamp::from_second(NOW - ago).unwrap().to_string();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {"app": owner},
            "creationTimestamp": time(3600),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": time(3600)},
                {"type": "Ready", "status": "True"},
            ],
        },
    });
    merge(&mut pod, more);
    pod
}

/// Objects are merged, everything else is replaced; null takes away.
pub(crate) fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// Means of CPU, memory, disk and load.
pub(crate) fn means(values: [Option<f64>; 4]) -> ByMetric<Option<f64>> {
    let mut means = ByMetric::default();
    for (metric, value) in [Metric::Cpu, Metric::Memory, Metric::Disk, Metric::Load].into_iter().zip(values) {
        means.set(metric, value);
    }
    means
}

pub(crate) fn arc(text: &str) -> Arc<str> {
    text.into()
}
