//! Usage of the past, from a source that remembers it: also of pods that are gone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::recommender::state::{Key, Recommender, Sample};
use crate::recommender::subject::Slot;
use crate::usage::{Track, Usage};

/// The letters that Kubernetes makes random parts of names from.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// What must be remembered of pods of the past while it is read.
#[derive(Debug, Default)]
pub struct PastPods {
    /// By namespace, pod and container.
    tracks: HashMap<(String, String, String), Past>,
}

/// A container of the past.
#[derive(Debug)]
struct Past {
    /// Where its usage goes, if that is known.
    key: Option<Arc<Key>>,
    track: Track,
}

impl Recommender {
    /// The namespaces that hold workloads of which no checkpoint was loaded and no past was read.
    pub fn namespaces_without_past(&self) -> Vec<String> {
        let wanted = self.subjects.iter().filter(|(_, subject)| subject.past_wanted);
        let names: BTreeSet<_> = wanted.map(|(key, _)| key.namespace.clone()).collect();
        names.into_iter().collect()
    }

    /// Takes a sample of the past, for workloads that have none yet. Pods that are gone are known by their names.
    /// `now` is the clock in nanoseconds since 1970.
    pub fn observe_past(&mut self, pods: &mut PastPods, sample: &Sample<'_>, now: i64) {
        if self.pods.get(sample.namespace).is_some_and(|pods| pods.contains_key(sample.pod)) {
            self.observe_past_of_known(sample, now);
            return;
        }
        let name = (sample.namespace.to_owned(), sample.pod.to_owned(), sample.container.to_owned());
        let found = pods.tracks.entry(name).or_insert_with(|| Past {
            key: self.past_subject(sample.namespace, sample.pod),
            track: Track::default(),
        });
        let Past { key: Some(key), track } = found else {
            self.counts.unknown += 1;
            return;
        };
        let Some(subject) = self.subjects.get_mut(&**key).filter(|subject| subject.past_wanted) else {
            return;
        };
        let slot = Slot {
            pod: subject.by_pod.then(|| sample.pod.to_owned()),
            container: sample.container.to_owned(),
        };
        // A container that no pod has any more would never be asked for.
        let Some(measured) = subject.containers.get_mut(&slot) else {
            self.counts.unknown += 1;
            return;
        };
        let Some((model, scan)) = self.models.scan(subject.model, sample.nanos) else { return };
        let request = measured.shape.as_ref().and_then(super::fold::original_cpu);
        let usage = Usage { cpu: sample.cpu, memory: sample.memory, cpu_request: request };
        let dropped = &mut self.counts.dropped;
        if measured.aggregate.observe(track, model, &scan, usage, Some(now), dropped) {
            self.counts.accepted += 1;
            subject.changed = true;
            self.newest = Some(self.newest.map_or(sample.nanos, |newest| newest.max(sample.nanos)));
        }
    }

    fn observe_past_of_known(&mut self, sample: &Sample<'_>, now: i64) {
        let pod = self.pods.get(sample.namespace).and_then(|pods| pods.get(sample.pod));
        let home = pod.and_then(|pod| pod.home.as_ref());
        let wanted =
            home.and_then(|home| self.subjects.get(&**home)).is_some_and(|subject| subject.past_wanted);
        if wanted {
            self.observe(sample, now);
        }
    }

    fn past_subject(&self, namespace: &str, pod: &str) -> Option<Arc<Key>> {
        let keys = self.subjects.keys().filter(|key| key.namespace == namespace);
        let keys: Vec<_> = keys.collect();
        let workloads = keys.iter().map(|key| (key.workload.kind.as_str(), key.workload.name.as_str()));
        workload_of_pod_name(pod, workloads).and_then(|index| keys.get(index).map(|key| Arc::clone(key)))
    }

    /// The past of these namespaces was read.
    pub fn past_was_read(&mut self, namespaces: &[String]) {
        for (key, subject) in &mut self.subjects {
            if namespaces.contains(&key.namespace) {
                subject.past_wanted = false;
            }
        }
    }
}

/// Which of some workloads (kind and name) a pod belongs to, by its name alone; the longest name that fits. Names
/// that could have been given by hand, or fit two workloads equally well, belong to none.
pub fn workload_of_pod_name<'a>(
    pod: &str,
    workloads: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    let mut tie = false;
    for (index, (kind, name)) in workloads.into_iter().enumerate() {
        let Some(rest) = pod.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')) else { continue };
        if !is_suffix(kind, rest) {
            continue;
        }
        match best {
            Some((length, _)) if length > name.len() => {}
            Some((length, _)) if length == name.len() => tie = true,
            _ => (best, tie) = (Some((name.len(), index)), false),
        }
    }
    best.filter(|_| !tie).map(|(_, index)| index)
}

/// Whether pods of a workload of this kind have names that end so, after the workload's name and a dash.
pub(super) fn is_suffix(kind: &str, rest: &str) -> bool {
    let random =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| SAFE.contains(&byte));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match kind {
        "StatefulSet" => digits(rest),
        // The hash of a template has up to 10 of the same letters.
        "Deployment" | "Rollout" => rest.split_once('-').is_some_and(|(hash, pod)| {
            (1..=10).contains(&hash.len()) && random(hash, hash.len()) && random(pod, 5)
        }),
        // The minute the job is due, as a number.
        "CronJob" => rest.split_once('-').is_some_and(|(minute, pod)| digits(minute) && random(pod, 5)),
        "Pod" | "Namespace" => false,
        _ => random(rest, 5),
    }
}
