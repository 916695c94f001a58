//! What the cluster looks like, as far as decisions need it.
//!
//! One value holds all of it, is cheap to clone, and changes only by [`Objects::put`] and
//! [`Objects::remove`]: watches, the standalone folder and `--objects` all build it the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use rpds::HashTrieMapSync;

use crate::pod::Workload;
use crate::problem::Problem;
use crate::profile::{Profile, ProfileSet};
use crate::resource::Resource;

mod manifest;

pub use manifest::{ManifestError, read_manifest};

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
    pub controller: Option<Workload>,
}

/// What is known about the controller of a ReplicaSet or Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerLookup<'a> {
    /// This one.
    Controller(&'a Workload),
    /// It has none.
    NoController,
    /// The object was not seen yet.
    Unknown,
}

type ByName<T> = HashTrieMapSync<String, T>;
type ByNamespace<T> = HashTrieMapSync<String, Arc<BTreeMap<String, T>>>;

/// Everything that decisions need to know of a cluster, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    profiles: BTreeMap<String, Arc<Profile>>,
    broken_profiles: BTreeMap<String, Vec<Problem>>,
    file_profiles: BTreeMap<String, Arc<Profile>>,
    ordered: Arc<ProfileSet>,
    namespaces: ByName<Arc<Namespace>>,
    limit_ranges: ByNamespace<Arc<LimitRange>>,
    recommendations: ByNamespace<Arc<Recommendation>>,
    replica_sets: HashTrieMapSync<(String, String), Option<Workload>>,
    jobs: HashTrieMapSync<(String, String), Option<Workload>>,
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
        };
        FactKey { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Objects {
    /// Replaces the profiles of the configuration file. A profile of the cluster beats one of the same
    /// name here.
    pub fn set_file_profiles(&mut self, profiles: impl IntoIterator<Item = Arc<Profile>>) {
        self.file_profiles = profiles.into_iter().map(|p| (p.name.clone(), p)).collect();
        self.reorder();
    }

    /// Adds or replaces an object.
    pub fn put(&mut self, fact: Fact) {
        match fact {
            Fact::Profile(profile) => {
                self.broken_profiles.remove(&profile.name);
                self.profiles.insert(profile.name.clone(), profile);
                self.reorder();
            }
            Fact::BrokenProfile { name, problems } => {
                self.profiles.remove(&name);
                self.broken_profiles.insert(name, problems);
                self.reorder();
            }
            Fact::Namespace(namespace) => {
                self.namespaces.insert_mut(namespace.name.clone(), namespace);
            }
            Fact::LimitRange(range) => {
                let (namespace, name) = (range.namespace.clone(), range.name.clone());
                put_namespaced(&mut self.limit_ranges, namespace, name, range);
            }
            Fact::Recommendation(rec) => {
                let (namespace, name) = (rec.namespace.clone(), rec.name.clone());
                put_namespaced(&mut self.recommendations, namespace, name, rec);
            }
            Fact::Owned(owned) => {
                let map = if owned.kind == FactKind::Job { &mut self.jobs } else { &mut self.replica_sets };
                map.insert_mut((owned.namespace, owned.name), owned.controller);
            }
        }
    }

    /// Forgets an object; one that is not there is no error.
    pub fn remove(&mut self, key: &FactKey) {
        match key.kind {
            FactKind::Profile => {
                self.profiles.remove(&key.name);
                self.broken_profiles.remove(&key.name);
                self.reorder();
            }
            FactKind::Namespace => {
                self.namespaces.remove_mut(&key.name);
            }
            FactKind::LimitRange => remove_namespaced(&mut self.limit_ranges, &key.namespace, &key.name),
            FactKind::Recommendation => {
                remove_namespaced(&mut self.recommendations, &key.namespace, &key.name);
            }
            FactKind::ReplicaSet => {
                self.replica_sets.remove_mut(&(key.namespace.clone(), key.name.clone()));
            }
            FactKind::Job => {
                self.jobs.remove_mut(&(key.namespace.clone(), key.name.clone()));
            }
        }
    }

    /// Replaces all objects of one kind, as after a list.
    pub fn replace(&mut self, kind: FactKind, facts: impl IntoIterator<Item = Fact>) {
        match kind {
            FactKind::Profile => {
                self.profiles.clear();
                self.broken_profiles.clear();
                self.reorder();
            }
            FactKind::Namespace => self.namespaces = ByName::default(),
            FactKind::LimitRange => self.limit_ranges = ByNamespace::default(),
            FactKind::Recommendation => self.recommendations = ByNamespace::default(),
            FactKind::ReplicaSet => self.replica_sets = HashTrieMapSync::default(),
            FactKind::Job => self.jobs = HashTrieMapSync::default(),
        }
        for fact in facts.into_iter().filter(|fact| fact.key().kind == kind) {
            self.put(fact);
        }
    }

    fn reorder(&mut self) {
        let mut all = self.file_profiles.clone();
        // A cluster profile stands for its name even while it is broken: falling back to the file's
        // would change pods by a profile that somebody replaced.
        all.retain(|name, _| !self.broken_profiles.contains_key(name));
        all.extend(self.profiles.iter().map(|(name, profile)| (name.clone(), Arc::clone(profile))));
        self.ordered = Arc::new(ProfileSet::new(all.into_values()));
    }

    /// The profiles in the order in which they are asked.
    pub fn profiles(&self) -> &ProfileSet {
        &self.ordered
    }

    /// Profiles of the cluster that are not used because something in them is wrong.
    pub fn broken_profiles(&self) -> &BTreeMap<String, Vec<Problem>> {
        &self.broken_profiles
    }

    /// A namespace, if it was seen.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
    }

    /// The `LimitRange`s of a namespace.
    pub fn limit_ranges(&self, namespace: &str) -> impl Iterator<Item = &Arc<LimitRange>> {
        self.limit_ranges.get(namespace).into_iter().flat_map(|ranges| ranges.values())
    }

    /// The recommendations of a namespace.
    pub fn recommendations(&self, namespace: &str) -> impl Iterator<Item = &Arc<Recommendation>> {
        self.recommendations.get(namespace).into_iter().flat_map(|recs| recs.values())
    }

    /// Whose the ReplicaSet or Job is.
    pub fn owner_of(&self, kind: &str, namespace: &str, name: &str) -> OwnerLookup<'_> {
        let map = if kind == "Job" { &self.jobs } else { &self.replica_sets };
        match map.get(&(namespace.to_owned(), name.to_owned())) {
            Some(Some(workload)) => OwnerLookup::Controller(workload),
            Some(None) => OwnerLookup::NoController,
            None => OwnerLookup::Unknown,
        }
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: FactKind) -> usize {
        match kind {
            FactKind::Profile => self.profiles.len() + self.broken_profiles.len(),
            FactKind::Namespace => self.namespaces.size(),
            FactKind::LimitRange => self.limit_ranges.values().map(|m| m.len()).sum(),
            FactKind::Recommendation => self.recommendations.values().map(|m| m.len()).sum(),
            FactKind::ReplicaSet => self.replica_sets.size(),
            FactKind::Job => self.jobs.size(),
        }
    }
}

fn put_namespaced<T: Clone>(map: &mut ByNamespace<T>, namespace: String, name: String, value: T) {
    let mut inner = map.get(&namespace).cloned().unwrap_or_default();
    Arc::make_mut(&mut inner).insert(name, value);
    map.insert_mut(namespace, inner);
}

fn remove_namespaced<T: Clone>(map: &mut ByNamespace<T>, namespace: &str, name: &str) {
    let Some(mut inner) = map.get(namespace).cloned() else { return };
    Arc::make_mut(&mut inner).remove(name);
    if inner.is_empty() {
        map.remove_mut(namespace);
    } else {
        map.insert_mut(namespace.to_owned(), inner);
    }
}
