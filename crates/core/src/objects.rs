//! What the cluster looks like, as far as decisions need it.
//!
//! [`Objects`] holds all of it, is cheap to clone, and changes only by [`Objects::put`] and
//! [`Objects::remove`]: watches, the standalone folder and `--objects` all build it the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;

use crate::hpa::{Hpa, WorkloadFacts};
use crate::pod::{Owner, Workload};
use crate::problem::Problem;
use crate::profile::Profile;
use crate::quota::{Amounts, Flavor, QuotaPod, StoredTree};
use crate::resource::Resource;

mod manifest;
mod node;
mod scaling;
mod store;

pub use manifest::{ManifestError, read_manifest};
pub use store::Objects;

/// Something the cluster holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// An `OvercommitProfile` that passed every check.
    Profile(Arc<Profile>),
    /// An `OvercommitProfile` that did not. It disables nothing but itself.
    BrokenProfile {
        /// Its name.
        name: String,
        /// Why.
        problems: Vec<Problem>,
    },
    /// A namespace.
    Namespace(Arc<Namespace>),
    /// A `LimitRange`.
    LimitRange(Arc<LimitRange>),
    /// A `Recommendation`.
    Recommendation(Arc<Recommendation>),
    /// A ReplicaSet or Job, and whose it is.
    Owned(Owned),
    /// An `ElasticQuotaTree`, good or bad.
    QuotaTree(Arc<StoredTree>),
    /// A `ResourceFlavor`.
    Flavor(Arc<Flavor>),
    /// A node.
    Node(Arc<Node>),
    /// A pod. Of a live cluster these are not kept here: there are too many.
    Pod(Arc<QuotaPod>),
    /// An autoscaler.
    Hpa(Arc<Hpa>),
    /// Something that an autoscaler may scale.
    Workload(Arc<WorkloadFacts>),
}

/// Which object a fact is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactKey {
    /// Which of the kinds.
    pub kind: FactKind,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The kinds of objects that decisions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactKind {
    /// `OvercommitProfile`.
    Profile,
    /// `Namespace`.
    Namespace,
    /// `LimitRange`.
    LimitRange,
    /// `Recommendation`.
    Recommendation,
    /// `ReplicaSet`.
    ReplicaSet,
    /// `Job`.
    Job,
    /// `ElasticQuotaTree`.
    QuotaTree,
    /// `ResourceFlavor`.
    Flavor,
    /// `Node`.
    Node,
    /// `Pod`.
    Pod,
    /// `HorizontalPodAutoscaler`.
    Hpa,
    /// A `Deployment`, `StatefulSet` or what else has a template, by group and kind: they are listed apart.
    Workload(WorkloadKind),
}

/// Kinds of workloads whose templates are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// `apps` `Deployment`.
    Deployment,
    /// `apps` `StatefulSet`.
    StatefulSet,
    /// `apps.kruise.io` `CloneSet`.
    CloneSet,
    /// `apps.kruise.io` `StatefulSet`.
    AdvancedStatefulSet,
}

impl WorkloadKind {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::Deployment, Self::StatefulSet, Self::CloneSet, Self::AdvancedStatefulSet];

    /// Its group and kind.
    pub const fn group_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "Deployment"),
            Self::StatefulSet => ("apps", "StatefulSet"),
            Self::CloneSet => ("apps.kruise.io", "CloneSet"),
            Self::AdvancedStatefulSet => ("apps.kruise.io", "StatefulSet"),
        }
    }

    /// The kind of that group and name.
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.group_kind() == (group, kind))
    }
}

/// Labels and annotations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What a node has, and whether pods may be sent to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Which of all nodes of that name, over time; empty if it is not said.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations that are ours: those that begin with `plimsoll.dev/`.
    pub annotations: BTreeMap<String, String>,
    /// `status.allocatable`; what is no quantity is left out.
    pub allocatable: Amounts,
    /// `status.capacity`, likewise.
    pub capacity: Amounts,
    /// What keeps pods away that do not tolerate it.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Whether its condition `Ready` is true. A manifest that tells of no condition at all is taken for that of a node
    /// that is.
    pub ready: bool,
    /// Its internal addresses, and the names that it gives itself.
    pub addresses: Vec<Box<str>>,
}

