//! Whose a pod is, and which profile it falls under.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::admission::AbsentNamespace;
use crate::keys;
use crate::objects::{Namespace, Objects, OwnerLookup};
use crate::pod::{Owner, Workload, topmost_controller};
use crate::profile::{Candidate, Granularity, Mode, Profile};
use crate::recommender::checkpoint::SetAside;
use crate::recommender::pods::PodFacts;
use crate::recommender::state::{Key, Pod, Recommender, Tracked};
use crate::recommender::subject::{Slot, Subject};
use crate::usage::Track;

impl Recommender {
    /// Finds out whose each pod is and which profile it falls under; at the start of each scan, as pods, owners,
    /// namespaces and profiles change. Checkpoints of workloads that are seen for the first time are taken up;
    /// those that cannot be are returned.
    pub fn assign(&mut self, objects: &Objects) -> Vec<SetAside> {
        let mut set_aside = Vec::new();
        self.subjects.values_mut().for_each(Subject::begin_assignment);
        let unlabelled = Namespace::default();
        let absent = match self.options.absent_namespace {
            AbsentNamespace::Unknown => None,
            AbsentNamespace::Exists => Some(&unlabelled),
        };
        let Self { pods, subjects, parked, models, .. } = self;
        for (namespace, pods) in &mut *pods {
            let labels = objects.namespace(namespace).map(Arc::as_ref).or(absent);
            // A pod that came and went since the last scan may tell of a kill.
            for pod in pods.values_mut().filter(|pod| pod.gone.is_none() || pod.remembers.is_none()) {
                let Some(found) = labels.and_then(|labels| find(&pod.facts, labels, objects)) else {
                    pod.home = None;
                    continue;
                };
                let key = pod.key_of(namespace, &found);
                if !subjects.contains_key(&*key) {
                    let Ok(model) = models.index_of(&found.profile) else {
                        pod.home = None;
                        continue;
                    };
                    let mut subject = Subject::new(Arc::clone(&found.profile), model);
                    if let Some(parked) = parked.remove(&*key) {
                        let model = models.get(model);
                        set_aside.extend(model.and_then(|model| subject.take_up(&key, parked, model).err()));
                    }
                    subjects.insert(Arc::clone(&key), subject);
                }
                let Some(subject) = subjects.get_mut(&*key) else { continue };
                let owner = (key.workload.kind != NAMESPACE).then_some(found.owner);
                let over = pod.facts.ended || pod.gone.is_some();
                subject.assign(&pod.facts, over, found.by_pod, owner, &found.profile);
                pod.settle(key, found.by_pod, subject);
            }
        }
        for subject in subjects.values_mut().filter(|subject| subject.is_without_pods()) {
            // Nobody has said which profile its next pod will match; the one before may have changed.
            let mut profiles = objects.profiles().iter();
            if let Some(profile) = profiles.find(|profile| profile.name == subject.profile.name) {
                subject.profile = Arc::clone(profile);
            }
        }
        let resampled: HashSet<Arc<Key>> = subjects
            .iter_mut()
            .filter_map(|(key, subject)| subject.adopt(models).then(|| Arc::clone(key)))
            .collect();
        if !resampled.is_empty() {
            for pod in pods.values_mut().flat_map(HashMap::values_mut) {
                if pod.remembers.as_ref().is_some_and(|key| resampled.contains(key)) {
                    pod.containers.iter_mut().for_each(|tracked| tracked.track.forget_peaks());
                }
            }
        }
        set_aside
    }
}

/// The kind of the target that stands for a whole namespace.
pub(super) const NAMESPACE: &str = "Namespace";

/// Where a pod belongs.
struct Found {
    owner: Owner,
    profile: Arc<Profile>,
    by_pod: bool,
}

