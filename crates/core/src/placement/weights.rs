//! Weights that are a workload's own: by what it uses, a node is good for it or not.
//!
//! From "Research on container cloud scheduling by workload-specific weights": with the share of each resource of the whole
//! cluster that a workload uses, normalised, as the weight of that resource.

use std::collections::HashMap;
use std::sync::Arc;

use crate::placement::pod::WorkloadKey;

/// A resource that a node has and a container uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeResource {
    /// Cores.
    Cpu,
    /// Bytes.
    Memory,
    /// Bits a second.
    Bandwidth,
    /// Bytes.
    Disk,
}

impl NodeResource {
    /// Every resource.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Bandwidth, Self::Disk];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Bandwidth => "bandwidth",
            Self::Disk => "disk",
        }
    }

    /// The resource of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

/// A value for each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ByResource<T>([T; 4]);

impl<T: Copy> ByResource<T> {
    /// The same for every resource.
    pub const fn all(value: T) -> Self {
        Self([value; 4])
    }

    /// The value of a resource.
    pub const fn get(&self, resource: NodeResource) -> T {
        let [cpu, memory, bandwidth, disk] = self.0;
        match resource {
            NodeResource::Cpu => cpu,
            NodeResource::Memory => memory,
            NodeResource::Bandwidth => bandwidth,
            NodeResource::Disk => disk,
        }
    }

    /// Sets the value of a resource.
    pub fn set(&mut self, resource: NodeResource, value: T) {
        if let Some(place) = self.0.get_mut(resource as usize) {
            *place = value;
        }
    }

    /// Every resource with its value.
    pub fn iter(&self) -> impl Iterator<Item = (NodeResource, T)> {
        NodeResource::ALL.into_iter().zip(self.0)
    }
}

/// Weights by resource; their sum is 1. `None`: nobody reports the resource, or it was never used by anybody.
pub type Weights = ByResource<f64>;

/// What a container uses on its node.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerUse {
    /// Whose it is.
    pub workload: WorkloadKey,
    /// Its pod, as `namespace/name`; empty where it is not known.
    pub pod: Arc<str>,
    /// Its name.
    pub container: Arc<str>,
    /// The image it runs.
    pub image: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// The share of what the node has of each resource; above 1 counts as 1. `None` where nobody reports it.
    pub local: ByResource<Option<f64>>,
}

/// Weights that were learnt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntWeights {
    /// By workload.
    pub workloads: HashMap<WorkloadKey, Weights>,
    /// By image: the mean of the workloads that use it.
    pub images: HashMap<Arc<str>, Weights>,
}
