//! Recommendations and checkpoints as objects of the API server.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use plimsoll_core::placement::{LearntWeights, WorkloadKey};
use plimsoll_core::pod::Workload;
use plimsoll_core::recommender::{Desired, Key, Parked, ParkedContainer, Stored};
use plimsoll_core::usage::{Checkpoint, VERSION, nanos_of};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::store::{CheckpointVersion, Store, StoreError, StoredCheckpoint, StoredRecommendation};
use super::{Checkpoints, MANAGER, Owner, Recommendations, Version, WriteError, object_name};
use crate::cluster::Limiter;
use crate::metrics::Metrics;
use crate::placement::load::stored;

/// The label by which our objects are told from those that somebody wrote by hand.
const MANAGED_BY: &str = "/metadata/labels/app.kubernetes.io~1managed-by";
/// What the name of a copy of a checkpoint ends with that could not be used.
const SET_ASIDE: &str = ".set-aside";
/// The longest name that an object may have.
const LONGEST_NAME: usize = 253;
/// How long an event may take to be published; it is not worth waiting for.
const EVENT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// The longest note that the API server takes in an event is 1 KiB.
const NOTE_BYTES: usize = 1_000;

/// The API server's.
pub(super) struct ClusterStore {
    recommendations: Recommendations,
    checkpoints: Checkpoints,
    recorder: Recorder,
    health: crate::status::Health,
    /// What placement learnt of workloads.
    weights: Option<Arc<ArcSwap<LearntWeights>>>,
}

impl ClusterStore {
    pub(super) fn new(client: Client, writes_per_second: u32, metrics: Arc<Metrics>) -> Self {
        let limiter = Arc::new(Limiter::new(writes_per_second));
        let reporter = Reporter { controller: MANAGER.to_owned(), ..Reporter::from(MANAGER) };
        Self {
            health: metrics.health().clone(),
            recommendations: Recommendations::new(client.clone(), Arc::clone(&limiter), Arc::clone(&metrics)),
            checkpoints: Checkpoints::new(client.clone(), limiter, metrics),
            recorder: Recorder::new(client, reporter),
            weights: None,
        }
    }

    /// Keeps these weights with the checkpoints of the workloads that they are of.
    pub(super) fn with_weights(self, weights: Option<Arc<ArcSwap<LearntWeights>>>) -> Self {
        Self { weights, ..self }
    }

    fn weights_of(&self, key: &Key) -> Option<Value> {
        let workload = WorkloadKey {
            namespace: key.namespace.as_str().into(),
            workload: Arc::new(key.workload.clone()),
        };
        self.weights.as_ref()?.load().workloads.get(&workload).map(stored::written)
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        let text = error.to_string();
        match error {
            WriteError::Conflict { .. } | WriteError::AlreadyExists { .. } => Self::Conflict(text),
            WriteError::NotFound { .. } | WriteError::NamespaceEnds { .. } => Self::NotFound(text),
            WriteError::TooLarge { .. } | WriteError::Refused { .. } => Self::Refused(text),
            WriteError::Forbidden { .. } => Self::Forbidden(text),
            WriteError::NotInstalled { .. }
            | WriteError::Unauthorized { .. }
            | WriteError::Unavailable { .. } => Self::Unavailable(text),
        }
    }
}

impl Store for ClusterStore {
    async fn recommendations(&self) -> Result<Vec<StoredRecommendation>, StoreError> {
        let mut all = Vec::new();
        self.recommendations.list(&mut |object| all.extend(read_recommendation(&object))).await?;
        Ok(all)
    }

    async fn checkpoints(&self) -> Result<Vec<StoredCheckpoint>, StoreError> {
        let mut all = Vec::new();
        self.checkpoints.list(&mut |object| all.extend(read_checkpoint(&object))).await?;
        Ok(all)
    }

    async fn put_recommendation(
        &self,
        desired: &Desired,
        stored: Option<&StoredRecommendation>,
        status: Value,
    ) -> Result<StoredRecommendation, StoreError> {
        let namespace = &desired.key.namespace;
        let owner = owner(desired.owner.as_ref());
        let spec = recommendation_spec(desired);
        let owner_uid = owner.as_ref().map(|owner| owner.uid.clone());
        let (name, uid, created) = match stored {
            None => {
                let name = object_name(&desired.key.workload, desired.pod.as_deref());
                let version = self.recommendations.create(namespace, &name, owner.as_ref(), &spec).await?;
                (name, version.uid, nanos_of(Timestamp::now()))
            }
            Some(stored) => {
                if stored.profile != desired.profile.name || stored.owner_uid != owner_uid {
                    self.recommendations.update(namespace, &stored.name, owner.as_ref(), &spec).await?;
                }
                (stored.name.clone(), stored.uid.clone(), stored.created)
            }
        };
        let written = StoredRecommendation {
            key: Key::clone(&desired.key),
            pod: desired.pod.clone(),
            name,
            uid,
            managed: true,
            profile: desired.profile.name.clone(),
            owner_uid,
            created,
            status,
        };
        self.recommendations.put_status(namespace, &written.name, &written.status).await?;
        Ok(written)
    }

