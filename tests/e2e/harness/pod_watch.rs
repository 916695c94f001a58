//! What all pods of some namespaces ask for together, at every moment: seen from outside, without the server's help.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt as _;
use plimsoll_quantity::Quantity;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::cluster::{Cluster, Happening};
use super::objects::{app, gated_pod};
use super::until;

/// The start of the names of pods that mark a moment.
const MARK: &str = "e2e-mark-";
/// How many there were.
static MARKS: AtomicUsize = AtomicUsize::new(0);

fn is_mark(pod: &Value) -> bool {
    pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(MARK))
}

/// A pod as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct SeenPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) created: String,
    /// Thousandths of a core.
    pub(crate) cpu: i64,
    counts: bool,
}

#[derive(Default)]
struct Seen {
    pods: BTreeMap<String, SeenPod>,
    /// By namespace, what was counted at most at any moment.
    most: BTreeMap<String, i64>,
    most_together: i64,
    evicted: Vec<SeenPod>,
    /// The identities of those among them, and of marks.
    known: BTreeSet<String>,
    created: usize,
    failed: Option<String>,
}

/// Watches until it is dropped.
pub(crate) struct PodWatch {
    cluster: Cluster,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodWatch {
    /// Watches the pods of `namespaces` from now on.
    pub(crate) async fn start(cluster: &Cluster, namespaces: &[String]) -> Result<Self> {
        let (there, mut happenings) = cluster.follow("v1", "Pod").await?;
        let namespaces = namespaces.to_vec();
        let seen = Arc::<Mutex<Seen>>::default();
        let sink = Arc::clone(&seen);
        let note = move |happening: &Happening| {
            let (Happening::Is(pod) | Happening::Gone(pod)) = happening else { return };
            if namespaces.iter().any(|name| pod["metadata"]["namespace"] == **name) {
                let mut seen = sink.lock().unwrap_or_else(PoisonError::into_inner);
                seen.note(pod, matches!(happening, Happening::Gone(_)));
            } else if is_mark(pod) {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                sink.lock().unwrap_or_else(PoisonError::into_inner).known.insert(uid.to_owned());
            }
        };
        for pod in there {
            note(&Happening::Is(pod));
        }
        let failed = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Some(happening) = happenings.next().await {
                match happening {
                    Ok(happening) => note(&happening),
                    Err(error) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).failed =
                            Some(format!("{error:#}"));
                        return;
                    }
                }
            }
            failed.lock().unwrap_or_else(PoisonError::into_inner).failed = Some("it ended".into());
        });
        Ok(Self { cluster: cluster.clone(), seen, task })
    }

    /// Waits until it has seen what has happened so far: a pod elsewhere, made after all that, is seen after all that.
    async fn caught_up(&self) -> Result<()> {
        let name = format!("{MARK}{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed));
        let mark = gated_pod("kube-system", &name, &[app()]);
        let stored = self.cluster.create(&mark).await?;
        let uid = stored["metadata"]["uid"].as_str().context("no uid")?;
        let outcome = until("the watch of pods to catch up", async || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((seen.failed.is_some() || seen.known.contains(uid)).then_some(()))
        })
        .await;
        self.cluster.delete(&mark).await?;
        outcome
    }

    async fn read<T>(&self, read: impl FnOnce(&Seen) -> T) -> Result<T> {
        self.caught_up().await?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.failed.is_none(), "the watch of pods: {:?}", seen.failed);
        Ok(read(&seen))
    }

    /// Thousandths of a core that the pods asked for together at most.
    pub(crate) async fn most_together(&self) -> Result<i64> {
        self.read(|seen| seen.most_together).await
    }

    /// The same in one namespace.
    pub(crate) async fn most_in(&self, namespace: &str) -> Result<i64> {
        self.read(|seen| seen.most.get(namespace).copied().unwrap_or(0)).await
    }

    /// Who was evicted, in order.
    pub(crate) async fn evicted(&self) -> Result<Vec<SeenPod>> {
        self.read(|seen| seen.evicted.clone()).await
    }

    /// How many pods appeared.
    pub(crate) async fn created(&self) -> Result<usize> {
        self.read(|seen| seen.created).await
    }

    /// The counted pods of a namespace.
    pub(crate) async fn pods(&self, namespace: &str) -> Result<Vec<SeenPod>> {
        self.read(|seen| {
            seen.pods.values().filter(|pod| pod.counts && pod.namespace == namespace).cloned().collect()
        })
        .await
    }
}

impl Seen {
    fn note(&mut self, pod: &Value, gone: bool) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let uid = text(&metadata["uid"]);
        let counts = !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let now = SeenPod {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            created: text(&metadata["creationTimestamp"]),
            cpu: cpu_of(pod).unwrap_or(i64::MAX / 1_000_000),
            counts,
        };
        // In the order in which they were told to go, not in that of their ends.
        let conditions = pod["status"]["conditions"].as_array();
        let evicted = conditions.into_iter().flatten().any(|c| c["reason"] == "EvictionByEvictionAPI");
        if evicted && self.known.insert(uid.clone()) {
            self.evicted.push(now.clone());
        }
        if gone {
            self.pods.remove(&uid);
            return;
        }
        if self.pods.insert(uid, now).is_none() {
            self.created += 1;
        }
        let mut sums = BTreeMap::<&str, i64>::new();
        for pod in self.pods.values().filter(|pod| pod.counts) {
            *sums.entry(&pod.namespace).or_default() += pod.cpu;
        }
        self.most_together = self.most_together.max(sums.values().sum());
        for (namespace, sum) in sums {
            let most = self.most.entry(namespace.to_owned()).or_default();
            *most = (*most).max(sum);
        }
    }
}

/// Thousandths of a core that the containers of a pod request.
fn cpu_of(pod: &Value) -> Result<i64> {
    let mut sum = 0;
    for container in pod["spec"]["containers"].as_array().context("no containers")? {
        if let Some(text) = container["resources"]["requests"]["cpu"].as_str() {
            sum += milli(text)?;
        }
    }
    Ok(sum)
}

/// Thousandths, from a text such as `1500m`.
pub(crate) fn milli(text: &str) -> Result<i64> {
    Quantity::parse(text)?;
    let (number, scale) = text.strip_suffix('m').map_or((text, 1000), |number| (number, 1));
    Ok(number.parse::<i64>().with_context(|| format!("{text} is not written in cores or thousandths"))?
        * scale)
}
