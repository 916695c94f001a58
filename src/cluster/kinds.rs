//! The kinds of objects that are watched.

use plimsoll_core::objects::{FactKey, FactKind, WorkloadKind};
use serde_json::Value;

use super::ClusterOptions;
use super::watch::Collection;

/// One kind and how it is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct WatchedKind {
    /// What it becomes in the snapshot.
    pub fact: FactKind,
    /// As in `apps/v1`.
    pub api_version: &'static str,
    /// Versions that are asked for in turn where the cluster does not serve that one.
    pub older_versions: &'static [&'static str],
    /// As in `ReplicaSet`.
    pub kind: &'static str,
    /// Its name in metrics and in the log: `kind`, but for kinds of one name in several groups.
    pub label: &'static str,
    /// As in `replicasets`.
    pub plural: &'static str,
    /// Whether its metadata is all that decisions read.
    pub metadata_only: bool,
    /// Who needs it: it is watched only where that is enabled.
    pub part: Part,
}

/// A part of the server that may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Admission and the recommender, which need their kinds in any case.
    Always,
    /// Elastic quota.
    Quota,
    /// The keeping of autoscalers.
    Hpa,
    /// Elastic quota, or placement.
    QuotaOrPlacement,
}

const fn watched(
    fact: FactKind,
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    metadata_only: bool,
) -> WatchedKind {
    WatchedKind {
        fact,
        api_version,
        older_versions: &[],
        kind,
        label: kind,
        plural,
        metadata_only,
        part: Part::Always,
    }
}

/// `OvercommitProfile`, whose status is ours too.
pub(super) const PROFILE: WatchedKind =
    watched(FactKind::Profile, "plimsoll.dev/v1alpha1", "OvercommitProfile", "overcommitprofiles", false);

/// `Namespace`, which is also read one at a time.
pub(super) const NAMESPACE: WatchedKind = watched(FactKind::Namespace, "v1", "Namespace", "namespaces", true);

const TREE: WatchedKind = WatchedKind {
    part: Part::Quota,
    ..watched(
        FactKind::QuotaTree,
        "scheduling.sigs.k8s.io/v1beta1",
        "ElasticQuotaTree",
        "elasticquotatrees",
        false,
    )
};

const FLAVOR: WatchedKind = WatchedKind {
    older_versions: &["kueue.x-k8s.io/v1beta1"],
    part: Part::Quota,
    ..watched(FactKind::Flavor, "kueue.x-k8s.io/v1beta2", "ResourceFlavor", "resourceflavors", false)
};

const NODE: WatchedKind =
    WatchedKind { part: Part::QuotaOrPlacement, ..watched(FactKind::Node, "v1", "Node", "nodes", false) };

const HPA: WatchedKind = WatchedKind {
    part: Part::Hpa,
    ..watched(FactKind::Hpa, "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", false)
};

const fn workload(kind: WorkloadKind, version: &'static str, plural: &'static str) -> WatchedKind {
    let (_, name) = kind.group_kind();
    WatchedKind { part: Part::Hpa, ..watched(FactKind::Workload(kind), version, name, plural, false) }
}

const ADVANCED_STATEFUL_SET: WatchedKind = WatchedKind {
    label: "AdvancedStatefulSet",
    ..workload(WorkloadKind::AdvancedStatefulSet, "apps.kruise.io/v1beta1", "statefulsets")
};

/// Every kind that is watched.
pub static WATCHED: [WatchedKind; 14] = [
    PROFILE,
    watched(FactKind::Recommendation, "plimsoll.dev/v1alpha1", "Recommendation", "recommendations", false),
    watched(FactKind::LimitRange, "v1", "LimitRange", "limitranges", false),
    NAMESPACE,
    watched(FactKind::ReplicaSet, "apps/v1", "ReplicaSet", "replicasets", true),
    watched(FactKind::Job, "batch/v1", "Job", "jobs", true),
    TREE,
    FLAVOR,
    NODE,
    HPA,
    workload(WorkloadKind::Deployment, "apps/v1", "deployments"),
    workload(WorkloadKind::StatefulSet, "apps/v1", "statefulsets"),
    workload(WorkloadKind::CloneSet, "apps.kruise.io/v1alpha1", "clonesets"),
    ADVANCED_STATEFUL_SET,
];

