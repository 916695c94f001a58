//! Which pods are on which node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::placement::answered::Answered;
use crate::placement::estimate::Figures;
use crate::placement::pod::WorkloadKey;
use crate::placement::pod::{Incoming, PlacedPod};
use crate::placement::settings::LoadSettings;

const SECOND: i64 = 1_000_000_000;

/// All pods of the cluster, by node, and what decisions read of them without going through them all.
///
/// A clone shares its parts with the original, and is made in a moment: whoever needs the table for long takes one.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Whether all pods were listed, and are followed since.
    complete: bool,
    by_name: HashMap<Arc<str>, Arc<ByName>>,
    by_node: HashMap<Arc<str>, Arc<NodePods>>,
    by_workload: HashMap<WorkloadKey, Arc<Replicas>>,
    /// Those that wait for a node, by the time of their creation.
    pending: BTreeSet<(i64, Arc<str>, Arc<str>)>,
    /// Those that are to be bound, and were not seen so yet.
    answered: Arc<Answered>,
}

/// The pods of a namespace.
type ByName = HashMap<Arc<str>, Arc<PlacedPod>>;

/// The pods of a node.
#[derive(Clone, Debug, Default)]
pub struct NodePods {
    pods: Vec<Arc<PlacedPod>>,
    /// Oldest first.
    bound: Vec<Bound>,
    /// Sums of what the pods request of CPU and memory, in nano-units.
    requests: [i128; 2],
    /// Sums of their limits.
    limits: [i128; 2],
}

/// A pod that was bound to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    at: i64,
    estimate: Figures,
    /// Whether it counts for hot spots.
    counts: bool,
}

/// The pods of a workload that are neither terminating nor finished.
#[derive(Clone, Debug, Default)]
struct Replicas {
    on: HashMap<Arc<str>, u32>,
    pods: u32,
    ready: u32,
}

impl NodePods {
    /// The pods; also those that end, but not those that have finished.
    pub fn pods(&self) -> &[Arc<PlacedPod>] {
        &self.pods
    }

    /// The sums of requests of CPU and memory, in nano-units.
    pub const fn requests(&self) -> [i128; 2] {
        self.requests
    }

    /// The sums of limits of CPU and memory, in nano-units; what has no limit counts its request.
    pub const fn limits(&self) -> [i128; 2] {
        self.limits
    }

    /// How many pods were bound in the time `(now - window, now]`, both in nanoseconds. A binding that a clock that is
    /// ahead puts into the future counts too.
    pub fn bindings(&self, now: i64, window: i64) -> u32 {
        let since = now.saturating_sub(window);
        let recent = self.bound.iter().rev().take_while(|bound| bound.at > since);
        u32::try_from(recent.filter(|bound| bound.counts).count()).unwrap_or(u32::MAX)
    }

    /// What its pods are expected to use and the load, whose newest sample is of `sampled`, does not show yet: all of what
    /// was bound after that sample, and 1 - t/L of what was bound t before it, with L the length of the shortest window. The
    /// longer windows do not show it for hours, but by then it is measured, and an estimate is no better than that.
    pub fn unseen(&self, sampled: i64, settings: &LoadSettings) -> Figures {
        let shortest = settings.windows.iter().map(|window| window.seconds).min().unwrap_or(0);
        let shortest = shortest.max(1).saturating_mul(SECOND);
        let since = sampled.saturating_sub(shortest);
        let mut sum = Figures::default();
        for bound in self.bound.iter().rev().take_while(|bound| bound.at > since) {
            let age = sampled.saturating_sub(bound.at).clamp(0, shortest);
            #[expect(clippy::cast_precision_loss, reason = "a part of some minutes needs no nanoseconds")]
            let shown = age as f64 / shortest as f64;
            sum.add(bound.estimate, 1.0 - shown);
        }
        sum
    }

