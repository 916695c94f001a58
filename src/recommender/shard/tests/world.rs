//! A store in memory and a cluster, for the loop.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll_core::admission::AbsentNamespace;
use plimsoll_core::objects::{FactKind, Objects, read_manifest};
use plimsoll_core::recommender::{self, Desired, Key, Parked, PodFacts, Stored, read_pod};
use plimsoll_core::usage::{SECOND, nanos_of, timestamp_of};
use serde_json::{Value, json};

use crate::cluster::PodChange;
use crate::metrics::Metrics;
use crate::recommender::shard::{Shard, ShardOptions};
use crate::recommender::sources::{File, FileOptions, Source};
use crate::recommender::store::{
    CheckpointVersion, Store, StoreError, StoredCheckpoint, StoredRecommendation,
};

thread_local! {
    /// The clock of the test; each test has a thread of its own.
    pub(super) static NOW: Cell<i64> = const { Cell::new(0) };
}

pub(super) fn start() -> i64 {
    nanos_of("2026-03-01T00:00:00Z".parse().unwrap())
}

pub(super) fn set_minute(minute: i64) {
    NOW.set(start() + minute * 60 * SECOND);
}

/// Objects in memory, with the rules of the API server that the loop depends on.
#[derive(Default)]
pub(super) struct World {
    pub(super) recommendations: BTreeMap<(String, String), StoredRecommendation>,
    pub(super) checkpoints: BTreeMap<String, (CheckpointVersion, Stored)>,
    pub(super) broken: BTreeMap<String, (CheckpointVersion, Key)>,
    pub(super) set_aside: Vec<String>,
    pub(super) events: Vec<(String, bool)>,
    pub(super) counter: u64,
    pub(super) writes: BTreeMap<&'static str, usize>,
    /// Every call fails while this is set.
    pub(super) down: bool,
}

pub(super) struct FakeStore {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) objects: Arc<ArcSwap<Objects>>,
}

pub(super) fn id(key: &Key) -> String {
    format!("{}/{}/{}", key.namespace, key.workload.kind, key.workload.name)
}

impl World {
    pub(super) fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    pub(super) fn count(&mut self, what: &'static str) -> Result<(), StoreError> {
        if self.down {
            return Err(StoreError::Unavailable("the API server is away".to_owned()));
        }
        *self.writes.entry(what).or_default() += 1;
        Ok(())
    }

    pub(super) fn total(&self) -> usize {
        self.writes.values().sum()
    }
}

impl FakeStore {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// What the watch would bring.
    pub(super) fn show(&self, world: &World) {
        let mut objects = Objects::clone(&self.objects.load());
        let facts = world.recommendations.values().map(|stored| {
            let manifest = json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
                "metadata": {"name": stored.name, "namespace": stored.key.namespace},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": stored.key.workload.kind, "name": stored.key.workload.name},
                    "profile": stored.profile,
                },
                "status": stored.status,
            });
            read_manifest(&manifest).unwrap().unwrap()
        });
        objects.replace(FactKind::Recommendation, facts.collect::<Vec<_>>());
        self.objects.store(Arc::new(objects));
    }
}

impl Store for FakeStore {
    async fn recommendations(&self) -> Result<Vec<StoredRecommendation>, StoreError> {
        let world = self.lock();
        if world.down {
            return Err(StoreError::Unavailable("the API server is away".to_owned()));
        }
        Ok(world.recommendations.values().cloned().collect())
    }

    async fn checkpoints(&self) -> Result<Vec<StoredCheckpoint>, StoreError> {
        let world = self.lock();
        if world.down {
            return Err(StoreError::Unavailable("the API server is away".to_owned()));
        }
        let good = world.checkpoints.values().map(|(version, stored)| StoredCheckpoint {
            key: Key::clone(&stored.key),
            version: version.clone(),
            content: Ok(Parked { containers: stored.containers.clone(), peaks: stored.peaks.clone() }),
            last: NOW.get(),
        });
        let broken = world.broken.values().map(|(version, key)| StoredCheckpoint {
            key: key.clone(),
            version: version.clone(),
            content: Err("spec.version: 9 is not known".to_owned()),
            last: NOW.get(),
        });
        Ok(good.chain(broken).collect())
    }

    async fn put_recommendation(
        &self,
        desired: &Desired,
        stored: Option<&StoredRecommendation>,
        status: Value,
    ) -> Result<StoredRecommendation, StoreError> {
        let mut world = self.lock();
        world.count("recommendation")?;
        let name = format!("{}-{}", desired.key.workload.kind.to_lowercase(), desired.key.workload.name);
        let uid = stored.map_or_else(|| world.next(), |stored| stored.uid.clone());
        let written = StoredRecommendation {
            key: Key::clone(&desired.key),
            pod: desired.pod.clone(),
            name: name.clone(),
            uid,
            managed: true,
            profile: desired.profile.name.clone(),
            owner_uid: desired.owner.as_ref().map(|owner| owner.uid.clone()),
            created: NOW.get(),
            status,
        };
        world.recommendations.insert((desired.key.namespace.clone(), name), written.clone());
        self.show(&world);
        Ok(written)
    }

    async fn delete_recommendation(&self, stored: &StoredRecommendation) -> Result<(), StoreError> {
        let mut world = self.lock();
        world.count("delete")?;
        world.recommendations.remove(&(stored.key.namespace.clone(), stored.name.clone()));
        self.show(&world);
        Ok(())
    }

