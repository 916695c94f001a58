//! Which pods are on which node.

use std::collections::HashMap;
use std::sync::Arc;

use crate::placement::estimate::Figures;
use crate::placement::pod::PlacedPod;
use crate::placement::pod::WorkloadKey;

/// All pods of the cluster, by node, and what decisions read of them without going through them all.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Whether all pods were listed, and are followed since.
    complete: bool,
    by_name: HashMap<Arc<str>, HashMap<Arc<str>, Arc<PlacedPod>>>,
    by_node: HashMap<Arc<str>, NodePods>,
    by_workload: HashMap<WorkloadKey, Replicas>,
    pending: usize,
}

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

    /// What its pods are expected to use that the load, whose newest sample is of `sampled`, does not show. `unseen` says
    /// which part of what began so many nanoseconds before the sample is missing in it; beyond `longest` nothing is.
    pub fn unseen(&self, sampled: i64, longest: i64, unseen: impl Fn(i64) -> f64) -> Figures {
        let since = sampled.saturating_sub(longest);
        let mut sum = Figures::default();
        for bound in self.bound.iter().rev().take_while(|bound| bound.at > since) {
            sum.add(bound.estimate, unseen(sampled.saturating_sub(bound.at).max(0)));
        }
        sum
    }

    fn add(&mut self, pod: &Arc<PlacedPod>) {
        self.pods.push(Arc::clone(pod));
        self.sum_up(pod, i128::saturating_add);
        if pod.bound > 0 {
            let bound = Bound::of(pod);
            let index = self.bound.partition_point(|known| known.at <= bound.at);
            self.bound.insert(index, bound);
        }
    }

    fn take(&mut self, pod: &Arc<PlacedPod>) {
        self.pods.retain(|known| !Arc::ptr_eq(known, pod));
        self.sum_up(pod, i128::saturating_sub);
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
        Self { at: pod.bound, estimate: pod.estimate, counts: pod.counts_as_binding() }
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
        let (namespace, name) = (Arc::clone(pod.namespace()), Arc::clone(&pod.name));
        let known = self.by_name.get(&namespace).and_then(|pods| pods.get(&name));
        if known.is_some_and(|known| **known == pod) {
            return;
        }
        self.take(&namespace, &name);
        let pod = Arc::new(pod);
        self.count(&pod);
        self.by_name.entry(namespace).or_default().insert(name, pod);
    }

    /// Forgets a pod; one of another uid by that name stays.
    pub fn remove(&mut self, namespace: &str, name: &str, uid: &str) {
        let known = self.pod(namespace, name);
        if known.is_some_and(|known| uid.is_empty() || known.uid.as_ref() == uid) {
            self.take(namespace, name);
        }
    }

    fn take(&mut self, namespace: &str, name: &str) {
        let Some(pods) = self.by_name.get_mut(namespace) else { return };
        let Some(pod) = pods.remove(name) else { return };
        if pods.is_empty() {
            self.by_name.remove(namespace);
        }
        if pod.terminal {
            return;
        }
        let Some(node) = &pod.node else {
            self.pending -= usize::from(is_pending(&pod));
            return;
        };
        if let Some(on) = self.by_node.get_mut(node) {
            on.take(&pod);
            if on.pods.is_empty() {
                self.by_node.remove(node);
            }
        }
        let key = &pod.shape.workload;
        if let Some(replicas) = self.by_workload.get_mut(key).filter(|_| !pod.terminating) {
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
        if pod.terminal {
            return;
        }
        let Some(node) = &pod.node else {
            self.pending += usize::from(is_pending(pod));
            return;
        };
        self.by_node.entry(Arc::clone(node)).or_default().add(pod);
        if !pod.terminating {
            let replicas = self.by_workload.entry(pod.shape.workload.clone()).or_default();
            replicas.pods += 1;
            replicas.ready += u32::from(pod.ready);
            *replicas.on.entry(Arc::clone(node)).or_default() += 1;
        }
    }

    /// The pods of a node; `None`: there are none.
    pub fn on(&self, node: &str) -> Option<&NodePods> {
        self.by_node.get(node)
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<PlacedPod>> {
        self.by_name.get(namespace)?.get(name)
    }

    /// All pods, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PlacedPod>> {
        self.by_name.values().flat_map(HashMap::values)
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.by_name.values().map(HashMap::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many pods wait for a node, and for nothing else.
    pub const fn pending(&self) -> usize {
        self.pending
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

/// Whether it waits for a node, and for nothing else.
const fn is_pending(pod: &PlacedPod) -> bool {
    !pod.gated && !pod.terminating
}