/// What keeps pods away from a node that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The bounds that a `LimitRange` sets for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRange {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Bounds of `type: Container`, by resource.
    pub container: BTreeMap<Resource, Bounds>,
    /// Bounds of `type: Pod`, by resource.
    pub pod: BTreeMap<Resource, Bounds>,
}

/// Bounds of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// A request may not be below this.
    pub min: Option<Quantity>,
    /// Limit divided by request may not be above this.
    pub max_ratio: Option<Quantity>,
}

/// What a recommender found for one workload, pod or namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The profile it was made for.
    pub profile: String,
    /// What it is about; kind `Namespace` for a whole namespace.
    pub target: Workload,
    /// The pod it is about, at granularity Pod.
    pub pod_name: Option<String>,
    /// By container name.
    pub containers: BTreeMap<String, ContainerRecommendation>,
    /// What people read, and no decision does.
    pub shown: Shown,
}

/// Parts of a recommendation as they stand in the object, as JSON text: compact, and nothing that a newer version
/// writes is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// `spec.targetRef`
    pub target: Box<str>,
    /// `status.containers`
    pub containers: Box<str>,
    /// `status.conditions`
    pub conditions: Box<str>,
}

impl Default for Shown {
    fn default() -> Self {
        Self { target: "{}".into(), containers: "[]".into(), conditions: "[]".into() }
    }
}

/// What a recommender found for one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerRecommendation {
    /// The model's value by resource, before expansion.
    pub targets: BTreeMap<Resource, Quantity>,
    /// Time of the first sample.
    pub first_sample: Option<Timestamp>,
    /// Time of the last sample.
    pub last_sample: Option<Timestamp>,
}

/// A ReplicaSet or Job, and its controller if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// [`FactKind::ReplicaSet`] or [`FactKind::Job`].
    pub kind: FactKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its controller.
    pub controller: Option<Owner>,
}

/// What is known about the controller of a ReplicaSet or Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerLookup<'a> {
    /// This one.
    Controller(&'a Owner),
    /// It has none.
    NoController,
    /// The object was not seen yet.
    Unknown,
}

impl Fact {
    /// Which object it is about.
    pub fn key(&self) -> FactKey {
        let (kind, namespace, name) = match self {
            Self::Profile(profile) => (FactKind::Profile, "", profile.name.as_str()),
            Self::BrokenProfile { name, .. } => (FactKind::Profile, "", name.as_str()),
            Self::Namespace(namespace) => (FactKind::Namespace, "", namespace.name.as_str()),
            Self::LimitRange(range) => (FactKind::LimitRange, range.namespace.as_str(), range.name.as_str()),
            Self::Recommendation(rec) => {
                (FactKind::Recommendation, rec.namespace.as_str(), rec.name.as_str())
            }
            Self::Owned(owned) => (owned.kind, owned.namespace.as_str(), owned.name.as_str()),
            Self::QuotaTree(tree) => (FactKind::QuotaTree, tree.namespace.as_str(), tree.name.as_str()),
            Self::Flavor(flavor) => (FactKind::Flavor, "", flavor.name.as_ref()),
            Self::Node(node) => (FactKind::Node, "", node.name.as_str()),
            Self::Pod(pod) => (FactKind::Pod, pod.namespace.as_ref(), pod.name.as_ref()),
            Self::Hpa(hpa) => (FactKind::Hpa, hpa.namespace.as_str(), hpa.name.as_str()),
            Self::Workload(found) => {
                (FactKind::Workload(found.kind), found.namespace.as_str(), found.workload.name.as_str())
            }
        };
        FactKey { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}
