//! Surveys for as long as somebody looks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use kube::Client;
use plimsoll_core::objects::Objects;
use plimsoll_core::placement::WorkloadKey;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{History, Point, Survey, take};
use crate::recommender::sources::Source;
use crate::status::{Health, Part};

/// How often the cluster is read while somebody looks.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long after the last look it is no longer read.
const PATIENCE: Duration = Duration::from_secs(300);

/// What may fail, as it is told.
const LIST: &str = "list pods for the dashboard";

/// What surveys are made from.
pub struct SurveyParts {
    /// How the API server is reached.
    pub client: Client,
    /// What is known of the cluster: whose `ReplicaSet`s and `Job`s are.
    pub objects: Arc<ArcSwap<Objects>>,
    /// Where usage comes from, if it can be asked.
    pub source: Option<Source>,
    /// Who is told that pods cannot be read.
    pub health: Health,
}

/// The last survey. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Surveys(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: ArcSwapOption<Survey>,
    history: Mutex<History>,
    /// Why there is none, if the last one failed.
    problem: ArcSwapOption<String>,
    looked: watch::Sender<Option<Instant>>,
}

impl Surveys {
    /// The last survey; nothing if it is being made for the first time since somebody looks. It is not older than a minute
    /// or two, unless there is a [`problem`](Self::problem).
    pub fn look(&self) -> Option<Arc<Survey>> {
        self.0.looked.send_replace(Some(Instant::now()));
        self.0.last.load_full()
    }

    /// The same, for who does not look at its figures: it is not read again for that.
    pub fn last(&self) -> Option<Arc<Survey>> {
        self.0.last.load_full()
    }

    /// Why the last attempt failed, if it did.
    pub fn problem(&self) -> Option<Arc<String>> {
        self.0.problem.load_full()
    }

    /// What a workload requested and used since somebody began to look, the oldest first.
    pub fn history(&self, key: &WorkloadKey) -> Vec<Point> {
        self.0.history.lock().unwrap_or_else(PoisonError::into_inner).of(key)
    }

    /// Puts a survey in the place of the last one.
    pub fn put(&self, survey: Survey) {
        self.0.history.lock().unwrap_or_else(PoisonError::into_inner).add(&survey);
        self.0.last.store(Some(Arc::new(survey)));
        self.0.problem.store(None);
    }

    /// Remembers why there is no newer one.
    pub(crate) fn failed(&self, why: impl Into<String>) {
        self.0.problem.store(Some(Arc::new(why.into())));
    }

    /// Whether somebody looked, so that the cluster is read.
    #[cfg(test)]
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.looked.borrow().is_some()
    }

    fn forget(&self) {
        self.0.last.store(None);
        self.0.problem.store(None);
        *self.0.history.lock().unwrap_or_else(PoisonError::into_inner) = History::default();
    }

    /// Reads the cluster while somebody looks, until `cancelled`.
    pub async fn run(self, mut parts: SurveyParts, cancelled: CancellationToken) {
        tokio::select! {
            () = self.follow(&mut parts) => {}
            () = cancelled.cancelled() => {}
        }
    }

    async fn follow(&self, parts: &mut SurveyParts) {
        let mut looked = self.0.looked.subscribe();
        loop {
            // The sender is ours: there is always one.
            if looked.wait_for(Option::is_some).await.is_err() {
                return;
            }
            while self.0.looked.borrow().is_some_and(|at| at.elapsed() < PATIENCE) {
                let begun = Instant::now();
                let objects = parts.objects.load_full();
                match take(&parts.client, &objects, parts.source.as_mut()).await {
                    Ok(survey) => {
                        parts.health.works(Part::Snapshots, LIST);
                        self.put(survey);
                    }
                    Err(error) => {
                        if parts.health.failed(Part::Snapshots, LIST, &error) {
                            tracing::warn!(%error, "the pods of the cluster cannot be read for the dashboard");
                        }
                        self.failed(error.to_string());
                    }
                }
                // A cluster that takes long to read is left alone for as long.
                let ended = Instant::now();
                sleep_until((begun + INTERVAL).max(ended + (ended - begun))).await;
            }
            self.0.looked.send_replace(None);
            // Whether it would still fail, nobody finds out before the next look.
            parts.health.works(Part::Snapshots, LIST);
            self.forget();
        }
    }

    /// Waits until there is a survey or it is known why there is none, but not longer than until `limit`. For tests and
    /// for a first page.
    pub async fn first(&self, limit: Duration) -> Option<Arc<Survey>> {
        let until = Instant::now() + limit;
        let found = async {
            loop {
                if let Some(survey) = self.look() {
                    return Some(survey);
                }
                if self.problem().is_some() {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout_at(until, found).await.ok().flatten()
    }
}