    async fn delete_recommendation(&self, stored: &StoredRecommendation) -> Result<(), StoreError> {
        Ok(self.recommendations.delete(&stored.key.namespace, &stored.name, &stored.uid).await?)
    }

    async fn put_checkpoint(
        &self,
        content: &Stored,
        version: Option<&CheckpointVersion>,
    ) -> Result<CheckpointVersion, StoreError> {
        let namespace = &content.key.namespace;
        let owner = owner(content.owner.as_ref());
        let mut spec = checkpoint_spec(content)?;
        if let (Some(weights), Some(fields)) = (self.weights_of(&content.key), spec.as_object_mut()) {
            fields.insert(stored::FIELD.to_owned(), weights);
        }
        let (name, written) = match version {
            None => {
                let name = object_name(&content.key.workload, None);
                let written = self.checkpoints.create(namespace, &name, owner.as_ref(), spec).await?;
                (name, written)
            }
            Some(version) => {
                let before =
                    Version { uid: version.uid.clone(), resource_version: version.resource_version.clone() };
                let written =
                    self.checkpoints.replace(namespace, &version.name, &before, owner.as_ref(), spec).await?;
                (version.name.clone(), written)
            }
        };
        Ok(CheckpointVersion { name, uid: written.uid, resource_version: written.resource_version })
    }

    async fn delete_checkpoint(
        &self,
        namespace: &str,
        version: &CheckpointVersion,
    ) -> Result<(), StoreError> {
        Ok(self.checkpoints.delete(namespace, &version.name, &version.uid).await?)
    }

