//! The pods that run, and the usage of their workloads.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::admission::AbsentNamespace;
use crate::pod::Workload;
use crate::recommender::checkpoint::Parked;
use crate::recommender::fold::memory_request;
use crate::recommender::models::Models;
use crate::recommender::pods::{Kill, PodFacts, PodShape};
use crate::recommender::shard::shard_of;
use crate::recommender::subject::{Slot, Subject};
use crate::usage::{Dropped, Track};

/// So many kills of pods that are gone wait at most; they all count as one, if they come within a day.
const MOST_INHERITED: usize = 8;

/// What is the same for as long as a recommender lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Namespaces whose pods are never changed; nothing is recommended there.
    pub excluded: BTreeSet<String>,
    /// What a namespace is that was not seen.
    pub absent_namespace: AbsentNamespace,
    /// How many shards there are.
    pub shards: u32,
    /// Which of them this is, from 0.
    pub shard: u32,
    /// Nanoseconds between two scans.
    pub scan_interval: i64,
    /// Nanoseconds within which each changed workload is written once.
    pub checkpoint_interval: i64,
}

/// What one set of histograms and one checkpoint are about: a workload, or a whole namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The workload; kind `Namespace` for the namespace itself.
    pub workload: Workload,
}

/// What one container used at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub pod: &'a str,
    /// The container's name.
    pub container: &'a str,
    /// When, in nanoseconds since 1970.
    pub nanos: i64,
    /// In cores. A value that is absent was not measured.
    pub cpu: Option<f64>,
    /// The working set in bytes.
    pub memory: Option<f64>,
}

/// What became of samples since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They were taken.
    pub accepted: u64,
    /// They were refused by the model.
    pub dropped: Dropped,
    /// No such pod or container is known.
    pub unknown: u64,
    /// The pod does not run.
    pub not_running: u64,
    /// No profile asks for recommendations for it.
    pub unmatched: u64,
    /// Kills for memory that were taken.
    pub kills: u64,
}

/// Everything that is known of usage, and of whose it is.
#[derive(Debug)]
pub struct Recommender {
    pub(super) options: Options,
    pub(super) pods: HashMap<String, HashMap<String, Pod>>,
    pub(super) subjects: HashMap<Arc<Key>, Subject>,
    pub(super) parked: HashMap<Key, Parked>,
    pub(super) counts: Counts,
    pub(super) models: Models,
    /// Time of the newest sample that was taken.
    pub(super) newest: Option<i64>,
    shapes: HashSet<Arc<PodShape>>,
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) facts: PodFacts,
    /// Where its usage goes.
    pub(super) home: Option<Arc<Key>>,
    /// In the order of the shape's containers.
    pub(super) containers: Vec<Tracked>,
    /// Where the usage went that these remember. It outlasts a time in which nothing is recommended for the pod:
    /// what was counted before must not be counted again after.
    pub(super) remembers: Option<Arc<Key>>,
    /// Whether its status may tell of kills that were not looked at.
    pub(super) news: bool,
    /// Kills of the pods that had its name before and that were not looked at, with the memory request in force then: a
    /// pod of a StatefulSet that is evicted is replaced at once.
    pub(super) inherited: Vec<(Kill, f64)>,
    /// For how many scans it has been gone; its last samples may come after it.
    pub(super) gone: Option<u8>,
}

/// A container of a pod.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Where in the subject its usage goes.
    pub(super) slot: Slot,
    pub(super) track: Track,
}

impl Recommender {
    /// Nothing is known yet.
    pub fn new(options: Options) -> Self {
        let models = Models::new(options.scan_interval);
        Self {
            options,
            pods: HashMap::new(),
            subjects: HashMap::new(),
            parked: HashMap::new(),
            counts: Counts::default(),
            models,
            newest: None,
            shapes: HashSet::new(),
        }
    }

