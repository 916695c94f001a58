//! Recommendations in the snapshot itself, where there is no cluster. Nothing outlives the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::objects::{Fact, FactKey, FactKind, read_manifest};
use plimsoll_core::recommender::{Desired, Key, Stored};
use serde_json::{Value, json};

use super::cluster_store::recommendation_spec;
use super::object_name;
use super::store::{CheckpointVersion, Store, StoreError, StoredCheckpoint, StoredRecommendation};
use crate::cluster::Snapshots;

/// The snapshot's.
pub(super) struct MemoryStore {
    snapshots: Arc<Snapshots>,
    ours: Mutex<BTreeMap<(String, String), StoredRecommendation>>,
}

impl MemoryStore {
    pub(super) fn new(snapshots: Arc<Snapshots>) -> Self {
        Self { snapshots, ours: Mutex::default() }
    }
}

impl Store for MemoryStore {
    /// Those that stand in manifests are by hand.
    async fn recommendations(&self) -> Result<Vec<StoredRecommendation>, StoreError> {
        let ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = self.snapshots.current().load_full();
        let by_hand = objects
            .all_recommendations()
            .filter(|found| !ours.contains_key(&(found.namespace.clone(), found.name.clone())));
        let by_hand = by_hand.map(|found| StoredRecommendation {
            key: Key { namespace: found.namespace.clone(), workload: found.target.clone() },
            pod: found.pod_name.clone(),
            name: found.name.clone(),
            uid: String::new(),
            managed: false,
            profile: found.profile.clone(),
            owner_uid: None,
            created: 0,
            status: Value::Null,
        });
        Ok(by_hand.chain(ours.values().cloned()).collect())
    }

    async fn checkpoints(&self) -> Result<Vec<StoredCheckpoint>, StoreError> {
        Ok(Vec::new())
    }

    async fn put_recommendation(
        &self,
        desired: &Desired,
        _: Option<&StoredRecommendation>,
        status: Value,
    ) -> Result<StoredRecommendation, StoreError> {
        let name = object_name(&desired.key.workload, desired.pod.as_deref());
        let manifest = json!({
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "Recommendation",
            "metadata": { "namespace": desired.key.namespace, "name": name },
            "spec": recommendation_spec(desired),
            "status": status,
        });
        let fact = read_manifest(&manifest).map_err(|error| StoreError::Refused(error.to_string()))?;
        self.snapshots.update(|objects| fact.into_iter().for_each(|fact: Fact| objects.put(fact)));
        let stored = StoredRecommendation {
            key: Key::clone(&desired.key),
            pod: desired.pod.clone(),
            name: name.clone(),
            uid: name.clone(),
            managed: true,
            profile: desired.profile.name.clone(),
            owner_uid: desired.owner.as_ref().map(|owner| owner.uid.clone()),
            created: 0,
            status,
        };
        let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        ours.insert((stored.key.namespace.clone(), name), stored.clone());
        Ok(stored)
    }

    async fn delete_recommendation(&self, stored: &StoredRecommendation) -> Result<(), StoreError> {
        let (namespace, name) = (stored.key.namespace.clone(), stored.name.clone());
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).remove(&(namespace.clone(), name.clone()));
        let key = FactKey { kind: FactKind::Recommendation, namespace, name };
        self.snapshots.update(|objects| objects.remove(&key));
        Ok(())
    }

    async fn put_checkpoint(
        &self,
        _: &Stored,
        _: Option<&CheckpointVersion>,
    ) -> Result<CheckpointVersion, StoreError> {
        Ok(CheckpointVersion { name: String::new(), uid: String::new(), resource_version: String::new() })
    }

    async fn delete_checkpoint(&self, _: &str, _: &CheckpointVersion) -> Result<(), StoreError> {
        Ok(())
    }

    async fn set_aside(&self, _: &Key, _: &CheckpointVersion, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn tell(&self, stored: &StoredRecommendation, ready: bool, message: &str) {
        tracing::info!(
            namespace = stored.key.namespace,
            recommendation = stored.name,
            ready,
            message,
            "a recommendation turned"
        );
    }
}