    async fn set_aside(&self, key: &Key, version: &CheckpointVersion, why: &str) -> Result<(), StoreError> {
        let namespace = &key.namespace;
        let Some(object) = self.checkpoints.get(namespace, &version.name).await? else { return Ok(()) };
        let stem: String = version.name.chars().take(LONGEST_NAME - SET_ASIDE.len()).collect();
        let name = format!("{}{SET_ASIDE}", stem.trim_end_matches(['-', '.']));
        let spec = object.get("spec").cloned().unwrap_or_default();
        let regarding = reference("UsageCheckpoint", namespace, &version.name, &version.uid);
        self.publish(
            &regarding,
            false,
            "CheckpointSetAside",
            &format!("it cannot be used: {why}; see {name}"),
        )
        .await;
        let owner = object.pointer("/metadata/ownerReferences/0").and_then(read_owner);
        match self.checkpoints.create(namespace, &name, owner.as_ref(), spec).await {
            // The first one is kept.
            Ok(_) | Err(WriteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn tell(&self, stored: &StoredRecommendation, ready: bool, message: &str) {
        let regarding = reference("Recommendation", &stored.key.namespace, &stored.name, &stored.uid);
        let reason = if ready { "RecommendationReady" } else { "RecommendationNotReady" };
        self.publish(&regarding, ready, reason, message).await;
    }
}

impl ClusterStore {
    async fn publish(&self, regarding: &ObjectReference, good: bool, reason: &str, message: &str) {
        let event = Event {
            type_: if good { EventType::Normal } else { EventType::Warning },
            reason: reason.to_owned(),
            note: Some(crate::cluster::cut(message, NOTE_BYTES)),
            action: "Recommend".to_owned(),
            secondary: None,
        };
        if let Ok(published) = timeout(EVENT_TIMEOUT, self.recorder.publish(&event, regarding)).await {
            crate::cluster::note_event(&self.health, &published);
        } else {
            tracing::debug!("an event could not be published: no answer");
        }
    }
}

fn reference(kind: &str, namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("plimsoll.dev/v1alpha1".to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

fn owner(owner: Option<&plimsoll_core::pod::Owner>) -> Option<Owner> {
    owner.map(|owner| Owner {
        api_version: owner.api_version.clone(),
        kind: owner.workload.kind.clone(),
        name: owner.workload.name.clone(),
        uid: owner.uid.clone(),
    })
}

fn read_owner(reference: &Value) -> Option<Owner> {
    let text = |key: &str| Some(reference.get(key)?.as_str()?.to_owned());
    Some(Owner {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
        name: text("name")?,
        uid: text("uid")?,
    })
}

/// `targetRef` of a target.
fn target(key: &Key, owner: Option<&plimsoll_core::pod::Owner>) -> Value {
    let api_version = owner.map_or("v1", |owner| &owner.api_version);
    json!({ "apiVersion": api_version, "kind": key.workload.kind, "name": key.workload.name })
}

/// `spec` of a `Recommendation`.
pub(super) fn recommendation_spec(desired: &Desired) -> Value {
    let mut spec = Map::new();
    spec.insert("targetRef".to_owned(), target(&desired.key, desired.owner.as_ref()));
    spec.insert("profile".to_owned(), json!(desired.profile.name));
    spec.extend(desired.pod.as_ref().map(|pod| ("podName".to_owned(), json!(pod))));
    Value::Object(spec)
}

fn key_of(object: &Value) -> Option<Key> {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str)?;
    let workload = object.pointer("/spec/targetRef").and_then(Workload::from_reference)?;
    Some(Key { namespace: namespace.to_owned(), workload })
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn created(object: &Value) -> i64 {
    text(object, "/metadata/creationTimestamp").parse::<Timestamp>().map(nanos_of).unwrap_or_default()
}

fn read_recommendation(object: &Value) -> Option<StoredRecommendation> {
    let owner = object.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str);
    Some(StoredRecommendation {
        key: key_of(object)?,
        pod: Some(text(object, "/spec/podName")).filter(|pod| !pod.is_empty()),
        name: text(object, "/metadata/name"),
        uid: text(object, "/metadata/uid"),
        managed: object.pointer(MANAGED_BY).and_then(Value::as_str) == Some("plimsoll"),
        profile: text(object, "/spec/profile"),
        owner_uid: owner.map(str::to_owned),
        created: created(object),
        status: object.get("status").cloned().unwrap_or_default(),
    })
}

/// `None` for copies that were set aside, and for what has no target.
fn read_checkpoint(object: &Value) -> Option<StoredCheckpoint> {
    let name = text(object, "/metadata/name");
    if name.ends_with(SET_ASIDE) {
        return None;
    }
    let last = text(object, "/spec/lastSample").parse::<Timestamp>().map(nanos_of);
    Some(StoredCheckpoint {
        key: key_of(object)?,
        version: CheckpointVersion {
            name,
            uid: text(object, "/metadata/uid"),
            resource_version: text(object, "/metadata/resourceVersion"),
        },
        content: parked(object.get("spec").unwrap_or(&Value::Null)),
        last: last.unwrap_or_else(|_| created(object)),
    })
}

fn checkpoint_spec(content: &Stored) -> Result<Value, StoreError> {
    let containers: Result<Vec<Value>, _> = content
        .containers
        .iter()
        .map(|ParkedContainer { pod, container, checkpoint }| {
            let mut value = serde_json::to_value(checkpoint)?;
            if let Some(map) = value.as_object_mut() {
                map.insert("name".to_owned(), json!(container));
                map.extend(pod.as_ref().map(|pod| ("pod".to_owned(), json!(pod))));
            }
            Ok(value)
        })
        .collect();
    let containers = containers.map_err(|error: serde_json::Error| StoreError::Refused(error.to_string()))?;
    Ok(json!({
        "version": VERSION,
        "targetRef": target(&content.key, content.owner.as_ref()),
        "containers": containers,
        "peaks": content.peaks,
    }))
}

/// The content of a checkpoint, as far as it is of the right form; whether it is possible is found out when it is taken
/// up.
fn parked(spec: &Value) -> Result<Parked, String> {
    let version = spec.get("version").and_then(Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        let found = spec.get("version").unwrap_or(&Value::Null);
        return Err(format!("spec.version: {found} is not known; version {VERSION} is read here"));
    }
    let list = |key: &str| spec.get(key).and_then(Value::as_array).into_iter().flatten();
    let containers: Result<Vec<_>, String> = list("containers")
        .enumerate()
        .map(|(index, item)| {
            let container = item.get("name").and_then(Value::as_str);
            let container = container.ok_or_else(|| format!("spec.containers[{index}].name: is missing"))?;
            let checkpoint: Checkpoint = serde_json::from_value(item.clone())
                .map_err(|error| format!("spec.containers[{index}] ({container}): {error}"))?;
            Ok(ParkedContainer {
                pod: item.get("pod").and_then(Value::as_str).map(str::to_owned),
                container: container.to_owned(),
                checkpoint,
            })
        })
        .collect();
    let peaks: Result<Vec<_>, String> = list("peaks")
        .enumerate()
        .map(|(index, line)| {
            line.as_str().map(str::to_owned).ok_or_else(|| format!("spec.peaks[{index}]: is not a text"))
        })
        .collect();
    Ok(Parked { containers: containers?, peaks: peaks? })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::placement::ByResource;

    use super::*;

    #[tokio::test]
    async fn weights_that_placement_learnt_are_kept_with_a_checkpoint() {
        let client =
            crate::cluster::client(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let workload =
            |name: &str| Workload { group: "apps".into(), kind: "Deployment".into(), name: name.into() };
        let key = |name: &str| Key { namespace: "shop".to_owned(), workload: workload(name) };
        let known = WorkloadKey { namespace: "shop".into(), workload: workload("web").into() };
        let learnt =
            LearntWeights { workloads: [(known, ByResource::all(0.25))].into(), ..Default::default() };
        let store = ClusterStore::new(client, 1, Arc::new(Metrics::new("test")));
        assert_eq!(store.weights_of(&key("web")), None, "nothing is placed");
        let store = store.with_weights(Some(Arc::new(ArcSwap::from_pointee(learnt))));
        assert_eq!(store.weights_of(&key("db")), None, "not learnt");
        let quarter = json!({"cpu": "0.25", "memory": "0.25", "bandwidth": "0.25", "disk": "0.25"});
        assert_eq!(store.weights_of(&key("web")), Some(quarter));
    }
}
