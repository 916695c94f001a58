//! Weights that are a workload's own: by what it uses, a node is good for it or not.
//!
//! From "Research on container cloud scheduling by workload-specific weights": with the share of each resource of the whole
//! cluster that a workload uses, normalised, as the weight of that resource.

use std::collections::{BTreeSet, HashMap};
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

/// Weights by resource; their sum is 1.
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

/// What all containers use, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerUses {
    /// By container; those of which nothing fresh was measured are not in it.
    pub containers: Vec<ContainerUse>,
    /// When it was taken, in nanoseconds since 1970; 0: never.
    pub taken: i64,
}

/// Weights that were learnt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntWeights {
    /// By workload.
    pub workloads: HashMap<WorkloadKey, Weights>,
    /// By image: the mean of the workloads that use it.
    pub images: HashMap<Arc<str>, Weights>,
}

/// Where the weights of a decision came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsFrom {
    /// The workload's own.
    Workload,
    /// The mean of those of its images.
    Image,
    /// The configuration: nothing is known of the workload, or it was idle.
    Default,
}

impl WeightsFrom {
    /// As it is written in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Image => "image",
            Self::Default => "default",
        }
    }
}

/// Weights in proportion to `values`, with the sum 1. `None` if there is nothing above 0.
pub fn normalised(values: ByResource<f64>) -> Option<Weights> {
    let sum: f64 = values.iter().map(|(_, value)| value).sum();
    if !(sum.is_finite() && sum > 0.0) {
        return None;
    }
    let mut weights = Weights::default();
    for (resource, value) in values.iter() {
        weights.set(resource, value / sum);
    }
    Some(weights)
}

/// The weights of each workload by the share of the whole cluster that its containers use, and those of images.
///
/// With total(i,r) what node i has of resource r, local(d,r) the share of its node that container d uses:
/// `global(d,r) = local(d,r) x total(i,r) / SUM_i total(i,r)`; a workload's is the sum over all containers of all
/// replicas, and `w(r) = global(r) / SUM_r global(r)`. What nobody reports has no part in it; a workload that uses
/// nothing has no weights. An image's weights are the plain mean of those of the workloads that use it.
pub fn learn<'a>(
    containers: impl IntoIterator<Item = &'a ContainerUse>,
    totals: impl Fn(&str) -> ByResource<Option<f64>>,
    nodes: impl IntoIterator<Item = ByResource<Option<f64>>>,
) -> LearntWeights {
    let mut cluster = ByResource::<f64>::default();
    for node in nodes {
        for (resource, total) in node.iter() {
            cluster.set(resource, cluster.get(resource) + usable(total).unwrap_or(0.0));
        }
    }
    let mut used: HashMap<&WorkloadKey, (ByResource<f64>, BTreeSet<&Arc<str>>)> = HashMap::new();
    for container in containers {
        let (global, images) = used.entry(&container.workload).or_default();
        if !container.image.is_empty() {
            images.insert(&container.image);
        }
        let of_node = totals(&container.node);
        for (resource, local) in container.local.iter() {
            let whole = cluster.get(resource);
            if let (Some(local), Some(total)) = (usable(local), usable(of_node.get(resource)))
                && whole > 0.0
            {
                global.set(resource, global.get(resource) + local.min(1.0) * total / whole);
            }
        }
    }
    let mut learnt = LearntWeights::default();
    let mut of_images: HashMap<&Arc<str>, Vec<Weights>> = HashMap::new();
    for (workload, (global, images)) in used {
        let Some(weights) = normalised(global) else { continue };
        learnt.workloads.insert(workload.clone(), weights);
        for image in images {
            of_images.entry(image).or_default().push(weights);
        }
    }
    learnt.images =
        of_images.into_iter().filter_map(|(image, all)| Some((Arc::clone(image), mean(&all)?))).collect();
    learnt
}

/// A figure that can be true.
fn usable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// The plain mean; `None` of nothing.
fn mean(all: &[Weights]) -> Option<Weights> {
    let mut sum = ByResource::<f64>::default();
    for weights in all {
        for (resource, weight) in weights.iter() {
            sum.set(resource, sum.get(resource) + weight);
        }
    }
    // Each has the sum 1, so that to normalise the sum is to divide by their number.
    normalised(sum)
}

impl LearntWeights {
    /// The weights of a workload: its own, else the mean of those of its images, else `default`.
    pub fn of<'i>(
        &self,
        workload: &WorkloadKey,
        images: impl IntoIterator<Item = &'i str>,
        default: ByResource<f64>,
    ) -> (Weights, WeightsFrom) {
        if let Some(own) = self.workloads.get(workload) {
            return (*own, WeightsFrom::Workload);
        }
        let images: BTreeSet<&str> = images.into_iter().collect();
        let known: Vec<_> = images.into_iter().filter_map(|image| self.images.get(image)).copied().collect();
        if let Some(weights) = mean(&known) {
            return (weights, WeightsFrom::Image);
        }
        (normalised(default).unwrap_or(Weights::all(0.25)), WeightsFrom::Default)
    }
}
