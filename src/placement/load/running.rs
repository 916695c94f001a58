//! The pods that run, to be found by what sources call them.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_core::placement::{Placed, PlacedPod};
use plimsoll_core::pod::Json;

/// The pods that are bound and have not finished, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct RunningPods {
    pods: Vec<Arc<PlacedPod>>,
    by_name: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
}

impl RunningPods {
    pub(super) fn new(pods: Vec<Arc<PlacedPod>>) -> Self {
        let mut by_name: HashMap<Arc<str>, HashMap<Arc<str>, usize>> = HashMap::new();
        for (index, pod) in pods.iter().enumerate() {
            by_name.entry(Arc::clone(pod.namespace())).or_default().insert(Arc::clone(&pod.name), index);
        }
        Self { pods, by_name }
    }

    /// Those of the table. Nothing but pointers is copied: the table waits meanwhile.
    pub(super) fn of(placed: &Placed) -> Vec<Arc<PlacedPod>> {
        let runs = |pod: &&Arc<PlacedPod>| pod.node.is_some() && !pod.terminal;
        placed.pods().filter(runs).cloned().collect()
    }

    pub(super) fn all(&self) -> &[Arc<PlacedPod>] {
        &self.pods
    }

    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<&Arc<PlacedPod>> {
        self.pods.get(*self.by_name.get(namespace)?.get(name)?)
    }
}

/// The place of a container among those of its pod. What is told of the pod as a whole, its network above all, is the
/// first one's.
pub(super) fn container(pod: &PlacedPod, name: Option<&str>) -> Option<usize> {
    let containers = &pod.shape.containers;
    match name {
        Some(name) => containers.iter().position(|container| container.name.as_ref() == name),
        None => (!containers.is_empty()).then_some(0),
    }
}

/// Whether it uses the network of its node: what is measured of it is what all of the node's is.
pub(super) fn is_on_host_network(pod: &PlacedPod) -> bool {
    pod.shape.spec.0.get("hostNetwork") == Some(&Json::Bool(true))
}
