//! A cluster with one node that is too busy, and a controller for it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use plimsoll::balance::{Parts, Rounds, balance};
use plimsoll::config::Balance;
use plimsoll::metrics::Metrics;
use plimsoll::placement::{PlacedPods, PlacementState, now};
use plimsoll::quota::content::Latest;
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{
    ByMetric, ByResource, ContainerUse, ContainerUses, LoadSnapshot, Metric, NodeLoad, NodeResource, Placed,
    PlacedPod, Settings, Window,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeApi, Seen};

pub(crate) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases/plimsoll-balance";
pub(crate) const MEMO: &str = "plimsoll.dev/balance-evictions";

pub(crate) fn config() -> Balance {
    Balance {
        enabled: true,
        dry_run: false,
        threshold: 0.10,
        rounds: 3,
        interval: Duration::from_millis(10),
        min_replicas: 1,
        minimum_age: Duration::from_secs(300),
        cooldown: Duration::from_secs(600),
        evictions_per_hour: 60,
        excluded_namespaces: vec!["kube-system".to_owned()],
        evict_local_storage: false,
    }
}

/// Four nodes, n1 to n4, of which the first is too busy and the last has room; and these pods, with the cores that each
/// uses, of which each has a twin elsewhere.
pub(crate) fn known(pods: &[(Value, f64)]) -> PlacementState {
    let mut objects = Objects::default();
    let mut load = LoadSnapshot { taken: now(), ..LoadSnapshot::default() };
    for (name, busy) in [("n1", 0.80), ("n2", 0.50), ("n3", 0.50), ("n4", 0.20)] {
        let amounts = json!({"cpu": "10", "memory": "100Gi", "pods": "110"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        objects.put(read_manifest(&node).unwrap().unwrap());
        let mut means = ByMetric::default();
        means.set(Metric::Cpu, Some(busy));
        let measured = NodeLoad { means: vec![means], sampled: now(), ..NodeLoad::default() };
        load.nodes.insert(name.into(), measured);
    }
    let mut settings = Settings::default();
    settings.load.metrics = vec![(Metric::Cpu, 1.0)];
    settings.load.windows = vec![Window { name: "15m".into(), seconds: 900, weight: 1.0 }];
    let mut placed = Vec::new();
    let mut containers = Vec::new();
    for (pod, cores) in pods {
        let read = PlacedPod::read(pod, &objects).unwrap();
        let mut local = ByResource::default();
        local.set(NodeResource::Cpu, Some(cores / 10.0));
        local.set(NodeResource::Memory, Some(0.0));
        containers.push(ContainerUse {
            workload: read.shape.workload.clone(),
            pod: format!("{}/{}", read.namespace(), read.name).into(),
            container: "app".into(),
            image: "".into(),
            node: read.node.clone().unwrap(),
            local,
        });
        placed.push(read);
        let mut twin = pod.clone();
        twin["metadata"]["name"] = json!(format!("{}-twin", pod["metadata"]["name"].as_str().unwrap()));
        twin["spec"]["nodeName"] = json!("n2");
        placed.push(PlacedPod::read(&twin, &objects).unwrap());
    }
    let mut state = PlacementState::new(settings, Arc::new(ArcSwap::from_pointee(objects)));
    state.load.store(Arc::new(load));
    state.uses.store(Arc::new(ContainerUses { containers, taken: now() }));
    state.pods = PlacedPods::of(Placed::listed(placed));
    state
}

/// The same; the load is measured again and again, and found to be as it was.
pub(crate) fn state(pods: &[(Value, f64)]) -> PlacementState {
    let state = known(pods);
    keep_measuring(Arc::clone(&state.load));
    state
}

/// Gives all nodes newer samples again and again.
pub(crate) fn keep_measuring(load: Arc<ArcSwap<LoadSnapshot>>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut newer = LoadSnapshot::clone(&load.load());
            for node in newer.nodes.values_mut() {
                node.sampled += 1;
            }
            load.store(Arc::new(newer));
        }
    });
}

/// A pod on n1 that has been there for an hour.
pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    let time = (Timestamp::now() - jiff::SignedDuration::from_hours(1)).to_string();
    let mut spec = spec.clone();
    spec["nodeName"] = json!("n1");
    spec["containers"] = json!([{"name": "app"}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": time,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub(crate) struct Running {
    pub(crate) fake: FakeApi,
    pub(crate) rounds: Rounds,
    pub(crate) config: Arc<ArcSwap<Balance>>,
    pub(crate) metrics: Arc<Metrics>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Balances as `a`.
    pub(crate) fn start(fake: &FakeApi, state: PlacementState, config: Balance) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let holder = Arc::new(ArcSwap::from_pointee("a".to_owned()));
        let config = Arc::new(ArcSwap::from_pointee(config));
        let rounds = Rounds::new(holder, "a", Arc::clone(&config));
        let parts = Parts {
            config: Arc::clone(&config),
            own_namespace: "plimsoll-system".to_owned(),
            identity: "a".to_owned(),
            placement: state,
            quota: Latest::default(),
            rounds: rounds.clone(),
            metrics: Arc::clone(&metrics),
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(balance(fake.client(), parts, cancel.clone()));
        Self { fake: fake.clone(), rounds, config, metrics, cancel, task }
    }

    /// The newest round with this verdict, as the API tells it, as soon as there is one.
    pub(crate) async fn told(&self, verdict: &str) -> Value {
        let find = || {
            let told = self.rounds.json();
            let rounds = told["rounds"].as_array().unwrap().clone();
            rounds.into_iter().find(|round| round["verdict"] == verdict)
        };
        eventually(verdict, || find().is_some()).await;
        find().unwrap()
    }

    pub(crate) async fn end(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
        assert!(self.rounds.all().is_empty(), "another replica tells of them from now on");
    }
}

/// A lease that `holder` has; with what the leader before has left.
pub(crate) fn lease(holder: &str, memo: Option<&str>) -> Value {
    let mut metadata =
        json!({"name": "plimsoll-balance", "namespace": "plimsoll-system", "labels": {"of": "others"}});
    if let Some(memo) = memo {
        metadata["annotations"] = json!({ MEMO: memo });
    }
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3}})
}

/// The pods that somebody tried to evict, in their order.
pub(crate) fn evictions(fake: &FakeApi) -> Vec<Seen> {
    fake.seen().into_iter().filter(|seen| seen.path.ends_with("/eviction")).collect()
}

pub(crate) fn evicted(fake: &FakeApi) -> Vec<String> {
    evictions(fake).iter().map(|seen| seen.body["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Reasons of events about a kind.
pub(crate) fn events(fake: &FakeApi, kind: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = fake.seen().into_iter().filter(|seen| seen.path.ends_with("/events"));
    seen.filter(|seen| seen.body["regarding"]["kind"] == kind)
        .map(|seen| (text(&seen.body["reason"]), text(&seen.body["note"])))
        .collect()
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "never came true: {what}");
}