    async fn put_checkpoint(
        &self,
        content: &Stored,
        version: Option<&CheckpointVersion>,
    ) -> Result<CheckpointVersion, StoreError> {
        let mut world = self.lock();
        world.count("checkpoint")?;
        let id = id(&content.key);
        let standing = world.checkpoints.get(&id).map(|(version, _)| version.clone());
        let standing = standing.or_else(|| world.broken.get(&id).map(|(version, _)| version.clone()));
        if standing.as_ref() != version {
            return Err(StoreError::Conflict(id));
        }
        let uid = standing.map_or_else(|| world.next(), |standing| standing.uid);
        let version = CheckpointVersion { name: id.clone(), uid, resource_version: world.next() };
        world.broken.remove(&id);
        world.checkpoints.insert(id, (version.clone(), content.clone()));
        Ok(version)
    }

    async fn delete_checkpoint(&self, _: &str, version: &CheckpointVersion) -> Result<(), StoreError> {
        let mut world = self.lock();
        world.count("delete checkpoint")?;
        world.checkpoints.remove(&version.name);
        Ok(())
    }

    async fn set_aside(&self, key: &Key, _: &CheckpointVersion, why: &str) -> Result<(), StoreError> {
        self.lock().set_aside.push(format!("{}: {why}", id(key)));
        Ok(())
    }

    async fn tell(&self, stored: &StoredRecommendation, ready: bool, _: &str) {
        self.lock().events.push((stored.name.clone(), ready));
    }
}

/// A cluster with one or more Deployments of two pods each, and a table of their usage.
pub(super) struct Cluster {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) objects: Arc<ArcSwap<Objects>>,
    pub(super) folder: tempfile::TempDir,
    pub(super) deployments: usize,
}

impl Cluster {
    pub(super) fn new(deployments: usize, minutes: i64) -> Self {
        let mut objects = Objects::default();
        for manifest in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "p"},
                "spec": {"mode": "StaticThenDynamic", "dynamic": {"minimumHistory": "1h"}},
            }),
        ] {
            objects.put(read_manifest(&manifest).unwrap().unwrap());
        }
        let cluster = Self {
            world: Arc::default(),
            objects: Arc::new(ArcSwap::from_pointee(objects)),
            folder: tempfile::tempdir().unwrap(),
            deployments,
        };
        let mut csv = String::from("series,timestamp,cpu_cores,memory_bytes\n");
        for minute in 0..minutes {
            for (deployment, pod) in cluster.pods() {
                // Both pods in their own second; a day's rise and fall.
                let nanos = start() + (minute * 60 - 30 + i64::from(pod)) * SECOND;
                let cpu =
                    0.1 + f64::from(u32::try_from((minute * 7 + i64::from(pod) * 13) % 60).unwrap()) / 100.0;
                let time = timestamp_of(nanos);
                writeln!(
                    csv,
                    "shop/d{deployment}-{pod}/app,{time},{cpu},{}",
                    100_000_000 + minute * 1_000_000
                )
                .unwrap();
            }
        }
        std::fs::write(cluster.usage(), csv).unwrap();
        cluster
    }

    pub(super) fn usage(&self) -> PathBuf {
        self.folder.path().join("usage.csv")
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = (usize, u8)> {
        (0..self.deployments).flat_map(|deployment| [0, 1].map(|pod| (deployment, pod)))
    }

    pub(super) fn pod(deployment: usize, pod: u8) -> PodFacts {
        read_pod(&json!({
            "metadata": {
                "namespace": "shop", "name": format!("d{deployment}-{pod}"), "uid": format!("{deployment}-{pod}"),
                "creationTimestamp": "2026-02-28T00:00:00Z",
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": format!("d{deployment}"),
                    "uid": format!("uid-{deployment}"), "controller": true,
                }],
            },
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    /// A leader that has loaded what stands there and has seen the pods.
    pub(super) async fn leader(&self) -> Shard<FakeStore> {
        let options = ShardOptions {
            state: recommender::Options {
                excluded: BTreeSet::new(),
                absent_namespace: AbsentNamespace::Unknown,
                shards: 1,
                shard: 0,
                scan_interval: 60 * SECOND,
                checkpoint_interval: 600 * SECOND,
            },
            scan_interval: Duration::from_secs(60),
            writes_per_second: 1,
            history: Duration::ZERO,
            without_pods: false,
            clock: || NOW.get(),
        };
        let store = FakeStore { world: Arc::clone(&self.world), objects: Arc::clone(&self.objects) };
        let source = Source::File(File::new(FileOptions { path: self.usage() }));
        let metrics = Arc::new(Metrics::new("test"));
        let mut shard = Shard::new(options, Arc::clone(&self.objects), metrics, store, source);
        let pods = self.pods().map(|(deployment, pod)| Self::pod(deployment, pod)).collect();
        shard.take_pod(PodChange::Listed(pods, None));
        shard.timed_load().await;
        shard
    }

    pub(super) fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(super) fn target(&self, name: &str) -> Option<String> {
        let world = self.world();
        let stored = world.recommendations.get(&("shop".to_owned(), name.to_owned()))?;
        stored.status.pointer("/containers/0/cpu/target").and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn condition(&self, kind: &str) -> Option<String> {
        let world = self.world();
        let stored = world.recommendations.values().next()?;
        let conditions = stored.status.get("conditions")?.as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == kind)?;
        Some(format!("{} {}", found["status"].as_str()?, found["reason"].as_str()?))
    }
}
