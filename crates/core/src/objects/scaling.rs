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
        // Its status changes all the time, and is not read: as long as nothing else changes it stays the same one.
        if self.hpas.get(&hpa.namespace).and_then(|hpas| hpas.get(&hpa.name)) == Some(&hpa) {
            return;
        }
        let (namespace, name) = (hpa.namespace.clone(), hpa.name.clone());
        put_namespaced(&mut self.hpas, namespace, name, hpa);
    }

    pub(super) fn put_workload(&mut self, found: Arc<WorkloadFacts>) {
        let present = self.workloads.get(&found.kind).and_then(|all| all.get(&found.namespace));
        if present.and_then(|named| named.get(&found.workload.name)) == Some(&found) {
            return;
        }
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

    /// The namespaces that have autoscalers.
    pub fn hpa_namespaces(&self) -> impl Iterator<Item = &str> {
        self.scaling.hpas.keys().map(String::as_str)
    }

    /// Whether what the autoscalers of a namespace are judged by, but for pods and profiles, is the same as it was in
    /// another state. May be false where it is the same: it is the places that are compared, not what stands there.
    pub fn scales_as(&self, before: &Self, namespace: &str) -> bool {
        let (now, then) = (&self.scaling, &before.scaling);
        same(self.namespace(namespace), before.namespace(namespace))
            && same(self.limit_ranges_of(namespace), before.limit_ranges_of(namespace))
            && same(now.hpas.get(namespace), then.hpas.get(namespace))
            && WorkloadKind::ALL.iter().all(|kind| {
                let of = |scaling: &'_ Scaling| {
                    scaling.workloads.get(kind).and_then(|all| all.get(namespace)).cloned()
                };
                same(of(now).as_ref(), of(then).as_ref())
            })
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

fn same<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::objects::{FactKind, Objects, WorkloadKind, read_manifest};

    fn put(objects: &mut Objects, manifest: &Value) {
        objects.put(read_manifest(manifest).unwrap().unwrap());
    }

    fn hpa(percent: i64, seen: i64) -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
                }}],
            },
            "status": {"currentReplicas": seen},
        })
    }

    fn deployment(cpu: &str, ready: i64) -> Value {
        let container = json!({"name": "app", "resources": {"requests": {"cpu": cpu}}});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
            },
            "status": {"readyReplicas": ready},
        })
    }

    #[test]
    fn what_autoscalers_are_judged_by_is_compared_without_their_status() {
        let mut objects = Objects::default();
        put(&mut objects, &hpa(80, 1));
        put(&mut objects, &deployment("1", 1));
        let namespace = |labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}});
        let range =
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": "shop", "name": "a"}});
        for (rule, manifest, same) in [
            ("status of an autoscaler", hpa(80, 5), true),
            ("target of an autoscaler", hpa(60, 5), false),
            ("status of a workload", deployment("1", 5), true),
            ("template of a workload", deployment("2", 5), false),
            ("labels of the namespace", namespace(json!({"a": "b"})), false),
            ("limit ranges", range, false),
            (
                "another namespace",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
                true,
            ),
        ] {
            let before = objects.clone();
            put(&mut objects, &manifest);
            assert_eq!(objects.scales_as(&before, "shop"), same, "{rule}");
        }
        assert_eq!(objects.hpa_namespaces().collect::<Vec<_>>(), ["shop"]);
        let before = objects.clone();
        objects.replace(FactKind::Workload(WorkloadKind::Deployment), []);
        assert!(!objects.scales_as(&before, "shop"), "workload gone");
    }
}
