//! What a pod is expected to use, before anything of it was measured.

use crate::objects::{Objects, Recommendation};
use crate::placement::pod::{ContainerFigures, WorkloadKey};
use crate::resource::{Resource, UNIT};

/// Cores, and bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Cores.
    pub cpu: f64,
    /// Bytes.
    pub memory: f64,
}

impl Figures {
    /// Adds the same parts of another's figures.
    pub fn add(&mut self, other: Self, parts: f64) {
        self.cpu += other.cpu * parts;
        self.memory += other.memory * parts;
    }
}

/// Nano-units as a plain number.
pub fn units(nanos: i128) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than 53 bits")]
    let (nanos, unit) = (nanos as f64, UNIT as f64);
    nanos / unit
}

/// What a pod is expected to use of CPU and memory: of each container what was recommended for it, else its limit, else
/// its request; 0 without any.
pub fn estimate(
    workload: &WorkloadKey,
    pod_name: &str,
    containers: &[ContainerFigures],
    objects: &Objects,
) -> Figures {
    let recommended = recommendation(workload, pod_name, objects);
    let of = |container: &ContainerFigures, index: usize, resource: Resource| {
        let recommended = recommended
            .and_then(|found| found.containers.get(container.name.as_ref())?.targets.get(&resource))
            .map(plimsoll_quantity::Quantity::nanos);
        let limit = container.limits.get(index).copied().flatten().filter(|limit| *limit > 0);
        let request = container.requests.get(index).copied().flatten();
        units(recommended.or(limit).or(request).unwrap_or(0).max(0))
    };
    let sum = |index, resource| containers.iter().map(|container| of(container, index, resource)).sum();
    Figures { cpu: sum(0, Resource::Cpu), memory: sum(1, Resource::Memory) }
}

/// The recommendation for this very pod, else for its workload, else for its namespace.
fn recommendation<'a>(
    workload: &WorkloadKey,
    pod_name: &str,
    objects: &'a Objects,
) -> Option<&'a Recommendation> {
    let (namespace, target) = (workload.namespace.as_ref(), &workload.workload);
    let of_workload = || {
        objects
            .recommendations(namespace, &target.kind, &target.name)
            .filter(|found| found.target.group == target.group)
            .map(AsRef::as_ref)
    };
    let is_of_pod = |found: &&Recommendation| found.pod_name.as_deref() == Some(pod_name);
    of_workload()
        .find(is_of_pod)
        .or_else(|| of_workload().find(|found| found.pod_name.is_none()))
        .or_else(|| objects.recommendations(namespace, "Namespace", namespace).map(AsRef::as_ref).next())
}