    fn add(&mut self, pod: &Arc<PlacedPod>) {
        if !pod.terminal {
            self.pods.push(Arc::clone(pod));
            self.sum_up(pod, i128::saturating_add);
        }
        if pod.bound > 0 {
            let bound = Bound::of(pod);
            let index = self.bound.partition_point(|known| known.at <= bound.at);
            self.bound.insert(index, bound);
        }
    }

    fn take(&mut self, pod: &Arc<PlacedPod>) {
        if !pod.terminal {
            self.pods.retain(|known| !Arc::ptr_eq(known, pod));
            self.sum_up(pod, i128::saturating_sub);
        }
        let gone = Bound::of(pod);
        if let Some(index) = self.bound.iter().position(|bound| *bound == gone) {
            self.bound.remove(index);
        }
    }

    fn sum_up(&mut self, pod: &PlacedPod, add: impl Fn(i128, i128) -> i128) {
        let requests = ["cpu", "memory"].map(|name| pod.shape.requests.of(name));
        for (sums, values) in [(&mut self.requests, requests), (&mut self.limits, pod.shape.limits)] {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = add(*sum, value);
            }
        }
    }
}

impl Bound {
    fn of(pod: &PlacedPod) -> Self {
        // One that has finished was bound all the same, but uses nothing any more.
        let estimate = if pod.terminal { Figures::default() } else { pod.estimate };
        Self { at: pod.bound, estimate, counts: pod.counts_as_binding() }
    }
}

impl Placed {
    /// All pods there are, after a list.
    pub fn listed(pods: impl IntoIterator<Item = PlacedPod>) -> Self {
        let mut placed = Self { complete: true, ..Self::default() };
        for pod in pods {
            placed.put(pod);
        }
        placed
    }

    /// Whether all pods were listed, and are followed since.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Adds a pod, or replaces what was known of it.
    pub fn put(&mut self, pod: PlacedPod) {
        if !is_open(&pod) {
            self.forget_answer(&pod.uid);
        }
        let (namespace, name) = (Arc::clone(pod.namespace()), Arc::clone(&pod.name));
        let known = self.by_name.get(&namespace).and_then(|pods| pods.get(&name));
        if known.is_some_and(|known| **known == pod) {
            return;
        }
        self.take(&namespace, &name);
        let pod = Arc::new(pod);
        self.count(&pod);
        Arc::make_mut(self.by_name.entry(namespace).or_default()).insert(name, pod);
    }

    /// Forgets a pod; one of another uid by that name stays.
    pub fn remove(&mut self, namespace: &str, name: &str, uid: &str) {
        let known = self.pod(namespace, name).map(|known| Arc::clone(&known.uid));
        self.forget_answer(if uid.is_empty() { known.as_deref().unwrap_or_default() } else { uid });
        if known.is_some_and(|known| uid.is_empty() || known.as_ref() == uid) {
            self.take(namespace, name);
        }
    }

    /// Notes that a scheduler was told `node` for a pod, at `now`; see [`Answered`]. A pod that is bound, or about to go,
    /// is not expected anywhere.
    pub fn note_answer(&mut self, pod: &Incoming, node: &str, now: i64) {
        let known = self.pod(&pod.shape.workload.namespace, &pod.name);
        if known.is_none_or(|known| known.uid != pod.uid || is_open(known)) {
            Arc::make_mut(&mut self.answered).note(pod, node, now);
        }
    }

    /// Takes over what was answered before the pods were listed anew. A pod that neither the list has nor was known before
    /// stays expected: the list may be older than it.
    pub fn keep_answers(&mut self, before: &Self) {
        let mut answered = Answered::clone(&before.answered);
        answered.retain(|namespace, name, uid| {
            let of = |table: &Self| table.pod(namespace, name).filter(|pod| pod.uid.as_ref() == uid).cloned();
            of(self).map_or_else(|| of(before).is_none(), |pod| is_open(&pod))
        });
        self.answered = Arc::new(answered);
    }

