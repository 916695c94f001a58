//! Every object that decisions read, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::HashTrieMapSync;

use crate::objects::scaling::Scaling;
use crate::objects::{Fact, FactKey, FactKind, LimitRange, Namespace, Node, OwnerLookup, Recommendation};
use crate::pod::Owner;
use crate::problem::Problem;
use crate::profile::{Profile, ProfileSet};
use crate::quota::{Amounts, Flavor, QuotaPod, StoredTree, TREE_NAMESPACE};

type ByName<T> = HashTrieMapSync<String, T>;
pub(super) type ByNamespace<T> = HashTrieMapSync<String, Arc<BTreeMap<String, T>>>;

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
    /// The same, by what they are about.
    by_target: HashTrieMapSync<TargetKey, Arc<BTreeMap<String, Arc<Recommendation>>>>,
    replica_sets: HashTrieMapSync<(String, String), Option<Owner>>,
    jobs: HashTrieMapSync<(String, String), Option<Owner>>,
    quota_trees: BTreeMap<(String, String), Arc<StoredTree>>,
    /// The one of them that counts.
    quota_tree: Option<Arc<StoredTree>>,
    flavors: Arc<BTreeMap<Arc<str>, Arc<Flavor>>>,
    nodes: ByName<Arc<Node>>,
    /// The sum over the nodes.
    allocatable: Arc<Amounts>,
    pods: ByNamespace<Arc<QuotaPod>>,
    pub(super) scaling: Scaling,
}

/// Namespace, kind and name of a target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TargetKey(String, String, String);

