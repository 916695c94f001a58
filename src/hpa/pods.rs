//! All pods of the cluster, as far as autoscaling is concerned.
//!
//! One table a process. The leader needs it, and whoever serves metrics. A pod costs some 200 bytes, and each template
//! its shape once.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use kube::Client;
use plimsoll_core::hpa::{HpaPod, Shape};
use plimsoll_core::profile::Selector;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cluster::{self, ClusterOptions, PodChange};
use crate::metrics::Metrics;
use crate::shapes::Shapes;

/// So many changes are taken over at once.
const BATCH: usize = 1024;

/// The table. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pods(Arc<RwLock<Table>>);

/// Where pods changed in a way that matters: there are more or fewer that count, or others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// They were listed anew.
    Everywhere,
    /// In these namespaces.
    In(HashSet<Arc<str>>),
}

impl Default for Changed {
    fn default() -> Self {
        Self::In(HashSet::new())
    }
}

#[derive(Debug, Default)]
struct Table {
    /// Whether all pods were listed, and are followed since.
    complete: bool,
    namespaces: HashMap<Arc<str>, Home>,
    changed: Changed,
}

/// The pods of a namespace.
#[derive(Debug, Default)]
struct Home {
    by_name: HashMap<Arc<str>, HpaPod>,
    /// How many pods that count there are of each shape.
    counted: HashMap<ByPlace, u64>,
}

/// Shapes are shared, so that equal ones are the same one.
#[derive(Clone, Debug)]
struct ByPlace(Arc<Shape>);

impl PartialEq for ByPlace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByPlace {}

impl std::hash::Hash for ByPlace {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Pods {
    /// Watches the pods of all namespaces and keeps the table until `cancelled`. Then it is empty, and not complete.
    pub async fn follow(&self, client: Client, metrics: Arc<Metrics>, cancelled: CancellationToken) {
        let shapes = Shapes::default();
        let read = move |pod: &Value| read(&shapes, pod);
        let changes = cluster::watch_pods(client, ClusterOptions::default(), metrics, cancelled, read);
        self.take(changes).await;
        self.clear();
    }

    /// Takes changes over until there are no more.
    async fn take(&self, mut changes: mpsc::Receiver<PodChange<HpaPod>>) {
        let mut batch = Vec::new();
        while changes.recv_many(&mut batch, BATCH).await > 0 {
            let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
            for change in batch.drain(..) {
                table.apply(change);
            }
        }
    }

    /// Whether all pods are in it.
    pub fn is_complete(&self) -> bool {
        self.read().complete
    }

    /// A pod by its name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<HpaPod> {
        self.read().namespaces.get(namespace)?.by_name.get(name).cloned()
    }

    /// All pods of a namespace, also those that do not count.
    pub fn pods_in(&self, namespace: &str) -> Vec<HpaPod> {
        self.read()
            .namespaces
            .get(namespace)
            .into_iter()
            .flat_map(|home| home.by_name.values())
            .cloned()
            .collect()
    }

    /// The pods of a namespace that a selector selects and that are neither terminating nor finished, by shape.
    pub fn selected(&self, namespace: &str, selector: &Selector) -> Vec<(Arc<Shape>, u64)> {
        let table = self.read();
        let counted = table.namespaces.get(namespace).into_iter().flat_map(|home| &home.counted);
        counted
            .filter(|(shape, _)| shape.0.selected_by(selector))
            .map(|(shape, pods)| (Arc::clone(&shape.0), *pods))
            .collect()
    }

    /// How many pods are in it.
    pub fn len(&self) -> usize {
        self.read().namespaces.values().map(|home| home.by_name.len()).sum()
    }