    /// Whether a namespace is this shard's, and not excluded.
    pub fn covers(&self, namespace: &str) -> bool {
        shard_of(namespace, self.options.shards) == self.options.shard
            && !self.options.excluded.contains(namespace)
    }

    /// Adds or replaces a pod.
    pub fn put_pod(&mut self, mut facts: PodFacts) {
        if !self.covers(&facts.namespace) {
            return;
        }
        if let Some(shape) = self.shapes.get(&facts.shape) {
            facts.shape = Arc::clone(shape);
        } else {
            self.shapes.insert(Arc::clone(&facts.shape));
        }
        let pods = self.pods.entry(facts.namespace.clone()).or_default();
        if let Some(pod) = pods.get_mut(&facts.name) {
            let another = pod.facts.uid != facts.uid;
            if another && pod.news {
                pod.inherit();
            }
            pod.news |= another || pod.facts.kills != facts.kills;
            pod.facts = facts;
            pod.gone = None;
        } else {
            let pod = Pod {
                news: true,
                inherited: Vec::new(),
                home: None,
                containers: Vec::new(),
                remembers: None,
                gone: None,
                facts,
            };
            pods.insert(pod.facts.name.clone(), pod);
        }
    }

    /// A pod is gone. Its last samples are still taken for a short time.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        if let Some(pod) = self.pods.get_mut(namespace).and_then(|pods| pods.get_mut(name)) {
            pod.gone.get_or_insert(0);
        }
    }

    /// These are all pods.
    pub fn replace_pods(&mut self, all: Vec<PodFacts>) {
        for pod in self.pods.values_mut().flat_map(HashMap::values_mut) {
            pod.gone.get_or_insert(0);
        }
        for facts in all {
            self.put_pod(facts);
        }
    }

    /// Holds the content of a checkpoint until a pod of its workload is seen: only then it is known which
    /// profile's half-lives are in force.
    pub fn park(&mut self, key: Key, parked: Parked) {
        self.parked.insert(key, parked);
    }

    /// The namespaces that have pods.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// What became of samples since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many containers there are histograms of.
    pub fn aggregates(&self) -> usize {
        self.subjects.values().map(|subject| subject.containers.len()).sum()
    }

    /// The bytes that their histograms take.
    pub fn bytes(&self) -> usize {
        let measured = self.subjects.values().flat_map(|subject| subject.containers.values());
        measured.map(|measured| measured.aggregate.bytes()).sum()
    }

    /// Whether anything is known of a workload; without that nobody can say that it needs no recommendation.
    pub fn knows(&self, key: &Key) -> bool {
        self.subjects.contains_key(key)
    }

    /// How many of its pods have not ended.
    pub fn pods_of(&self, key: &Key) -> usize {
        self.subjects.get(key).map_or(0, |subject| subject.pods)
    }

    /// Whether a checkpoint of it waits for its first pod.
    pub fn is_parked(&self, key: &Key) -> bool {
        self.parked.contains_key(key)
    }

    pub(super) fn forget_shapes(&mut self) {
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
    }

    /// Forgets a workload that was deleted.
    pub fn forget(&mut self, key: &Key) {
        self.subjects.remove(key);
        self.parked.remove(key);
        let Some(pods) = self.pods.get_mut(&key.namespace) else { return };
        pods.retain(|_, pod| pod.gone.is_none() || pod.home.as_deref() != Some(key));
        for pod in pods.values_mut().filter(|pod| pod.remembers.as_deref() == Some(key)) {
            (pod.home, pod.remembers) = (None, None);
        }
    }
}

impl Pod {
    /// Another pod takes its name.
    fn inherit(&mut self) {
        let shape = Arc::clone(&self.facts.shape);
        let kills = std::mem::take(&mut self.facts.kills);
        self.inherited.extend(kills.into_iter().map(|kill| {
            let request = memory_request(&shape, &kill.container);
            (kill, request)
        }));
        let over = self.inherited.len().saturating_sub(MOST_INHERITED);
        self.inherited.drain(..over);
    }
}
