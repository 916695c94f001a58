//! A small cluster to score.

use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    Decision, Incoming, LearntWeights, LoadFile, Placed, PlacedPod, Policies, Refusal, Settings, View, learn,
    refuse, score,
};
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};

pub(crate) const SECOND: i64 = 1_000_000_000;
/// 2026-03-01T10:00:00Z
pub(crate) const NOW: i64 = 1_772_359_200 * SECOND;

#[derive(Default)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) objects: Objects,
    pub(crate) file: LoadFile,
    pub(crate) placed: Placed,
    pub(crate) weights: LearntWeights,
    pub(crate) node_lost: i64,
}

impl World {
    pub(crate) fn of(file: &Value) -> Self {
        let mut world = Self::default();
        world.load(file);
        world.placed = Placed::listed([]);
        world
    }

    pub(crate) fn load(&mut self, file: &Value) {
        self.file = LoadFile::read(file, &self.settings.load, NOW).unwrap();
        let load = &self.file.load.nodes;
        let totals = |node: &str| load.get(node).map(|node| node.totals).unwrap_or_default();
        self.weights = learn(&self.file.containers, totals, load.values().map(|node| node.totals));
    }

    pub(crate) fn policies(mut self, load: f64, weights: f64, overcommit_risk: f64) -> Self {
        self.settings.policies = Policies { load, weights, overcommit_risk };
        self
    }

    pub(crate) fn put(&mut self, object: &Value) {
        self.objects.put(read_manifest(object).unwrap().unwrap());
    }

    pub(crate) fn place(&mut self, pod: &Value) {
        let pod = PlacedPod::read(pod, &self.objects).unwrap();
        self.placed.put(pod);
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            objects: &self.objects,
            load: &self.file.load,
            placed: &self.placed,
            weights: &self.weights,
            settings: &self.settings,
            now: NOW,
            node_lost: self.node_lost,
            bindings: self.file.bindings.as_ref(),
        }
    }

    pub(crate) fn score_of(&self, pod: &Value, nodes: &[&str]) -> Decision {
        score(&Incoming::read(&Pruned::of_placed(pod), &self.objects), nodes, &self.view())
    }

    pub(crate) fn score(&self, nodes: &[&str]) -> Decision {
        self.score_of(&plain_pod(), nodes)
    }

    pub(crate) fn scores(&self, nodes: &[&str]) -> Vec<f64> {
        self.score(nodes).nodes.iter().map(|node| node.score).collect()
    }

    pub(crate) fn refusals(&self, pod: &Value, nodes: &[&str]) -> Vec<Option<Refusal>> {
        refuse(&Incoming::read(&Pruned::of_placed(pod), &self.objects), nodes, &self.view())
    }
}

/// A pod without figures.
pub(crate) fn plain_pod() -> Value {
    json!({"metadata": {"name": "new", "namespace": "shop"}, "spec": {"containers": [{"name": "app"}]}})
}

/// A pod of a Deployment on a node, bound so many seconds ago.
pub(crate) fn bound(name: &str, owner: &str, node: &str, ago: i64) -> Value {
    let time = jiff::Timestamp::from_nanosecond(i128::from(NOW - ago * SECOND)).unwrap().to_string();
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": true},
        ]},
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
            {"type": "Ready", "status": "True"},
        ]},
    })
}

/// With requests and limits of the one container.
pub(crate) fn with_resources(mut pod: Value, requests: &Value, limits: &Value) -> Value {
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
    pod
}

/// The nodes of the vector.
pub(crate) fn four() -> Value {
    let node = |means: [[f64; 3]; 4]| {
        let metric = |index: usize| {
            let [short, middle, long] = means[index];
            json!({"15m": short, "1h": middle, "1d": long})
        };
        json!({"cpu": metric(0), "memory": metric(1), "disk": metric(2), "load": metric(3)})
    };
    json!({"nodes": {
        "n1": node([[0.80, 0.70, 0.60], [0.60, 0.60, 0.50], [0.30, 0.20, 0.10], [0.90, 0.80, 0.70]]),
        "n2": node([[0.20, 0.30, 0.40], [0.30, 0.30, 0.40], [0.10, 0.10, 0.20], [0.20, 0.20, 0.30]]),
        "n3": node([[0.50, 0.50, 0.50], [0.70, 0.70, 0.70], [0.40, 0.40, 0.40], [0.50, 0.50, 0.50]]),
        "n4": node([[0.30, 0.40, 0.60], [0.50, 0.50, 0.50], [0.10, 0.20, 0.30], [1.50, 0.60, 0.40]]),
    }})
}

pub(crate) const FOUR: [&str; 4] = ["n1", "n2", "n3", "n4"];

#[track_caller]
pub(crate) fn near(found: f64, expected: f64, rule: &str) {
    assert!((found - expected).abs() < 1e-9, "{rule}: {found}, expected {expected}");
}
