//! The kinds of objects that are watched.

use plimsoll_core::objects::{FactKey, FactKind};
use serde_json::Value;

use super::watch::Collection;

/// One kind and how it is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct WatchedKind {
    /// What it becomes in the snapshot.
    pub fact: FactKind,
    /// As in `apps/v1`.
    pub api_version: &'static str,
    /// As in `ReplicaSet`; also its name in metrics.
    pub kind: &'static str,
    /// As in `replicasets`.
    pub plural: &'static str,
    /// Whether its metadata is all that decisions read.
    pub metadata_only: bool,
}

const fn watched(
    fact: FactKind,
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    metadata_only: bool,
) -> WatchedKind {
    WatchedKind { fact, api_version, kind, plural, metadata_only }
}

/// `OvercommitProfile`, whose status is ours too.
pub(super) const PROFILE: WatchedKind =
    watched(FactKind::Profile, "plimsoll.dev/v1alpha1", "OvercommitProfile", "overcommitprofiles", false);

/// `Namespace`, which is also read one at a time.
pub(super) const NAMESPACE: WatchedKind = watched(FactKind::Namespace, "v1", "Namespace", "namespaces", true);

/// Every kind that is watched.
pub static WATCHED: [WatchedKind; 6] = [
    PROFILE,
    watched(FactKind::Recommendation, "plimsoll.dev/v1alpha1", "Recommendation", "recommendations", false),
    watched(FactKind::LimitRange, "v1", "LimitRange", "limitranges", false),
    NAMESPACE,
    watched(FactKind::ReplicaSet, "apps/v1", "ReplicaSet", "replicasets", true),
    watched(FactKind::Job, "batch/v1", "Job", "jobs", true),
];

impl WatchedKind {
    /// Whether the kind comes from a CRD of ours, which may not be installed.
    pub fn is_custom(&self) -> bool {
        self.api_version.starts_with(crate::crd::GROUP)
    }

    /// The path of the collection over all namespaces.
    pub fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        format!("{root}/{}/{}", self.api_version, self.plural)
    }

    pub(super) fn collection(&self) -> Collection {
        Collection {
            path: self.path(),
            kind: self.kind,
            metadata_only: self.metadata_only,
            may_be_absent: self.is_custom(),
        }
    }

    /// The name of its CRD.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, crate::crd::GROUP)
    }

    /// The key of an object of this kind; nothing if it has no name.
    pub fn key_of(&self, object: &Value) -> Option<FactKey> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        (!name.is_empty()).then(|| FactKey {
            kind: self.fact,
            namespace: text("/metadata/namespace").to_owned(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let paths: Vec<_> = WATCHED.iter().map(WatchedKind::path).collect();
        assert_eq!(
            paths,
            [
                "/apis/plimsoll.dev/v1alpha1/overcommitprofiles",
                "/apis/plimsoll.dev/v1alpha1/recommendations",
                "/api/v1/limitranges",
                "/api/v1/namespaces",
                "/apis/apps/v1/replicasets",
                "/apis/batch/v1/jobs",
            ]
        );
    }
}
