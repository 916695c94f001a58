//! What is kept over a restart, and how it is taken up again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::pod::Owner;
use crate::recommender::state::{Key, Recommender};
use crate::recommender::subject::{Measured, Slot, Subject};
use crate::usage::{Checkpoint, DAY, Model, Track};

/// The most lines of peaks that one checkpoint holds; each is at most some 250 bytes, and an object about 1 MiB.
const MOST_PEAKS: usize = 3000;

/// The content of a checkpoint, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// What it is about.
    pub key: Arc<Key>,
    /// The object that it goes with; none for a namespace.
    pub owner: Option<Owner>,
    /// Its containers.
    pub containers: Vec<ParkedContainer>,
    /// The memory peaks of containers that run: pod, container, and what [`Track::peaks`] gives.
    pub peaks: Vec<String>,
}

/// A container in a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedContainer {
    /// The pod, at granularity Pod.
    pub pod: Option<String>,
    /// The container's name.
    pub container: String,
    /// Its usage.
    pub checkpoint: Checkpoint,
}

/// A checkpoint that waits for the first pod of its workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parked {
    /// As stored.
    pub containers: Vec<ParkedContainer>,
    /// As stored.
    pub peaks: Vec<String>,
}

/// A checkpoint that cannot be used. Nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// What it is about.
    pub key: Arc<Key>,
    /// What is wrong with it, and where.
    pub message: String,
}

impl Subject {
    /// Takes up the content of a checkpoint, or nothing of it.
    pub(super) fn take_up(&mut self, key: &Arc<Key>, parked: Parked, model: &Model) -> Result<(), SetAside> {
        let set_aside = |message| SetAside { key: Arc::clone(key), message };
        let mut containers = BTreeMap::new();
        for (index, ParkedContainer { pod, container, checkpoint }) in
            parked.containers.into_iter().enumerate()
        {
            let aggregate = checkpoint
                .load(model)
                .map_err(|error| set_aside(format!("spec.containers[{index}] ({container}): {error}")))?;
            let resume = Some(Track::resumed(&aggregate));
            let slot = Slot { pod, container };
            let name = slot.container.clone();
            let measured = Measured { aggregate, resume, ..Measured::default() };
            if containers.insert(slot, measured).is_some() {
                return Err(set_aside(format!("spec.containers[{index}]: {name} is there twice")));
            }
        }
        let newest = containers.values().filter_map(|measured| measured.aggregate.last_time()).max();
        let mut all_peaks = HashMap::new();
        for (index, line) in parked.peaks.into_iter().enumerate() {
            let mut words = line.splitn(3, ' ');
            let (Some(pod), Some(container), Some(peaks)) = (words.next(), words.next(), words.next()) else {
                return Err(set_aside(format!("spec.peaks[{index}]: is not POD CONTAINER PEAKS")));
            };
            Track::default()
                .resume_peaks(peaks)
                .map_err(|message| set_aside(format!("spec.peaks[{index}]: {message}")))?;
            // Every sample after it would open a window of its own.
            if newest.is_none_or(|newest| end_of(peaks).is_none_or(|end| end - newest > DAY)) {
                let message = "the window is later than any sample can have opened it";
                return Err(set_aside(format!("spec.peaks[{index}]: {message}")));
            }
            all_peaks.insert((pod.to_owned(), container.to_owned()), peaks.to_owned());
        }
        self.peaks = all_peaks;
        self.containers = containers;
        self.past_wanted = false;
        Ok(())
    }
}

impl Subject {
    /// Gives up the peaks of windows that were over a day before a time: their pods were not seen again.
    pub(super) fn forget_old_peaks(&mut self, newest: i64) {
        self.peaks.retain(|_, text| end_of(text).is_some_and(|end| end > newest.saturating_sub(DAY)));
    }

    /// Whether a checkpoint of it holds anything.
    fn is_measured(&self) -> bool {
        self.containers.values().any(Measured::is_known)
    }
}

/// When the present window of what [`Track::peaks`] gave ends.
fn end_of(peaks: &str) -> Option<i64> {
    peaks.split_ascii_whitespace().next()?.parse().ok()
}

impl Measured {
    /// Whether anything was ever learnt of it, be it only that it was killed.
    pub(super) fn is_known(&self) -> bool {
        self.aggregate.last_time().is_some()
    }
}

impl Recommender {
    /// The workloads whose checkpoints are to be written now: of those that changed, the ones that were written
    /// longest ago, and so many that all have their turn within the interval.
    pub fn checkpoints_due(&self) -> Vec<Arc<Key>> {
        let mut changed: Vec<_> = self.unwritten().collect();
        changed.sort_by(|a, b| (a.1.written, a.0).cmp(&(b.1.written, b.0)));
        let scans = self.options.checkpoint_interval.div_euclid(self.options.scan_interval.max(1)).max(1);
        let scans = usize::try_from(scans).unwrap_or(usize::MAX);
        changed
            .into_iter()
            .take(self.subjects.len().div_ceil(scans))
            .map(|(key, _)| Arc::clone(key))
            .collect()
    }

    /// All workloads that changed since they were written, for the end.
    pub fn checkpoints_left(&self) -> Vec<Arc<Key>> {
        self.unwritten().map(|(key, _)| Arc::clone(key)).collect()
    }

    fn unwritten(&self) -> impl Iterator<Item = (&Arc<Key>, &Subject)> {
        self.subjects.iter().filter(|(_, subject)| subject.changed && subject.is_measured())
    }

    /// What the checkpoint of a workload is to hold; `None` for one that is not known, or of which nothing
    /// was learnt yet.
    pub fn checkpoint(&self, key: &Key) -> Option<Stored> {
        let (key, subject) = self.subjects.get_key_value(key)?;
        let model = self.models.get(subject.model)?;
        let containers: Vec<_> = subject
            .containers
            .iter()
            .filter(|(_, measured)| measured.is_known())
            .map(|(slot, measured)| ParkedContainer {
                pod: slot.pod.clone(),
                container: slot.container.clone(),
                checkpoint: Checkpoint::of(&measured.aggregate, model),
            })
            .collect();
        if containers.is_empty() {
            return None;
        }
        let pods = self.pods.get(&key.namespace).into_iter().flat_map(|pods| pods.values());
        let mut peaks: Vec<_> = pods
            .filter(|pod| pod.home.as_ref() == Some(key) && pod.gone.is_none())
            .flat_map(|pod| {
                pod.containers.iter().filter_map(|tracked| {
                    let peaks = tracked.track.peaks()?;
                    Some(format!("{} {} {peaks}", pod.facts.name, tracked.slot.container))
                })
            })
            .collect();
        // Loaded, and their pods have not been seen yet.
        let waiting = subject.peaks.iter();
        peaks.extend(waiting.map(|((pod, container), peaks)| format!("{pod} {container} {peaks}")));
        peaks.sort();
        peaks.truncate(MOST_PEAKS);
        Some(Stored { key: Arc::clone(key), owner: subject.owner.clone(), containers, peaks })
    }

    /// The checkpoint of a workload was written at `now`, in nanoseconds since 1970.
    pub fn checkpoint_written(&mut self, key: &Key, now: i64) {
        if let Some(subject) = self.subjects.get_mut(key) {
            subject.changed = false;
            subject.written = Some(now);
        }
    }
}
