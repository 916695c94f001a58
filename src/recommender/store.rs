//! Where recommendations and checkpoints are kept.
//!
//! The loop knows objects by what stands here; how they are written is the store's own: the API server's in a
//! cluster, the snapshot's without one.

use plimsoll_core::pod::Workload;
use plimsoll_core::recommender::{Desired, Key, Parked, Stored};
use serde_json::Value;
use thiserror::Error;

/// A `Recommendation` as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecommendation {
    /// What it is about.
    pub key: Key,
    /// The pod it is about, at granularity Pod.
    pub pod: Option<String>,
    /// Its name.
    pub name: String,
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// Whether it is ours: what somebody wrote by hand is left as it is, and nothing is put beside it.
    pub managed: bool,
    /// The profile it was made for.
    pub profile: String,
    /// The owner that it names.
    pub owner_uid: Option<String>,
    /// When it was created, in nanoseconds since 1970.
    pub created: i64,
    /// Its status.
    pub status: Value,
}

/// A `UsageCheckpoint` as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCheckpoint {
    /// What it is about.
    pub key: Key,
    /// Which state of the object it is.
    pub version: CheckpointVersion,
    /// Its content, or why it is none.
    pub content: Result<Parked, String>,
    /// When its last sample was taken, or else it was created, in nanoseconds since 1970.
    pub last: i64,
}

/// Which state of a checkpoint's object was read or written last: what is written next must follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointVersion {
    /// Its name.
    pub name: String,
    /// Which of all objects of that name, over time.
    pub uid: String,
    /// As the API server counts.
    pub resource_version: String,
}

/// Why an object was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Somebody else wrote it since it was read.
    #[error("{0} was written by somebody else since it was read")]
    Conflict(String),
    /// It, or its namespace, is not there.
    #[error("{0} is not there")]
    NotFound(String),
    /// It cannot be written as it is; trying again is no use.
    #[error("{0}")]
    Refused(String),
    /// A right is missing.
    #[error("{0}")]
    Forbidden(String),
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
}

/// Reads and writes them.
pub trait Store: Send + Sync {
    /// All `Recommendation`s.
    fn recommendations(&self) -> impl Future<Output = Result<Vec<StoredRecommendation>, StoreError>> + Send;

    /// All `UsageCheckpoint`s.
    fn checkpoints(&self) -> impl Future<Output = Result<Vec<StoredCheckpoint>, StoreError>> + Send;

    /// Creates one, or lets the one that stands there say what is desired, with this status.
    fn put_recommendation(
        &self,
        desired: &Desired,
        stored: Option<&StoredRecommendation>,
        status: Value,
    ) -> impl Future<Output = Result<StoredRecommendation, StoreError>> + Send;

    /// Deletes one, if it is still that one.
    fn delete_recommendation(
        &self,
        stored: &StoredRecommendation,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Creates a checkpoint, or replaces exactly the one of this version.
    fn put_checkpoint(
        &self,
        content: &Stored,
        version: Option<&CheckpointVersion>,
    ) -> impl Future<Output = Result<CheckpointVersion, StoreError>> + Send;

    /// Deletes a checkpoint, if it is still that one.
    fn delete_checkpoint(
        &self,
        namespace: &str,
        version: &CheckpointVersion,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps a copy of a checkpoint that cannot be used, before it is written over.
    fn set_aside(
        &self,
        key: &Key,
        version: &CheckpointVersion,
        why: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Tells whoever looks at a recommendation that it turned.
    fn tell(
        &self,
        stored: &StoredRecommendation,
        ready: bool,
        message: &str,
    ) -> impl Future<Output = ()> + Send;
}

/// A target in words, for the log.
pub fn shown(key: &Key) -> String {
    let Workload { kind, name, .. } = &key.workload;
    format!("{kind} {}/{name}", key.namespace)
}