/// The kinds that are watched with the parts that are enabled.
pub(super) fn watched_with(options: &ClusterOptions) -> impl Iterator<Item = &'static WatchedKind> + use<> {
    let (quota, hpa, placement) = (options.quota, options.hpa, options.placement);
    WATCHED.iter().filter(move |kind| match kind.part {
        Part::Always => true,
        Part::Quota => quota,
        Part::Hpa => hpa,
        Part::QuotaOrPlacement => quota || placement,
    })
}

impl WatchedKind {
    /// Its API group; empty for the core group.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Whether the kind comes from a CRD, which may not be installed. Groups of Kubernetes itself have short names.
    pub fn is_custom(&self) -> bool {
        self.group().contains('.')
    }

    /// Whether all is well without it. Who uses flavors notices that they are missing by the pods that are refused; and
    /// workloads of a kind that is not installed do not exist.
    pub fn is_optional(&self) -> bool {
        matches!(self.fact, FactKind::Flavor | FactKind::Workload(_))
    }

    /// The path of the collection over all namespaces.
    pub fn path(&self) -> String {
        self.path_at(self.api_version)
    }

    fn path_at(&self, version: &str) -> String {
        let root = if version.contains('/') { "/apis" } else { "/api" };
        format!("{root}/{version}/{}", self.plural)
    }

    pub(super) fn collection(&self) -> Collection {
        Collection {
            path: self.path(),
            older_paths: self.older_versions.iter().map(|version| self.path_at(version)).collect(),
            kind: self.label,
            metadata_only: self.metadata_only,
            may_be_absent: self.is_custom(),
        }
    }

    /// The name of its CRD.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group())
    }

    /// What a right on it is about, as `nodes` or `deployments.apps`.
    pub(super) fn resource(&self) -> String {
        if self.group().is_empty() { self.plural.to_owned() } else { self.crd_name() }
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
                "/apis/scheduling.sigs.k8s.io/v1beta1/elasticquotatrees",
                "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
                "/api/v1/nodes",
                "/apis/autoscaling/v2/horizontalpodautoscalers",
                "/apis/apps/v1/deployments",
                "/apis/apps/v1/statefulsets",
                "/apis/apps.kruise.io/v1alpha1/clonesets",
                "/apis/apps.kruise.io/v1beta1/statefulsets",
            ]
        );
        assert_eq!(FLAVOR.collection().older_paths, ["/apis/kueue.x-k8s.io/v1beta1/resourceflavors"]);
    }

    #[test]
    fn labels_and_facts_are_told_apart() {
        let labels: std::collections::BTreeSet<_> = WATCHED.iter().map(|kind| kind.label).collect();
        let facts: std::collections::BTreeSet<_> = WATCHED.iter().map(|kind| kind.fact).collect();
        assert_eq!((labels.len(), facts.len()), (WATCHED.len(), WATCHED.len()));
        for kind in &WATCHED {
            if let FactKind::Workload(workload) = kind.fact {
                assert_eq!((kind.group(), kind.kind), workload.group_kind());
            }
        }
    }

    #[test]
    fn kinds_of_custom_resources() {
        let custom: Vec<_> =
            WATCHED.iter().filter(|kind| kind.is_custom()).map(WatchedKind::crd_name).collect();
        assert_eq!(
            custom,
            [
                "overcommitprofiles.plimsoll.dev",
                "recommendations.plimsoll.dev",
                "elasticquotatrees.scheduling.sigs.k8s.io",
                "resourceflavors.kueue.x-k8s.io",
                "clonesets.apps.kruise.io",
                "statefulsets.apps.kruise.io",
            ]
        );
        for (rule, quota, hpa, placement, count) in [
            ("nothing optional", false, false, false, 6),
            ("quota", true, false, false, 9),
            ("autoscalers", false, true, false, 11),
            ("placement", false, false, true, 7),
            ("quota and placement", true, false, true, 9),
            ("everything", true, true, true, WATCHED.len()),
        ] {
            let options = ClusterOptions { quota, hpa, placement, ..ClusterOptions::default() };
            assert_eq!(watched_with(&options).count(), count, "{rule}");
        }
    }
}
