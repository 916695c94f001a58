//! From samples and kills to histograms.

use std::collections::HashMap;

use crate::recommender::pods::{ContainerShape, Kill, PodShape};
use crate::recommender::state::{Pod, Recommender, Sample};
use crate::resource::UNIT;
use crate::usage::{AHEAD, Oom, Usage};

/// For how many scans a pod that is gone is remembered.
const LAST_SCANS: u8 = 2;

impl Recommender {
    /// Takes a sample. `now` is the clock in nanoseconds since 1970.
    pub fn observe(&mut self, sample: &Sample<'_>, now: i64) {
        let Some(pod) = self.pods.get_mut(sample.namespace).and_then(|pods| pods.get_mut(sample.pod)) else {
            // The samples of other shards are none of ours.
            self.counts.unknown += u64::from(self.covers(sample.namespace));
            return;
        };
        if !pod.facts.running {
            self.counts.not_running += 1;
            return;
        }
        let Some(home) = &pod.home else {
            self.counts.unmatched += 1;
            return;
        };
        let tracked = pod.containers.iter_mut().find(|tracked| tracked.slot.container == sample.container);
        let subject = self.subjects.get_mut(&**home);
        let (Some(tracked), Some(subject)) = (tracked, subject) else {
            self.counts.unknown += 1;
            return;
        };
        let Some(measured) = subject.containers.get_mut(&tracked.slot) else {
            self.counts.unknown += 1;
            return;
        };
        let Some((model, scan)) = self.models.scan(subject.model, sample.nanos) else { return };
        let shape = pod.facts.shape.containers.iter().find(|shape| shape.name == sample.container);
        let usage =
            Usage { cpu: sample.cpu, memory: sample.memory, cpu_request: shape.and_then(original_cpu) };
        let dropped = &mut self.counts.dropped;
        if measured.aggregate.observe(&mut tracked.track, model, &scan, usage, Some(now), dropped) {
            self.counts.accepted += 1;
            subject.changed = true;
            self.newest = Some(self.newest.map_or(sample.nanos, |newest| newest.max(sample.nanos)));
        }
    }

    /// Takes the kills for memory that statuses tell of and that were not seen before.
    pub fn take_kills(&mut self, now: i64) {
        for pod in self.pods.values_mut().flat_map(HashMap::values_mut).filter(|pod| pod.news) {
            let Some(home) = &pod.home else { continue };
            pod.news = false;
            let Some(subject) = self.subjects.get_mut(&**home) else {
                pod.news = true;
                continue;
            };
            let Some(model) = self.models.get(subject.model) else { continue };
            let own = |kill: &Kill| (kill.clone(), memory_request(&pod.facts.shape, &kill.container), false);
            let inherited = std::mem::take(&mut pod.inherited).into_iter();
            let mut kills: Vec<_> = inherited.map(|(kill, request)| (kill, request, true)).collect();
            kills.extend(pod.facts.kills.iter().map(own));
            kills.sort_by_key(|(kill, ..)| kill.nanos);
            for (kill, request, inherited) in kills {
                let mut later = |kill: &Kill| {
                    pod.news = true;
                    if inherited {
                        pod.inherited.push((kill.clone(), request));
                    }
                };
                if kill.nanos > now.saturating_add(AHEAD) {
                    // A clock that is ahead now may be right at the next scan.
                    later(&kill);
                    continue;
                }
                let tracked =
                    pod.containers.iter_mut().find(|tracked| tracked.slot.container == kill.container);
                let Some(tracked) = tracked else { continue };
                let Some(measured) = subject.containers.get_mut(&tracked.slot) else {
                    // It was collected; the next assignment makes it anew.
                    later(&kill);
                    continue;
                };
                let oom = Oom { nanos: kill.nanos, request };
                // The statuses show a kill until the next one: what is known already is no loss.
                let mut repeated = crate::usage::Dropped::default();
                let track = &mut tracked.track;
                if measured.aggregate.observe_oom(track, model, oom, Some(now), &mut repeated) {
                    self.counts.kills += 1;
                    subject.changed = true;
                }
            }
        }
    }

    /// Ends a scan: pods that are gone for long enough are forgotten, and so is usage that is too old. The age is
    /// counted from the newest sample, not from the clock: neither a source that is away nor a clock that jumps makes
    /// anything old.
    pub fn end_scan(&mut self, now: i64) {
        for pods in self.pods.values_mut() {
            pods.retain(|_, pod| pod.lasts());
        }
        self.pods.retain(|_, pods| !pods.is_empty());
        self.forget_shapes();
        let Some(newest) = self.newest.map(|newest| newest.min(now)) else { return };
        for subject in self.subjects.values_mut() {
            subject.forget_old_peaks(newest);
            let most = subject.profile.dynamic.maximum_age.saturating_mul(1_000_000_000);
            subject.containers.retain(|_, measured| {
                let last = measured.aggregate.last_time();
                let young = last.is_some_and(|last| newest.saturating_sub(last) < most);
                measured.live || young
            });
        }
        self.subjects.retain(|_, subject| subject.pods > 0 || !subject.containers.is_empty());
    }
}

impl Pod {
    /// One scan later: whether it is remembered still.
    fn lasts(&mut self) -> bool {
        match &mut self.gone {
            None => true,
            Some(scans) => {
                *scans += 1;
                *scans <= LAST_SCANS
            }
        }
    }
}

/// The CPU request that the pod's author wrote, in cores.
pub(super) fn original_cpu(shape: &ContainerShape) -> Option<f64> {
    shape.cpu.map(|cpu| units(cpu.original))
}

/// The memory request in force of a container, in bytes; 0 without one.
pub(super) fn memory_request(shape: &PodShape, container: &str) -> f64 {
    let shape = shape.containers.iter().find(|shape| shape.name == container);
    shape.and_then(|shape| shape.memory).map_or(0.0, |memory| units(memory.request))
}

#[expect(clippy::cast_precision_loss, reason = "a weight is needed to a few digits")]
fn units(nanos: i128) -> f64 {
    nanos as f64 / UNIT as f64
}
