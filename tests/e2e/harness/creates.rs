//! Pods that are created without a pause, while something else happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::objects::{app, cpu, gated_pod};
use super::playground::Playground;

/// So many at a time.
const WORKERS: usize = 2;
/// How long the API server waits for a webhook; then it goes on without.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// So many calls may take longer than that: others may keep this machine busy. What hangs makes more.
const LATE: usize = 2;

/// A closed loop: each worker creates a pod, looks whether it was lowered, deletes it, and creates the next one.
pub(crate) struct Creates {
    done: Arc<AtomicBool>,
    workers: JoinSet<Made>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) pods: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) unchanged: Vec<String>,
    /// Neither, as the answer came too late.
    pub(crate) late: Vec<String>,
}

impl Creates {
    /// Creates pods in a namespace that gets half its CPU ([`Playground::halved`]), until [`Creates::stop`].
    pub(crate) fn start(playground: &Playground, namespace: &str) -> Self {
        Self::expecting(playground, namespace, &["500m"])
    }

    /// The same in a namespace without a profile.
    pub(crate) fn unchanged(playground: &Playground, namespace: &str) -> Self {
        Self::expecting(playground, namespace, &["1"])
    }

    /// The same where it does not matter whether they are changed.
    pub(crate) fn either(playground: &Playground, namespace: &str) -> Self {
        Self::expecting(playground, namespace, &["500m", "1"])
    }

    fn expecting(playground: &Playground, namespace: &str, want: &'static [&'static str]) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (cluster, namespace) = (playground.cluster.clone(), namespace.to_owned());
            workers.spawn(work(cluster, namespace, worker, want, Arc::clone(&done)));
        }
        Self { done, workers }
    }

    /// Ends it: none failed, each pod was lowered, and there were at least `least`.
    pub(crate) async fn stop(self, least: usize) -> Result<usize> {
        self.done.store(true, Ordering::Relaxed);
        let mut all = Made::default();
        for made in self.workers.join_all().await {
            all.pods += made.pods;
            all.failed.extend(made.failed);
            all.unchanged.extend(made.unchanged);
            all.late.extend(made.late);
        }
        let Made { pods, failed, unchanged, late } = all;
        ensure!(late.len() <= LATE, "{} of {pods} answers came too late: {late:?}", late.len());
        ensure!(failed.is_empty(), "{} of {pods} creates failed: {:?}", failed.len(), failed.first());
        ensure!(
            unchanged.is_empty(),
            "{} of {pods} pods not as they should be: {:?}",
            unchanged.len(),
            unchanged.first()
        );
        ensure!(pods >= least, "only {pods} pods were made meanwhile: this says nothing");
        Ok(pods)
    }
}

async fn work(
    cluster: Cluster,
    namespace: String,
    worker: usize,
    want: &[&str],
    done: Arc<AtomicBool>,
) -> Made {
    let started = jiff::Timestamp::now().as_millisecond();
    let mut made = Made::default();
    while !done.load(Ordering::Relaxed) {
        let object = gated_pod(&namespace, &format!("pod-{started}-{worker}-{}", made.pods), &[app()]);
        made.pods += 1;
        let now = jiff::Timestamp::now();
        let began = Instant::now();
        let answer = cluster.attempt(&object).await;
        let is_late = began.elapsed() >= WEBHOOK_TIMEOUT;
        match answer {
            Ok(Ok(created)) => match cpu(&created, "app") {
                Ok(cpu) if want.contains(&cpu) => {}
                other if is_late => made.late.push(format!("{now}: {other:?} after {:?}", began.elapsed())),
                other => made.unchanged.push(format!("{now}: {other:?}")),
            },
            Ok(Err(refused)) => made.failed.push(format!("{now}: {refused}")),
            Err(error) => made.failed.push(format!("{now}: {error:#}")),
        }
        if let Err(error) = cluster.delete(&object).await {
            made.failed.push(format!("{now}: {error:#}"));
        }
    }
    made
}
