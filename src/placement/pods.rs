//! All pods of the cluster, by node. One table a process: the extender reads it for each decision, and so does the leader
//! that balances.

use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use kube::Client;
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::{Incoming, Placed, PlacedPod, PlacedShape};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::cluster::{self, ClusterOptions, PodChange};
use crate::metrics::Metrics;
use crate::shapes::Shapes;

/// So many changes are taken over at once: decisions wait for as long.
const BATCH: usize = 256;

/// The table. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PlacedPods(Arc<RwLock<Placed>>);

impl PlacedPods {
    /// A table of these pods, that nobody follows.
    pub fn of(placed: Placed) -> Self {
        Self(Arc::new(RwLock::new(placed)))
    }

    /// The table as it is. It cannot change while the guard lives, so that it should not live long.
    pub fn read(&self) -> RwLockReadGuard<'_, Placed> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a scheduler was told; see [`Placed::note_answer`].
    pub fn note_answer(&self, pod: &Incoming, node: &str, now: i64) {
        // A pod without a uid cannot be seen bound.
        if !pod.uid.is_empty() {
            self.write().note_answer(pod, node, now);
        }
    }

    /// Whether all pods are in it.
    pub fn is_complete(&self) -> bool {
        self.read().is_complete()
    }

    /// Watches the pods of all namespaces and keeps the table until `cancelled`. Then it is empty, and not complete.
    ///
    /// What pods are expected to use and whose they are is looked up in `objects` when they are read, which should hold
    /// what there is.
    pub async fn follow(
        &self,
        client: Client,
        objects: Arc<ArcSwap<Objects>>,
        metrics: Arc<Metrics>,
        cancelled: CancellationToken,
    ) {
        let shapes = Shapes::<PlacedShape>::default();
        let read = move |pod: &Value| read(&shapes, &objects.load(), pod);
        let options = ClusterOptions::default();
        let changes = cluster::watch_pods(client, options, Arc::clone(&metrics), cancelled, read);
        self.take(changes, &metrics).await;
        self.replace(Placed::default());
    }

    /// Takes changes over until there are no more.
    async fn take(&self, mut changes: mpsc::Receiver<PodChange<PlacedPod>>, metrics: &Metrics) {
        let mut batch = Vec::new();
        while changes.recv_many(&mut batch, BATCH).await > 0 {
            let mut rest = batch.drain(..).peekable();
            while rest.peek().is_some() {
                if let Some(listed) = self.apply(&mut rest) {
                    self.fold(listed).await;
                }
            }
            let placed = self.read();
            metrics.placement_pods(placed.len(), placed.pending());
        }
    }

    /// Takes changes over up to a list, which is given back.
    fn apply(&self, changes: &mut impl Iterator<Item = PodChange<PlacedPod>>) -> Option<Vec<PlacedPod>> {
        let mut placed = self.write();
        for change in changes {
            match change {
                PodChange::Listed(pods, _) => return Some(pods),
                PodChange::Put(pod) => placed.put(pod),
                PodChange::Gone { namespace, name, uid } => placed.remove(&namespace, &name, &uid),
            }
        }
        None
    }

    /// Puts a list in the place of all that is known. A hundred thousand pods take a while, in which decisions go on with
    /// those known before.
    async fn fold(&self, pods: Vec<PlacedPod>) {
        let table = self.clone();
        let folded = spawn_blocking(move || table.replace(Placed::listed(pods))).await;
        if let Err(error) = folded
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }

    fn replace(&self, mut placed: Placed) {
        let mut table = self.write();
        placed.keep_answers(&table);
        let before = mem::replace(&mut *table, placed);
        drop(table);
        // Only now, when the table is free again: there is much to let go.
        drop(before);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Placed> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pod as the API server has it, with what it shares with others. `None` for what has no name.
fn read(shapes: &Shapes<PlacedShape>, objects: &Objects, pod: &Value) -> Option<PlacedPod> {
    let mut pod = PlacedPod::read(pod, objects)?;
    shapes.share(&mut pod.shape, pod.node.as_mut());
    Some(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}")},
            "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn pods_share_their_shape_and_the_name_of_their_node() {
        let (shapes, objects) = (Shapes::default(), Objects::default());
        let owned = |name: &str| {
            let mut pod = pod(name, "n1");
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true,
            }]);
            read(&shapes, &objects, &pod).unwrap()
        };
        let (a, b) = (owned("a"), owned("b"));
        assert!(Arc::ptr_eq(&a.shape, &b.shape));
        assert!(Arc::ptr_eq(&a.node.unwrap(), &b.node.unwrap()));
        assert_eq!(read(&shapes, &objects, &json!({"metadata": {}})), None);
    }

    #[tokio::test]
    async fn lists_and_changes_are_taken_over_in_turn() {
        let (pods, metrics) = (PlacedPods::default(), Metrics::new("test"));
        let (shapes, objects) = (Shapes::default(), Objects::default());
        let read = |name: &str, node: &str| read(&shapes, &objects, &pod(name, node)).unwrap();
        let gone = |name: &str| PodChange::Gone {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        };
        let (changes, received) = mpsc::channel(16);
        for change in [
            PodChange::Put(read("early", "n1")),
            PodChange::Listed(vec![read("a", "n1"), read("b", "n1"), read("c", "")], Some(1)),
            PodChange::Put(read("d", "n2")),
            gone("b"),
            gone("nobody"),
        ] {
            changes.send(change).await.unwrap();
        }
        assert!(!pods.is_complete());
        drop(changes);
        pods.take(received, &metrics).await;
        assert!(pods.is_complete());
        let placed = pods.read();
        assert_eq!((placed.len(), placed.pending()), (3, 1), "the list replaces what came before it");
        let on = |node: &str| placed.on(node).map_or(0, |on| on.pods().len());
        assert_eq!((on("n1"), on("n2")), (1, 1));
        let text = metrics.encode();
        assert!(text.contains("plimsoll_placement_pods{state=\"pending\"} 1\n"), "{text}");
        assert!(text.contains("plimsoll_placement_pods{state=\"all\"} 3\n"), "{text}");
    }
}
