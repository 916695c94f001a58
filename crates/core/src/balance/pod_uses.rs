//! What pods use, from what their containers use.

use std::cell::RefCell;
use std::collections::HashMap;
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
    /// By `namespace/name`.
    pods: HashMap<Arc<str>, Figures>,
    /// Of one pod of a workload, where it is not said which pods they are.
    workloads: HashMap<WorkloadKey, Figures>,
}

impl<'a> PodUses<'a> {
    /// Of these containers, whose shares are those of these nodes.
    pub fn new(containers: &'a [ContainerUse], nodes: &'a [BalanceNode<'a>], pods: &'a Placed) -> Self {
        Self { containers, nodes, pods, last: RefCell::default() }
    }

    /// Cores and bytes; `None` if nobody knows.
    pub fn of(&self, pod: &PlacedPod) -> Option<Figures> {
        let node = pod.node.as_ref()?;
        let mut last = self.last.borrow_mut();
        if last.node != *node {
            *last = self.of_node(node);
        }
        let name = format!("{}/{}", pod.namespace(), pod.name);
        last.pods.get(name.as_str()).or_else(|| last.workloads.get(&pod.shape.workload)).copied()
    }

    fn of_node(&self, node: &Arc<str>) -> OfNode {
        let mut found = OfNode { node: Arc::clone(node), ..OfNode::default() };
        let whole = self.nodes.iter().find(|known| known.name() == node.as_ref());
        let Some(whole) = whole.and_then(BalanceNode::capacity) else { return found };
        for container in self.containers.iter().filter(|container| container.node == *node) {
            let [cpu, memory] = [NodeResource::Cpu, NodeResource::Memory].map(|r| container.local.get(r));
            if cpu.is_none() && memory.is_none() {
                continue;
            }
            let share =
                |share: Option<f64>| share.filter(|share| share.is_finite()).unwrap_or(0.0).clamp(0.0, 1.0);
            let uses = Figures { cpu: share(cpu) * whole.cpu, memory: share(memory) * whole.memory };
            if container.pod.is_empty() {
                let replicas = self.pods.replicas(&container.workload).and_then(|on| on.get(node)).copied();
                let of_one = 1.0 / f64::from(replicas.unwrap_or(1).max(1));
                found.workloads.entry(container.workload.clone()).or_default().add(uses, of_one);
            } else {
                found.pods.entry(Arc::clone(&container.pod)).or_default().add(uses, 1.0);
            }
        }
        found
    }
}
