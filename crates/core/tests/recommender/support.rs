//! A small cluster: pods and objects as JSON, a clock that is set by hand, a recommender.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::admission::AbsentNamespace;
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::pod::Workload;
use plimsoll_core::recommender::{
    Condition, ConditionType, ContainerStatus, Desired, Key, Options, Parked, PodFacts, Recommender, Sample,
    SetAside, SourceHealth, Stored, read_pod,
};
use plimsoll_core::usage::{DAY, HistogramCheckpoint, SECOND, nanos_of, timestamp_of};
use serde_json::{Value, json};

pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const MI: f64 = 1_048_576.0;

/// A Sunday at midnight.
pub(crate) fn start() -> i64 {
    nanos_of("2026-03-01T00:00:00Z".parse().unwrap())
}

pub(crate) fn text(nanos: i64) -> String {
    timestamp_of(nanos).to_string()
}

pub(crate) fn options() -> Options {
    Options {
        excluded: ["kube-system".to_owned()].into(),
        absent_namespace: AbsentNamespace::Unknown,
        shards: 1,
        shard: 0,
        scan_interval: MINUTE,
        checkpoint_interval: 10 * MINUTE,
    }
}

/// A profile of mode Dynamic for all pods.
pub(crate) fn dynamic(name: &str, dynamic: &Value) -> Value {
    profile(name, &json!({"mode": "Dynamic", "dynamic": dynamic}))
}

pub(crate) fn profile(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile",
        "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A ReplicaSet or Job, and whose it is.
pub(crate) fn owned(kind: &str, name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let references: Vec<_> = owner.into_iter().map(reference).collect();
    json!({"apiVersion": group, "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": references}})
}

pub(crate) fn reference((api_version, kind, name): (&str, &str, &str)) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-of-{kind}-{name}"),
        "controller": true})
}

/// A pod, as the API server has it.
#[derive(Clone, Debug)]
pub(crate) struct Pod(pub(crate) Value);

impl Pod {
    /// A bare pod without containers that runs.
    pub(crate) fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                "creationTimestamp": text(start()), "labels": {}, "annotations": {}},
            "spec": {"containers": []},
            "status": {"phase": "Running", "containerStatuses": []},
        }))
    }

    /// A pod with a container `app` that asks for 1 CPU and 1Gi.
    pub(crate) fn app(name: &str) -> Self {
        Self::new(name).container("app", &json!({"cpu": "1", "memory": "1Gi"}))
    }

    pub(crate) fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    pub(crate) fn owner(self, api_version: &str, kind: &str, name: &str) -> Self {
        self.set("/metadata/ownerReferences", json!([reference((api_version, kind, name))]))
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = value.into();
        self
    }

    pub(crate) fn container(mut self, name: &str, requests: &Value) -> Self {
        let container = json!({"name": name, "image": "i", "resources": {"requests": requests}});
        self.0["spec"]["containers"].as_array_mut().unwrap().push(container);
        self
    }

    pub(crate) fn created(self, nanos: i64) -> Self {
        self.set("/metadata/creationTimestamp", text(nanos).into())
    }

    pub(crate) fn phase(self, phase: &str) -> Self {
        self.set("/status/phase", phase.into())
    }

    /// Its status tells of a kill for memory.
    pub(crate) fn killed(mut self, container: &str, state: &str, nanos: i64) -> Self {
        let terminated = json!({"reason": "OOMKilled", "exitCode": 137, "finishedAt": text(nanos)});
        let status = json!({"name": container, "restartCount": 0, state: {"terminated": terminated}});
        self.0["status"]["containerStatuses"].as_array_mut().unwrap().push(status);
        self
    }

    pub(crate) fn facts(&self) -> PodFacts {
        read_pod(&self.0).expect("a pod")
    }

    pub(crate) fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().unwrap().to_owned()
    }

    fn namespace(&self) -> String {
        self.0["metadata"]["namespace"].as_str().unwrap().to_owned()
    }
}

