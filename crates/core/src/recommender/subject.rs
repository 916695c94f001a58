//! The usage of one workload, or of one namespace.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::pod::Owner;
use crate::profile::Profile;
use crate::recommender::models::Models;
use crate::recommender::pods::{ContainerShape, PodFacts};
use crate::usage::{Aggregate, Track};

/// A container, of one pod or of all pods of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    /// The pod, at granularity Pod.
    pub(super) pod: Option<String>,
    /// The container's name.
    pub(super) container: String,
}

/// What one checkpoint is about.
#[derive(Debug)]
pub(super) struct Subject {
    /// The object that recommendations belong to; none for a namespace.
    pub(super) owner: Option<Owner>,
    /// The profile of its newest pod.
    pub(super) profile: Arc<Profile>,
    /// That profile's model.
    pub(super) model: usize,
    /// Whether each of its pods is on its own.
    pub(super) by_pod: bool,
    pub(super) containers: BTreeMap<Slot, Measured>,
    /// Peaks that were loaded, by pod and container, until the pod is seen.
    pub(super) peaks: HashMap<(String, String), String>,
    /// Pods that have not ended.
    pub(super) pods: usize,
    /// The profiles that its pods match.
    pub(super) profiles: BTreeSet<String>,
    /// Whether it holds what no checkpoint does.
    pub(super) changed: bool,
    /// When it was last written, in nanoseconds since 1970.
    pub(super) written: Option<i64>,
    /// Whether the past is to be read from a source that remembers it.
    pub(super) past_wanted: bool,
    newest_pod: Option<(i64, String)>,
}

/// The usage of a container.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) aggregate: Aggregate,
    /// What the newest pod that has it asks for.
    pub(super) shape: Option<ContainerShape>,
    /// When that pod was created; none before the first pod of an assignment.
    pub(super) shaped: Option<i64>,
    /// Whether a pod that has not ended has it.
    pub(super) live: bool,
    /// What the tracks of its containers begin with, where the aggregate was loaded.
    pub(super) resume: Option<Track>,
}

impl Subject {
    pub(super) fn new(profile: Arc<Profile>, model: usize) -> Self {
        Self {
            owner: None,
            profile,
            model,
            by_pod: false,
            containers: BTreeMap::new(),
            peaks: HashMap::new(),
            pods: 0,
            profiles: BTreeSet::new(),
            changed: false,
            written: None,
            past_wanted: true,
            newest_pod: None,
        }
    }

    /// Forgets which pods there are, to be told anew.
    pub(super) fn begin_assignment(&mut self) {
        self.pods = 0;
        self.profiles.clear();
        self.newest_pod = None;
        for measured in self.containers.values_mut() {
            (measured.live, measured.shaped) = (false, None);
        }
    }

    /// Takes one of its pods into account; the newest decides the profile and what containers ask for. One that is
    /// `over` says something only where no other does.
    pub(super) fn assign(
        &mut self,
        pod: &PodFacts,
        over: bool,
        by_pod: bool,
        owner: Option<Owner>,
        profile: &Arc<Profile>,
    ) {
        if !over {
            self.pods += 1;
            self.profiles.insert(profile.name.clone());
        }
        let created = if over { i64::MIN } else { pod.created };
        let age = (created, pod.name.clone());
        if self.newest_pod.as_ref().is_none_or(|newest| age > *newest) {
            self.newest_pod = Some(age);
            self.profile = Arc::clone(profile);
            self.by_pod = by_pod;
            if let Some(owner) = owner {
                self.owner = Some(owner);
            }
        }
        for shape in &pod.shape.containers {
            let slot = Slot { pod: by_pod.then(|| pod.name.clone()), container: shape.name.clone() };
            let measured = self.containers.entry(slot).or_default();
            measured.live |= !over;
            // Of several pods of one age it must be the same at each scan.
            let newest = measured.shaped.map_or(Ordering::Greater, |age| created.cmp(&age));
            if newest.then_with(|| Some(shape).cmp(&measured.shape.as_ref())) == Ordering::Greater {
                (measured.shaped, measured.shape) = (Some(created), Some(shape.clone()));
            }
        }
    }

    /// Whether the last assignment found no pod of it at all.
    pub(super) fn is_without_pods(&self) -> bool {
        self.newest_pod.is_none()
    }

    /// Goes over to the profile's model, if it is another than before. Whether the kind of memory samples
    /// changed with it.
    pub(super) fn adopt(&mut self, models: &mut Models) -> bool {
        // A profile without a usable model leaves the old one in force; its subjects say so in a condition.
        let Ok(index) = models.index_of(&self.profile) else { return false };
        if index == self.model {
            return false;
        }
        let (Some(old), Some(new)) = (models.get(self.model), models.get(index)) else { return false };
        for measured in self.containers.values_mut() {
            measured.aggregate.change_model(old, new);
            measured.resume = None;
        }
        self.model = index;
        self.changed = true;
        let resampled = old.memory_samples != new.memory_samples;
        if resampled {
            self.peaks.clear();
        }
        resampled
    }
}
