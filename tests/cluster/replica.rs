//! The watches of one replica, and objects for them.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::cluster::{self, ClusterOptions, Snapshots};
use plimsoll::metrics::Metrics;
use plimsoll::server::{Readiness, Shutdown};
use plimsoll_core::objects::Objects;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fake::{FakeApi, eventually};

/// The watches of one replica.
pub(crate) struct Replica {
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

/// A pace for tests.
pub(crate) fn options() -> ClusterOptions {
    ClusterOptions {
        quota: true,
        hpa: true,
        placement: false,
        page_size: 2,
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        status_jitter: Duration::ZERO,
        status_repeat: Duration::from_secs(600),
    }
}

impl Replica {
    pub(crate) fn start(fake: &FakeApi) -> Self {
        Self::start_with(fake, options())
    }

    pub(crate) fn start_with(fake: &FakeApi, options: ClusterOptions) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let snapshots = Arc::new(Snapshots::new(Arc::clone(&metrics)));
        let readiness = Readiness::new(Shutdown::new());
        let cancel = CancellationToken::new();
        let run = cluster::run(
            fake.client(),
            Arc::clone(&snapshots),
            Arc::clone(&metrics),
            readiness.condition("snapshots"),
            options,
            cancel.clone(),
        );
        Self { snapshots, metrics, readiness, cancel, task: tokio::spawn(run) }
    }

    pub(crate) async fn start_ready(fake: &FakeApi) -> Self {
        let replica = Self::start(fake);
        eventually("ready", || replica.readiness.is_ready()).await;
        replica
    }

    pub(crate) fn objects(&self) -> Arc<Objects> {
        self.snapshots.current().load_full()
    }

    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

pub(crate) fn profile(name: &str, generation: i64, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "generation": generation}, "spec": spec})
}

pub(crate) fn half() -> Value {
    json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}})
}

pub(crate) fn limit_range(name: &str, min: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": min}}]},
    })
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": name, "labels": {"plimsoll.dev/pool": "shared"}, "annotations": {"a": "b"},
            "managedFields": [{"manager": "somebody"}],
        },
    })
}

pub(crate) fn owned(name: &str, owner_kind: &str, owner: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "controller": true},
    ]}})
}

pub(crate) fn recommendation(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "profile": "shared"},
        "status": {"containers": [{"name": "app", "cpu": {"target": "800m"}}]},
    })
}

pub(crate) fn limit_range_names(objects: &Objects) -> Vec<String> {
    objects.limit_ranges("shop").map(|range| range.name.clone()).collect()
}