/// `None` where nothing is recommended for the pod, or its owner is not known yet.
fn find(pod: &PodFacts, namespace: &Namespace, objects: &Objects) -> Option<Found> {
    let owner = match &pod.controller {
        None => Owner {
            workload: Workload { group: String::new(), kind: "Pod".to_owned(), name: pod.name.clone() },
            api_version: "v1".to_owned(),
            uid: pod.uid.clone(),
        },
        Some(controller) => {
            let workload = &controller.workload;
            let is_passed_over = matches!(
                (workload.group.as_str(), workload.kind.as_str()),
                ("apps", "ReplicaSet") | ("batch", "Job")
            );
            // Whose it is will be known at a next scan; its own name must not get a recommendation meanwhile.
            if is_passed_over
                && objects.owner_of(&workload.kind, &pod.namespace, &workload.name) == OwnerLookup::Unknown
            {
                return None;
            }
            // Static pods are not created through the API server: nobody can lower them.
            if workload.group.is_empty() && workload.kind == "Node" {
                return None;
            }
            let hash = pod.shape.labels.get(keys::POD_TEMPLATE_HASH).map(String::as_str);
            topmost_controller(controller, hash, &pod.namespace, objects)
        }
    };
    let label = |key: &str| pod.shape.labels.get(key).map(String::as_str);
    let pool = namespace.labels.get(keys::POOL).map(String::as_str);
    let profile = objects.profiles().find(&Candidate {
        namespace_labels: &namespace.labels,
        labels: &pod.shape.labels,
        pool: pool.or_else(|| label(keys::POOL)).or(pod.shape.selected_pool.as_deref()),
        workload_kind: &owner.workload.kind,
    })?;
    if !is_dynamic(profile) {
        return None;
    }
    let by_pod = profile.dynamic.granularity == Granularity::Pod && has_stable_pod_names(&owner.workload);
    Some(Found { profile: Arc::clone(profile), owner, by_pod })
}

/// Whether a profile asks for recommendations.
pub(super) const fn is_dynamic(profile: &Profile) -> bool {
    matches!(profile.mode, Mode::Dynamic | Mode::StaticThenDynamic)
}

/// Whether the names of a workload's pods are known before they are created. Pods of others could not be told
/// apart at admission; at granularity Pod they share the recommendation of their workload. (A bare pod is its own
/// workload.)
pub(super) fn has_stable_pod_names(workload: &Workload) -> bool {
    workload.kind == "StatefulSet"
}

impl Pod {
    /// What the pod's usage is counted to; without a copy where that is as before.
    fn key_of(&self, namespace: &str, found: &Found) -> Arc<Key> {
        let is_namespace = found.profile.dynamic.granularity == Granularity::Namespace;
        let same = |key: &Key| {
            if is_namespace { key.workload.kind == NAMESPACE } else { key.workload == found.owner.workload }
        };
        if let Some(home) = self.home.as_ref().filter(|home| same(home)) {
            return Arc::clone(home);
        }
        let workload = if is_namespace {
            Workload { group: String::new(), kind: NAMESPACE.to_owned(), name: namespace.to_owned() }
        } else {
            found.owner.workload.clone()
        };
        Arc::new(Key { namespace: namespace.to_owned(), workload })
    }

    /// Lets its usage go to a subject from now on. What is remembered of a container stays while its usage goes
    /// where it went.
    fn settle(&mut self, home: Arc<Key>, by_pod: bool, subject: &mut Subject) {
        let stays = self.remembers.as_ref() == Some(&home);
        let mut before = std::mem::take(&mut self.containers);
        if !stays {
            before.clear();
        }
        for shape in &self.facts.shape.containers {
            let slot = Slot { pod: by_pod.then(|| self.facts.name.clone()), container: shape.name.clone() };
            let known = before.iter().position(|tracked| tracked.slot == slot);
            let tracked = known.map(|at| before.swap_remove(at));
            self.containers.push(tracked.unwrap_or_else(|| {
                let track = new_track(subject, &self.facts.name, &slot);
                Tracked { slot, track }
            }));
        }
        self.remembers = Some(Arc::clone(&home));
        self.home = Some(home);
    }
}

/// What is remembered of a container that is seen for the first time: what a checkpoint holds of it, if there is one.
fn new_track(subject: &mut Subject, pod: &str, slot: &Slot) -> Track {
    let measured = subject.containers.get(slot);
    let mut track = measured.and_then(|measured| measured.resume.clone()).unwrap_or_default();
    if let Some(peaks) = subject.peaks.remove(&(pod.to_owned(), slot.container.clone())) {
        // They were checked when they were loaded.
        let _ = track.resume_peaks(&peaks);
    }
    track
}