impl TargetKey {
    fn of(rec: &Recommendation) -> Self {
        Self(rec.namespace.clone(), rec.target.kind.clone(), rec.target.name.clone())
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
            Fact::Recommendation(rec) => self.put_recommendation(rec),
            Fact::Owned(owned) => {
                let map = if owned.kind == FactKind::Job { &mut self.jobs } else { &mut self.replica_sets };
                map.insert_mut((owned.namespace, owned.name), owned.controller);
            }
            Fact::QuotaTree(tree) => {
                self.quota_trees.insert((tree.namespace.clone(), tree.name.clone()), tree);
                self.choose_quota_tree();
            }
            Fact::Flavor(flavor) => {
                Arc::make_mut(&mut self.flavors).insert(Arc::clone(&flavor.name), flavor);
            }
            Fact::Node(node) => {
                self.remove_node(&node.name);
                Arc::make_mut(&mut self.allocatable).add(&node.allocatable);
                self.nodes.insert_mut(node.name.clone(), node);
            }
            Fact::Pod(pod) => {
                let (namespace, name) = (pod.namespace.to_string(), pod.name.to_string());
                put_namespaced(&mut self.pods, namespace, name, pod);
            }
            Fact::Hpa(hpa) => self.scaling.put_hpa(hpa),
            Fact::Workload(found) => self.scaling.put_workload(found),
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
            FactKind::Recommendation => self.remove_recommendation(&key.namespace, &key.name),
            FactKind::ReplicaSet => {
                self.replica_sets.remove_mut(&(key.namespace.clone(), key.name.clone()));
            }
            FactKind::Job => {
                self.jobs.remove_mut(&(key.namespace.clone(), key.name.clone()));
            }
            FactKind::QuotaTree => {
                self.quota_trees.remove(&(key.namespace.clone(), key.name.clone()));
                self.choose_quota_tree();
            }
            FactKind::Flavor => {
                Arc::make_mut(&mut self.flavors).remove(key.name.as_str());
            }
            FactKind::Node => self.remove_node(&key.name),
            FactKind::Pod => remove_namespaced(&mut self.pods, &key.namespace, &key.name),
            FactKind::Hpa => remove_namespaced(&mut self.scaling.hpas, &key.namespace, &key.name),
            FactKind::Workload(kind) => self.scaling.remove_workload(kind, &key.namespace, &key.name),
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
            FactKind::Recommendation => {
                self.recommendations = ByNamespace::default();
                self.by_target = HashTrieMapSync::default();
            }
            FactKind::ReplicaSet => self.replica_sets = HashTrieMapSync::default(),
            FactKind::Job => self.jobs = HashTrieMapSync::default(),
            FactKind::QuotaTree => {
                self.quota_trees.clear();
                self.quota_tree = None;
            }
            FactKind::Flavor => self.flavors = Arc::default(),
            FactKind::Node => {
                self.nodes = ByName::default();
                self.allocatable = Arc::default();
            }
            FactKind::Pod => self.pods = ByNamespace::default(),
            FactKind::Hpa => self.scaling.hpas = ByNamespace::default(),
            FactKind::Workload(kind) => drop(self.scaling.workloads.remove(&kind)),
        }
        for fact in facts.into_iter().filter(|fact| fact.key().kind == kind) {
            self.put(fact);
        }
    }

    /// Only trees in [`TREE_NAMESPACE`] count, and of several the oldest.
    fn choose_quota_tree(&mut self) {
        let here = self.quota_trees.values().filter(|tree| tree.namespace == TREE_NAMESPACE);
        self.quota_tree = here.min_by(|a, b| a.rank().cmp(&b.rank())).map(Arc::clone);
    }

    fn remove_node(&mut self, name: &str) {
        if let Some(old) = self.nodes.get(name) {
            Arc::make_mut(&mut self.allocatable).subtract(&old.allocatable);
            self.nodes.remove_mut(name);
        }
    }

    fn put_recommendation(&mut self, rec: Arc<Recommendation>) {
        self.remove_recommendation(&rec.namespace, &rec.name);
        let key = TargetKey::of(&rec);
        let mut about = self.by_target.get(&key).cloned().unwrap_or_default();
        Arc::make_mut(&mut about).insert(rec.name.clone(), Arc::clone(&rec));
        self.by_target.insert_mut(key, about);
        let (namespace, name) = (rec.namespace.clone(), rec.name.clone());
        put_namespaced(&mut self.recommendations, namespace, name, rec);
    }

    fn remove_recommendation(&mut self, namespace: &str, name: &str) {
        let Some(old) = self.recommendations.get(namespace).and_then(|recs| recs.get(name)).cloned() else {
            return;
        };
        remove_namespaced(&mut self.recommendations, namespace, name);
        let key = TargetKey::of(&old);
        if let Some(mut about) = self.by_target.get(&key).cloned() {
            Arc::make_mut(&mut about).remove(name);
            if about.is_empty() {
                self.by_target.remove_mut(&key);
            } else {
                self.by_target.insert_mut(key, about);
            }
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

    /// The `LimitRange`s of a namespace, by name.
    pub(super) fn limit_ranges_of(&self, namespace: &str) -> Option<&Arc<BTreeMap<String, Arc<LimitRange>>>> {
        self.limit_ranges.get(namespace)
    }

    /// The `LimitRange`s of a namespace.
    pub fn limit_ranges(&self, namespace: &str) -> impl Iterator<Item = &Arc<LimitRange>> {
        self.limit_ranges.get(namespace).into_iter().flat_map(|ranges| ranges.values())
    }

    /// The recommendations of a namespace that are about the target of this kind and name, and about its
    /// pods; of every API group.
    pub fn recommendations(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> impl Iterator<Item = &Arc<Recommendation>> {
        let key = TargetKey(namespace.to_owned(), kind.to_owned(), name.to_owned());
        self.by_target.get(&key).into_iter().flat_map(|recs| recs.values())
    }

    /// All recommendations.
    pub fn all_recommendations(&self) -> impl Iterator<Item = &Arc<Recommendation>> {
        self.recommendations.values().flat_map(|recs| recs.values())
    }

    /// The recommendations of a namespace.
    pub fn recommendations_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Recommendation>> {
        self.recommendations.get(namespace).into_iter().flat_map(|recs| recs.values())
    }

    /// The recommendation of a name.
    pub fn recommendation(&self, namespace: &str, name: &str) -> Option<&Arc<Recommendation>> {
        self.recommendations.get(namespace)?.get(name)
    }

    /// Whose the ReplicaSet or Job is.
    pub fn owner_of(&self, kind: &str, namespace: &str, name: &str) -> OwnerLookup<'_> {
        let map = if kind == "Job" { &self.jobs } else { &self.replica_sets };
        match map.get(&(namespace.to_owned(), name.to_owned())) {
            Some(Some(owner)) => OwnerLookup::Controller(owner),
            Some(None) => OwnerLookup::NoController,
            None => OwnerLookup::Unknown,
        }
    }

    /// The quota tree in force, with what is wrong with it.
    pub const fn quota_tree(&self) -> Option<&Arc<StoredTree>> {
        self.quota_tree.as_ref()
    }

    /// Every quota tree, by namespace and name.
    pub fn quota_trees(&self) -> impl Iterator<Item = &Arc<StoredTree>> {
        self.quota_trees.values()
    }

    /// The `ResourceFlavor` of a name.
    pub fn flavor(&self, name: &str) -> Option<&Arc<Flavor>> {
        self.flavors.get(name)
    }

    /// All nodes, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// What all nodes can carry together; nothing if no node was seen.
    pub fn allocatable(&self) -> Option<&Amounts> {
        (!self.nodes.is_empty()).then(|| self.allocatable.as_ref())
    }

    /// The pods; of a live cluster none.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<QuotaPod>> {
        self.pods.values().flat_map(|pods| pods.values())
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: FactKind) -> usize {
        match kind {
            FactKind::Profile => self.profiles.len() + self.broken_profiles.len(),
            FactKind::Namespace => self.namespaces.size(),
            FactKind::LimitRange => self.limit_ranges.values().map(|m| m.len()).sum(),
            FactKind::Recommendation => self.recommendations.values().map(|m| m.len()).sum(),
            FactKind::ReplicaSet => self.replica_sets.size(),
            FactKind::QuotaTree => self.quota_trees.len(),
            FactKind::Flavor => self.flavors.len(),
            FactKind::Node => self.nodes.size(),
            FactKind::Pod => self.pods.values().map(|m| m.len()).sum(),
            FactKind::Job => self.jobs.size(),
            FactKind::Hpa => self.scaling.hpas.values().map(|m| m.len()).sum(),
            FactKind::Workload(kind) => self.scaling.count_workloads(kind),
        }
    }
}