    /// Whether no pod is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything: nobody follows the pods any more.
    pub(super) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Table::default();
    }

    /// What changed since the last call. There is one who asks: the keeper.
    pub(super) fn take_changed(&self) -> Changed {
        take(&mut self.0.write().unwrap_or_else(PoisonError::into_inner).changed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pod as the API server has it, with what it shares with others. `None` for what has no name.
fn read(shapes: &Shapes<Shape>, pod: &Value) -> Option<HpaPod> {
    let mut pod = HpaPod::read(pod)?;
    shapes.share(&mut pod.shape, [&mut pod.namespace]);
    Some(pod)
}

impl Table {
    fn apply(&mut self, change: PodChange<HpaPod>) {
        match change {
            PodChange::Listed(pods, _) => {
                self.namespaces.clear();
                for pod in pods {
                    self.put(pod);
                }
                self.complete = true;
                self.changed = Changed::Everywhere;
            }
            PodChange::Put(pod) => self.put(pod),
            PodChange::Gone { namespace, name, uid } => self.remove(&namespace, &name, &uid),
        }
    }

    fn put(&mut self, pod: HpaPod) {
        let namespace = Arc::clone(&pod.namespace);
        let home = self.namespaces.entry(Arc::clone(&namespace)).or_default();
        let counts = pod.counts.then(|| ByPlace(Arc::clone(&pod.shape)));
        let old = home.by_name.insert(Arc::clone(&pod.name), pod);
        let counted = old.filter(|old| old.counts).map(|old| ByPlace(old.shape));
        if counts == counted {
            return;
        }
        if let Some(shape) = counts {
            *home.counted.entry(shape).or_default() += 1;
        }
        if let Some(shape) = counted {
            home.discount(&shape);
        }
        self.changed.note(&namespace);
    }

    fn remove(&mut self, namespace: &str, name: &str, uid: &str) {
        let Some(home) = self.namespaces.get_mut(namespace) else { return };
        // Another one of its name may be there already.
        let is_it = |pod: &HpaPod| uid.is_empty() || pod.uid.as_ref() == uid;
        if !home.by_name.get(name).is_some_and(is_it) {
            return;
        }
        if let Some(old) = home.by_name.remove(name).filter(|old| old.counts) {
            let namespace = Arc::clone(&old.namespace);
            home.discount(&ByPlace(old.shape));
            self.changed.note(&namespace);
        }
        if self.namespaces.get(namespace).is_some_and(|home| home.by_name.is_empty()) {
            self.namespaces.remove(namespace);
        }
    }
}

impl Home {
    fn discount(&mut self, shape: &ByPlace) {
        if let Some(pods) = self.counted.get_mut(shape) {
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                self.counted.remove(shape);
            }
        }
    }
}

impl Changed {
    fn note(&mut self, namespace: &Arc<str>) {
        if let Self::In(namespaces) = self
            && !namespaces.contains(namespace)
        {
            namespaces.insert(Arc::clone(namespace));
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::profile::read_selector;
    use serde_json::json;

    use super::*;

    /// A table and what reads its pods.
    #[derive(Default)]
    struct World {
        table: Table,
        shapes: Shapes<Shape>,
    }

    fn pod(name: &str, cpu: &str) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": "Running"},
        })
    }

    fn with(mut pod: Value, pointer: &str, key: &str, value: Value) -> Value {
        pod.pointer_mut(pointer).unwrap()[key] = value;
        pod
    }

    impl World {
        fn put(&mut self, pod: &Value) {
            self.table.apply(PodChange::Put(read(&self.shapes, pod).unwrap()));
        }

        fn gone(&mut self, name: &str, uid: &str) {
            let (namespace, name, uid) = ("shop".to_owned(), name.to_owned(), uid.to_owned());
            self.table.apply(PodChange::Gone { namespace, name, uid });
        }

        fn list(&mut self, pods: &[Value]) {
            let pods = pods.iter().map(|pod| read(&self.shapes, pod).unwrap()).collect();
            self.table.apply(PodChange::Listed(pods, None));
        }

        fn changed(&mut self) -> Changed {
            take(&mut self.table.changed)
        }

        /// How many pods that count there are of each shape.
        fn counts(&self) -> Vec<u64> {
            let home = self.table.namespaces.get("shop");
            let mut counts: Vec<_> =
                home.into_iter().flat_map(|home| home.counted.values()).copied().collect();
            counts.sort_unstable();
            counts
        }
    }

    #[test]
    fn pods_are_counted_by_shape_through_every_change() {
        let mut world = World::default();
        let mut step = |rule: &str, change: &dyn Fn(&mut World), counts: &[u64], changes: bool| {
            change(&mut world);
            assert_eq!(world.counts(), counts, "{rule}");
            assert_eq!(world.changed() != Changed::default(), changes, "{rule}");
        };
        step("the first", &|world| world.put(&pod("a", "1")), &[1], true);
        step("another of its template", &|world| world.put(&pod("b", "1")), &[2], true);
        step("one of another template", &|world| world.put(&pod("c", "2")), &[1, 2], true);
        let ready = with(pod("a", "1"), "/status", "ready", json!(true));
        step("a status that does not matter", &|world| world.put(&ready), &[1, 2], false);
        step("requests changed in place", &|world| world.put(&pod("a", "2")), &[1, 2], true);
        let ends = with(pod("b", "1"), "/metadata", "deletionTimestamp", json!("2026-03-01T10:00:00Z"));
        step("one is terminating", &|world| world.put(&ends), &[2], true);
        step("and gone", &|world| world.gone("b", "uid-b"), &[2], false);
        step("an older one of the same name", &|world| world.gone("a", "uid-old"), &[2], false);
        step("nobody", &|world| world.gone("nobody", ""), &[2], false);
        let done = with(pod("c", "2"), "/status", "phase", json!("Succeeded"));
        step("one is finished", &|world| world.put(&done), &[1], true);
        step("gone without being seen to end", &|world| world.gone("a", "uid-a"), &[], true);
        step("listed anew", &|world| world.list(&[pod("a", "1"), pod("d", "1")]), &[2], true);
        step("and none", &|world| world.list(&[]), &[], true);
    }

    #[test]
    fn an_empty_namespace_is_let_go() {
        let mut world = World::default();
        world.put(&pod("a", "1"));
        world.gone("a", "uid-a");
        assert!(world.table.namespaces.is_empty());
    }

    #[tokio::test]
    async fn what_is_asked() {
        let (changes, received) = mpsc::channel(8);
        let (pods, shapes) = (Pods::default(), Shapes::<Shape>::default());
        let read = |pod: &Value| read(&shapes, pod).unwrap();
        let other = with(pod("db", "1"), "/metadata/labels", "app", json!("db"));
        let away = with(pod("away", "1"), "/metadata", "namespace", json!("other"));
        let ends = with(pod("ends", "1"), "/metadata", "deletionTimestamp", json!("2026-03-01T10:00:00Z"));
        let listed = [pod("a", "1"), pod("b", "1"), pod("c", "2"), other, away, ends];
        assert!(!pods.is_complete() && pods.is_empty());
        changes.send(PodChange::Listed(listed.iter().map(read).collect(), Some(1))).await.unwrap();
        drop(changes);
        pods.take(received).await;
        assert!(pods.is_complete());
        assert_eq!((pods.len(), pods.pods_in("shop").len(), pods.pods_in("nowhere").len()), (6, 5, 0));
        let selector = read_selector(&json!({"matchLabels": {"app": "web"}}), "spec.selector").unwrap();
        let mut selected: Vec<_> =
            pods.selected("shop", &selector).into_iter().map(|(_, pods)| pods).collect();
        selected.sort_unstable();
        assert_eq!(selected, [1, 2], "neither those of others nor those that end");
        assert_eq!(pods.pod("shop", "ends").map(|pod| pod.counts), Some(false));
        assert_eq!(pods.pod("shop", "away"), None);
        assert_eq!(pods.take_changed(), Changed::Everywhere);
        assert_eq!(pods.take_changed(), Changed::default());
    }
}