/// A pod of Deployment `web`; its ReplicaSet is `web-HASH`.
pub(crate) fn web(hash: &str, suffix: &str) -> Pod {
    Pod::app(&format!("web-{hash}-{suffix}"))
        .owner("apps/v1", "ReplicaSet", &format!("web-{hash}"))
        .label("pod-template-hash", hash)
}

/// A pod of StatefulSet `db`.
pub(crate) fn db(ordinal: u32) -> Pod {
    Pod::app(&format!("db-{ordinal}")).owner("apps/v1", "StatefulSet", "db")
}

pub(crate) fn key(group: &str, kind: &str, name: &str) -> Key {
    let workload = Workload { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
    Key { namespace: "shop".to_owned(), workload }
}

pub(crate) fn web_key() -> Key {
    key("apps", "Deployment", "web")
}

pub(crate) fn db_key() -> Key {
    key("apps", "StatefulSet", "db")
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) objects: Objects,
    pub(crate) recommender: Recommender,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) now: i64,
    pub(crate) source: SourceHealth,
}

impl World {
    /// Namespaces `shop`, `other` and `kube-system`, ReplicaSets `web-a`, `web-b`, `web-c` of Deployment `web`, Job
    /// `report-1` and `report-2` of CronJob `report`.
    pub(crate) fn new(manifests: &[Value]) -> Self {
        Self::with(options(), manifests)
    }

    pub(crate) fn with(options: Options, manifests: &[Value]) -> Self {
        let mut objects = Objects::default();
        let web = Some(("apps/v1", "Deployment", "web"));
        let report = Some(("batch/v1", "CronJob", "report"));
        let basic = [
            namespace("shop"),
            namespace("other"),
            namespace("kube-system"),
            owned("ReplicaSet", "web-a", web),
            owned("ReplicaSet", "web-b", web),
            owned("ReplicaSet", "web-c", web),
            owned("Job", "report-1", report),
            owned("Job", "report-2", report),
        ];
        for manifest in basic.iter().chain(manifests) {
            objects.put(fact(manifest));
        }
        Self {
            objects,
            recommender: Recommender::new(options),
            pods: BTreeMap::new(),
            now: start(),
            source: SourceHealth::default(),
        }
    }

    /// The values of the model's vectors, where any history is enough.
    pub(crate) fn simple() -> Self {
        Self::new(&[dynamic("p", &json!({"cpuSampleWeight": "0.1", "minimumHistory": "0s"}))])
    }

    pub(crate) fn object(&mut self, manifest: &Value) {
        self.objects.put(fact(manifest));
    }

    pub(crate) fn put(&mut self, pod: Pod) {
        self.recommender.put_pod(pod.facts());
        self.pods.insert(pod.name(), pod);
    }

    pub(crate) fn put_all(&mut self, pods: impl IntoIterator<Item = Pod>) {
        pods.into_iter().for_each(|pod| self.put(pod));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        self.recommender.remove_pod(&pod.namespace(), name);
    }

    pub(crate) fn assign(&mut self) -> Vec<SetAside> {
        self.recommender.assign(&self.objects)
    }

    pub(crate) fn sample(
        &mut self,
        pod: &str,
        container: &str,
        nanos: i64,
        cpu: Option<f64>,
        memory: Option<f64>,
    ) {
        let sample = Sample { namespace: "shop", pod, container, nanos, cpu, memory };
        self.recommender.observe(&sample, self.now);
    }

    /// One scan, in which container `app` of each of these pods used so much.
    pub(crate) fn scan(&mut self, usage: &[(&str, f64, f64)]) {
        self.assign();
        for (pod, cpu, memory) in usage {
            self.sample(pod, "app", self.now, Some(*cpu), Some(*memory));
        }
        self.recommender.take_kills(self.now);
        self.recommender.end_scan(self.now);
    }

    /// So many scans, a minute apart; the clock stands at the last one afterwards.
    pub(crate) fn scans(&mut self, count: usize, usage: &[(&str, f64, f64)]) {
        for _ in 0..count {
            self.now += MINUTE;
            self.scan(usage);
        }
    }

