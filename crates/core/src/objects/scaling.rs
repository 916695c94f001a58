//! Autoscalers, and what they scale.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hpa::{Hpa, WorkloadFacts};
use crate::objects::store::{ByNamespace, put_namespaced, remove_namespaced};
use crate::objects::{Objects, WorkloadKind};
use crate::pod::Workload;

/// Autoscalers and workloads by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaling {
    pub(super) hpas: ByNamespace<Arc<Hpa>>,
    pub(super) workloads: BTreeMap<WorkloadKind, ByNamespace<Arc<WorkloadFacts>>>,
}

impl Scaling {
    pub(super) fn put_hpa(&mut self, hpa: Arc<Hpa>) {
        let (namespace, name) = (hpa.namespace.clone(), hpa.name.clone());
        put_namespaced(&mut self.hpas, namespace, name, hpa);
    }

    pub(super) fn put_workload(&mut self, found: Arc<WorkloadFacts>) {
        let (namespace, name) = (found.namespace.clone(), found.workload.name.clone());
        put_namespaced(self.workloads.entry(found.kind).or_default(), namespace, name, found);
    }

    pub(super) fn remove_workload(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        if let Some(workloads) = self.workloads.get_mut(&kind) {
            remove_namespaced(workloads, namespace, name);
        }
    }

    pub(super) fn count_workloads(&self, kind: WorkloadKind) -> usize {
        self.workloads.get(&kind).map_or(0, |all| all.values().map(|named| named.len()).sum())
    }
}

impl Objects {
    /// Every autoscaler.
    pub fn hpas(&self) -> impl Iterator<Item = &Arc<Hpa>> {
        self.scaling.hpas.values().flat_map(|hpas| hpas.values())
    }

    /// The autoscalers of a namespace.
    pub fn hpas_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Hpa>> {
        self.scaling.hpas.get(namespace).into_iter().flat_map(|hpas| hpas.values())
    }

    /// The autoscaler of a name.
    pub fn hpa(&self, namespace: &str, name: &str) -> Option<&Arc<Hpa>> {
        self.scaling.hpas.get(namespace)?.get(name)
    }

    /// A workload, if it is of a kind whose templates are read and was seen.
    pub fn workload(&self, namespace: &str, workload: &Workload) -> Option<&Arc<WorkloadFacts>> {
        let kind = WorkloadKind::of(&workload.group, &workload.kind)?;
        self.scaling.workloads.get(&kind)?.get(namespace)?.get(&workload.name)
    }

    /// The workloads of a namespace.
    pub fn workloads_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<WorkloadFacts>> {
        self.scaling
            .workloads
            .values()
            .filter_map(move |kind| kind.get(namespace))
            .flat_map(|workloads| workloads.values())
    }
}