pub(super) fn put_namespaced<T: Clone>(map: &mut ByNamespace<T>, namespace: String, name: String, value: T) {
    let mut inner = map.get(&namespace).cloned().unwrap_or_default();
    Arc::make_mut(&mut inner).insert(name, value);
    map.insert_mut(namespace, inner);
}

pub(super) fn remove_namespaced<T: Clone>(map: &mut ByNamespace<T>, namespace: &str, name: &str) {
    let Some(mut inner) = map.get(namespace).cloned() else { return };
    Arc::make_mut(&mut inner).remove(name);
    if inner.is_empty() {
        map.remove_mut(namespace);
    } else {
        map.insert_mut(namespace.to_owned(), inner);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Objects;
    use crate::objects::{Fact, FactKey, FactKind, Recommendation, Shown};
    use crate::pod::Workload;

    fn recommendation(name: &str, target: &str) -> Fact {
        let workload =
            Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: target.to_owned() };
        Fact::Recommendation(Arc::new(Recommendation {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            profile: "p".to_owned(),
            target: workload,
            pod_name: None,
            containers: [].into(),
            shown: Shown::default(),
        }))
    }

    #[test]
    fn recommendations_are_found_by_target_through_every_change() {
        let mut objects = Objects::default();
        let about = |objects: &Objects, target: &str| {
            objects.recommendations("shop", "Deployment", target).map(|r| r.name.clone()).collect::<Vec<_>>()
        };
        objects.put(recommendation("a", "web"));
        objects.put(recommendation("b", "web"));
        assert_eq!(about(&objects, "web"), ["a", "b"]);
        objects.put(recommendation("a", "db"));
        assert_eq!(
            (about(&objects, "web"), about(&objects, "db")),
            (vec!["b".into()], vec!["a".into()]),
            "moved"
        );
        let before = objects.clone();
        let key = |name: &str| FactKey {
            kind: FactKind::Recommendation,
            namespace: "shop".into(),
            name: name.into(),
        };
        objects.remove(&key("a"));
        objects.remove(&key("a"));
        assert!(about(&objects, "db").is_empty(), "gone");
        assert_eq!(about(&before, "db"), ["a"], "an older state is untouched");
        objects.replace(FactKind::Recommendation, [recommendation("c", "db")]);
        assert_eq!(
            (about(&objects, "web").len(), about(&objects, "db")),
            (0, vec!["c".into()]),
            "listed anew"
        );
        assert_eq!(objects.count(FactKind::Recommendation), 1);
    }
}