    pub(crate) fn desired(&self) -> Vec<Desired> {
        let mut all: Vec<_> = self.recommender.desired(&self.objects, self.now, &self.source).collect();
        all.sort_by(|a, b| (&a.key, &a.pod).cmp(&(&b.key, &b.pod)));
        all
    }

    pub(crate) fn desired_of(&self, key: &Key) -> Option<Desired> {
        self.desired().into_iter().find(|desired| *desired.key == *key)
    }

    pub(crate) fn container(&self, key: &Key, name: &str) -> ContainerStatus {
        let found =
            self.desired_of(key).unwrap_or_else(|| panic!("{key:?} is not there: {:?}", self.desired()));
        let names: Vec<_> = found.status.containers.iter().map(|container| &container.name).collect();
        let missing = format!("{name} is not among {names:?}");
        found.status.containers.into_iter().find(|container| container.name == name).expect(&missing)
    }

    pub(crate) fn app(&self, key: &Key) -> ContainerStatus {
        self.container(key, "app")
    }

    pub(crate) fn keys(&self) -> BTreeSet<Arc<Key>> {
        let left = self.recommender.checkpoints_left();
        self.desired().into_iter().map(|desired| desired.key).chain(left).collect()
    }

    /// All checkpoints.
    pub(crate) fn saved(&self) -> Vec<Stored> {
        self.keys().iter().filter_map(|key| self.recommender.checkpoint(key)).collect()
    }

    /// Another process that begins with these checkpoints and sees the same cluster.
    pub(crate) fn successor(&self, options: Options, saved: &[Stored]) -> (Self, Vec<SetAside>) {
        let mut recommender = Recommender::new(options);
        for stored in saved {
            recommender.park((*stored.key).clone(), parked(stored));
        }
        recommender.replace_pods(self.pods.values().map(Pod::facts).collect());
        let mut world = Self {
            objects: self.objects.clone(),
            recommender,
            pods: self.pods.clone(),
            now: self.now,
            source: self.source.clone(),
        };
        let set_aside = world.assign();
        (world, set_aside)
    }

    pub(crate) fn restarted(&self) -> Self {
        let (world, set_aside) = self.successor(options(), &self.saved());
        assert_eq!(set_aside, vec![], "what was saved can be loaded");
        world
    }
}

pub(crate) fn parked(stored: &Stored) -> Parked {
    Parked { containers: stored.containers.clone(), peaks: stored.peaks.clone() }
}

pub(crate) fn fact(manifest: &Value) -> Fact {
    let fact = read_manifest(manifest).unwrap().expect("a kind that decisions read");
    assert!(!matches!(fact, Fact::BrokenProfile { .. }), "{fact:?}");
    fact
}

/// The sum of a container's weights in a checkpoint as it is at a time: CPU and memory.
pub(crate) fn totals(stored: &Stored, container: &str, at: i64) -> (f64, f64) {
    let found = stored.containers.iter().find(|found| found.container == container).unwrap();
    let total = |histogram: &Option<HistogramCheckpoint>| {
        histogram.as_ref().map_or(0.0, |histogram| {
            let reference = nanos_of(histogram.reference.parse().unwrap());
            let half_lives = (reference - at) as f64 / (histogram.half_life_seconds * SECOND) as f64;
            histogram.total_weight.parse::<f64>().unwrap() * half_lives.exp2()
        })
    };
    (total(&found.checkpoint.cpu), total(&found.checkpoint.memory))
}

pub(crate) fn total_of(world: &World, key: &Key, container: &str) -> (f64, f64) {
    totals(&world.recommender.checkpoint(key).expect("a checkpoint"), container, world.now)
}

pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

pub(crate) fn condition(desired: &Desired, kind: ConditionType) -> &Condition {
    desired.status.conditions.iter().find(|condition| condition.kind == kind).expect("each type once")
}

/// A kill leaves at least this many days' scans of weight.
pub(crate) const KILL: f64 = (DAY / MINUTE) as f64;
