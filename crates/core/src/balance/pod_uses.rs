//! What pods use, from what their containers use.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::balance::node::BalanceNode;
use crate::placement::{ContainerUse, Figures, NodeResource, Placed, PlacedPod, WorkloadKey};

/// Looks up what pods use. It is made for asking about the pods of one node after another: what containers of the node
/// that was asked about last use is kept.
#[derive(Debug)]
pub struct PodUses<'a> {
    containers: &'a [ContainerUse],
    nodes: &'a [BalanceNode<'a>],
    pods: &'a Placed,
    last: RefCell<OfNode>,
}

#[derive(Debug, Default)]
struct OfNode {
    node: Arc<str>,
    /// By `namespace/name`, and of how many containers.
    pods: HashMap<Arc<str>, (Figures, usize)>,
    /// Of one pod of a workload, where it is not said which pods they are.
    workloads: HashMap<WorkloadKey, Figures>,
    /// Those of which a container's CPU or memory is not known.
    partly_known: HashSet<Arc<str>>,
    partly_known_workloads: HashSet<WorkloadKey>,
}

impl<'a> PodUses<'a> {
    /// Of these containers, whose shares are those of these nodes.
    pub fn new(containers: &'a [ContainerUse], nodes: &'a [BalanceNode<'a>], pods: &'a Placed) -> Self {
        Self { containers, nodes, pods, last: RefCell::default() }
    }

    /// Cores and bytes; `None` unless both are known of all its containers.
    pub fn of(&self, pod: &PlacedPod) -> Option<Figures> {
        let node = pod.node.as_ref()?;
        let mut last = self.last.borrow_mut();
        if last.node != *node {
            *last = self.of_node(node);
        }
        let name = format!("{}/{}", pod.namespace(), pod.name);
        if last.partly_known.contains(name.as_str()) {
            return None;
        }
        match last.pods.get(name.as_str()) {
            // Of the others nothing was measured at all.
            Some((_, containers)) if *containers < pod.shape.containers.len() => None,
            Some((uses, _)) => Some(*uses),
            None => last.workloads.get(&pod.shape.workload).copied(),
        }
    }

    fn of_node(&self, node: &Arc<str>) -> OfNode {
        let mut found = OfNode { node: Arc::clone(node), ..OfNode::default() };
        let whole = self.nodes.iter().find(|known| known.name() == node.as_ref());
        let Some(whole) = whole.and_then(BalanceNode::capacity) else { return found };
        for container in self.containers.iter().filter(|container| container.node == *node) {
            let [cpu, memory] = [NodeResource::Cpu, NodeResource::Memory].map(|r| container.local.get(r));
            let share =
                |share: Option<f64>| share.filter(|share| share.is_finite()).map(|s| s.clamp(0.0, 1.0));
            let (Some(cpu), Some(memory)) = (share(cpu), share(memory)) else {
                // Half of what it uses would be taken for all of it.
                if container.pod.is_empty() {
                    found.partly_known_workloads.insert(container.workload.clone());
                } else {
                    found.partly_known.insert(Arc::clone(&container.pod));
                }
                continue;
            };
            let uses = Figures { cpu: cpu * whole.cpu, memory: memory * whole.memory };
            if container.pod.is_empty() {
                let replicas = self.pods.replicas(&container.workload).and_then(|on| on.get(node)).copied();
                let of_one = 1.0 / f64::from(replicas.unwrap_or(1).max(1));
                found.workloads.entry(container.workload.clone()).or_default().add(uses, of_one);
            } else {
                let (sum, containers) = found.pods.entry(Arc::clone(&container.pod)).or_default();
                sum.add(uses, 1.0);
                *containers += 1;
            }
        }
        found.workloads.retain(|workload, _| !found.partly_known_workloads.contains(workload));
        found
    }
}
