//! The pods of the cluster, for whoever needs to know them all: the recommender's leader.
//!
//! Not for admission, which sees a pod only once. Of each pod only what the caller's closure makes of it is kept;
//! there may be a hundred thousand of them.

use std::sync::Arc;

use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::watch::{Collection, Reader, Watch};
use super::{ClusterOptions, QUEUE};
use crate::metrics::Metrics;

const KIND: &str = "Pod";

/// What happened to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChange<T> {
    /// These are all of them, at this version if it is known; what was known before is out of date.
    Listed(Vec<T>, Option<u64>),
    /// One was added or changed.
    Put(T),
    /// One is gone, or is no longer of interest. Its last state was given before by [`PodChange::Put`].
    Gone {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which of all pods of that name, over time.
        uid: String,
    },
}

struct PodReader<F> {
    read: F,
    metrics: Arc<Metrics>,
}

impl<T, F> Reader for PodReader<F>
where
    T: Send,
    F: Fn(&Value) -> Option<T> + Send + Sync,
{
    type Item = T;
    type Change = PodChange<T>;

    fn item(&self, object: &Value) -> Result<Option<T>, String> {
        Ok((self.read)(object))
    }

    fn listed(&self, items: Vec<T>, version: &str) -> PodChange<T> {
        self.metrics.snapshot_synced(KIND, true);
        PodChange::Listed(items, version.parse().ok())
    }

    fn absent(&self) -> PodChange<T> {
        PodChange::Listed(Vec::new(), None)
    }

    fn put(&self, object: &Value) -> Result<Option<PodChange<T>>, String> {
        match (self.read)(object) {
            Some(pod) => Ok(Some(PodChange::Put(pod))),
            None => gone(object).map(Some).ok_or_else(|| {
                "a Pod without metadata.namespace and metadata.name was sent; it is passed over".to_owned()
            }),
        }
    }

    fn gone(&self, object: &Value) -> Vec<PodChange<T>> {
        // The last state may be the only one in which a kill is seen.
        (self.read)(object).map(PodChange::Put).into_iter().chain(gone(object)).collect()
    }
}

fn gone<T>(object: &Value) -> Option<PodChange<T>> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some(PodChange::Gone {
        namespace: text("/metadata/namespace")?,
        name: text("/metadata/name")?,
        uid: text("/metadata/uid").unwrap_or_default(),
    })
}

/// Watches the pods of all namespaces until `cancelled`, or until the receiver is dropped.
///
/// `read` is called with each pod as the API server has it; `None` says that it is of no interest. A list, and a new
/// one after the watch was broken for too long, comes as one [`PodChange::Listed`].
pub fn watch_pods<T, F>(
    client: Client,
    options: ClusterOptions,
    metrics: Arc<Metrics>,
    cancelled: CancellationToken,
    read: F,
) -> mpsc::Receiver<PodChange<T>>
where
    T: Send + 'static,
    F: Fn(&Value) -> Option<T> + Send + Sync + 'static,
{
    let (changes, received) = mpsc::channel(QUEUE);
    let collection = Collection {
        path: "/api/v1/pods".to_owned(),
        older_paths: Vec::new(),
        kind: KIND,
        metadata_only: false,
        may_be_absent: false,
    };
    metrics.snapshot_synced(KIND, false);
    let reader = PodReader { read, metrics: Arc::clone(&metrics) };
    let watch = Watch::new(client, collection, reader, changes, Arc::clone(&metrics), options);
    tokio::spawn(async move {
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = watch.run() => {}
        }
        metrics.snapshot_given_up(KIND);
    });
    received
}