    /// What schedulers were told, and is not seen yet.
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    fn forget_answer(&mut self, uid: &str) {
        if self.answered.is_of(uid) {
            Arc::make_mut(&mut self.answered).forget(uid);
        }
    }

    fn take(&mut self, namespace: &str, name: &str) {
        let Some(pods) = self.by_name.get_mut(namespace) else { return };
        let pods = Arc::make_mut(pods);
        let Some(pod) = pods.remove(name) else { return };
        if pods.is_empty() {
            self.by_name.remove(namespace);
        }
        let Some(node) = &pod.node else {
            if is_pending(&pod) {
                self.pending.remove(&pending_key(&pod));
            }
            return;
        };
        if let Some(on) = self.by_node.get_mut(node) {
            let on = Arc::make_mut(on);
            on.take(&pod);
            if on.pods.is_empty() && on.bound.is_empty() {
                self.by_node.remove(node);
            }
        }
        let key = &pod.shape.workload;
        if let Some(replicas) = self.by_workload.get_mut(key).filter(|_| pod.runs()) {
            let replicas = Arc::make_mut(replicas);
            replicas.pods -= 1;
            replicas.ready -= u32::from(pod.ready);
            if let Some(count) = replicas.on.get_mut(node) {
                *count -= 1;
                if *count == 0 {
                    replicas.on.remove(node);
                }
            }
            if replicas.pods == 0 {
                self.by_workload.remove(key);
            }
        }
    }

    fn count(&mut self, pod: &Arc<PlacedPod>) {
        let Some(node) = &pod.node else {
            if is_pending(pod) {
                self.pending.insert(pending_key(pod));
            }
            return;
        };
        Arc::make_mut(self.by_node.entry(Arc::clone(node)).or_default()).add(pod);
        if pod.runs() {
            let replicas = Arc::make_mut(self.by_workload.entry(pod.shape.workload.clone()).or_default());
            replicas.pods += 1;
            replicas.ready += u32::from(pod.ready);
            *replicas.on.entry(Arc::clone(node)).or_default() += 1;
        }
    }

    /// The pods of a node; `None`: there are none.
    pub fn on(&self, node: &str) -> Option<&NodePods> {
        self.by_node.get(node).map(AsRef::as_ref)
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<PlacedPod>> {
        self.by_name.get(namespace)?.get(name)
    }

    /// All pods, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PlacedPod>> {
        self.by_name.values().flat_map(|pods| pods.values())
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.by_name.values().map(|pods| pods.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many pods wait for a node, and for nothing else.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// How many of them were created after `since`, in nanoseconds since 1970; counted up to `most`.
    pub fn pending_since(&self, since: i64, most: usize) -> usize {
        self.pending.iter().rev().take(most).take_while(|(created, ..)| *created > since).count()
    }

    /// How many pods of a workload, neither terminating nor finished, are on each node; `None`: it has none.
    pub fn replicas(&self, workload: &WorkloadKey) -> Option<&HashMap<Arc<str>, u32>> {
        self.by_workload.get(workload).map(|replicas| &replicas.on)
    }

    /// How many pods of a workload are ready, and neither terminating nor finished.
    pub fn ready(&self, workload: &WorkloadKey) -> u32 {
        self.by_workload.get(workload).map_or(0, |replicas| replicas.ready)
    }
}

/// Whether it may still be bound.
const fn is_open(pod: &PlacedPod) -> bool {
    pod.node.is_none() && !pod.terminating && !pod.terminal
}

/// Whether it waits for a node, and for nothing else.
const fn is_pending(pod: &PlacedPod) -> bool {
    !pod.gated && !pod.terminating && !pod.terminal
}

fn pending_key(pod: &PlacedPod) -> (i64, Arc<str>, Arc<str>) {
    (pod.created, Arc::clone(pod.namespace()), Arc::clone(&pod.name))
}
