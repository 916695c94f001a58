//! Who waits for what it is guaranteed.

use serde::{Deserialize, Serialize};

use crate::quota::Amounts;

/// Who claims: the controller of refused pods, or a refused pod without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimant {
    /// The namespace.
    pub namespace: String,
    /// The controller's UID; empty for a pod without one.
    #[serde(default)]
    pub uid: String,
    /// As in `apps/v1`; `v1` for a pod.
    pub api_version: String,
    /// As in `ReplicaSet`, or `Pod`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Claimant {
    /// Whether both are one owner: by UID where there is one, else by namespace and name.
    pub fn is(&self, other: &Self) -> bool {
        // Whoever writes a pod writes its owner references: nobody shares a claim with another namespace.
        self.namespace == other.namespace
            && if self.uid.is_empty() && other.uid.is_empty() {
                self.kind == other.kind && self.name == other.name
            } else {
                self.uid == other.uid
            }
    }

    /// Whether it retries at once when an annotation of it is changed.
    pub fn can_be_prompted(&self) -> bool {
        matches!(
            (self.api_version.as_str(), self.kind.as_str()),
            ("apps/v1", "ReplicaSet" | "StatefulSet" | "DaemonSet")
                | ("batch/v1", "Job")
                | ("v1", "ReplicationController")
        ) && !self.uid.is_empty()
    }
}

/// Room that an owner is entitled to and does not have yet. Others' pods leave it alone, unless their claim is older.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Its place in the order of claims.
    pub number: u64,
    /// Whose.
    pub claimant: Claimant,
    /// What the pod that was refused would have counted.
    pub charge: Amounts,
    /// When it was made, by the clock of the replica that made it, in seconds since 1970. To be read by people.
    pub created: i64,
    /// When it was last refused; only that it changes counts.
    pub retried: i64,
}
