//! What workloads used before anybody looked, from Prometheus, asked while somebody looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use plimsoll_core::placement::WorkloadKey;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use crate::recommender::sources::Prometheus;
use crate::recommender::sources::prometheus::Past;

/// How far it is asked back, and how far apart the points are: 145 of a line.
const BACK: Duration = Duration::from_secs(24 * 3600);
/// See [`BACK`].
const STEP: Duration = Duration::from_secs(600);
/// What is older is asked for again when somebody looks.
const FRESH: Duration = Duration::from_secs(300);
/// Of so many workloads it is kept; with all points that is half a MiB.
const KEPT: usize = 64;
/// So many are asked for at a time.
const AT_A_TIME: usize = 2;

/// The last day of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct LastDay {
    /// When Prometheus was asked.
    pub asked: Timestamp,
    /// Where it is.
    pub host: String,
    /// How far apart the points are.
    pub step: Duration,
    /// What it said.
    pub past: Past,
}

type Answer = Option<Arc<LastDay>>;

/// Asks for the last day of workloads that somebody looks at, and keeps it for a while. Clones share it.
#[derive(Clone, Debug)]
pub struct Pasts {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    prometheus: Prometheus,
    known: Mutex<HashMap<WorkloadKey, Entry>>,
    calls: Semaphore,
}

#[derive(Debug)]
struct Entry {
    answer: watch::Receiver<Answer>,
    /// When it was asked for last.
    began: Instant,
}

impl Entry {
    /// Whether it is being asked for: whoever does so has the other side.
    fn is_asked(&self) -> bool {
        self.answer.has_changed().is_ok()
    }
}

impl Pasts {
    /// Nothing is asked yet.
    pub fn new(prometheus: Prometheus) -> Self {
        let shared = Shared { prometheus, known: Mutex::default(), calls: Semaphore::new(AT_A_TIME) };
        Self { shared: Arc::new(shared) }
    }

    /// What is known of a workload. It is asked for in the background, if that was not done lately, and waited for no
    /// longer than `patience`; `None`: there is no answer yet.
    pub async fn look(&self, key: &WorkloadKey, patience: Duration) -> Option<Arc<LastDay>> {
        let mut answer = self.shared.begun(key);
        let known = answer.borrow_and_update().clone();
        if known.is_some() {
            return known;
        }
        // An end without an answer is none.
        let _ = timeout(patience, answer.changed()).await;
        answer.borrow().clone()
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, HashMap<WorkloadKey, Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the answer is, or will be.
    fn begun(self: &Arc<Self>, key: &WorkloadKey) -> watch::Receiver<Answer> {
        let mut known = self.known();
        if let Some(entry) = known.get(key)
            && (entry.is_asked() || entry.began.elapsed() < FRESH)
        {
            return entry.answer.clone();
        }
        if known.len() >= KEPT && !known.contains_key(key) {
            let oldest = known.iter().min_by_key(|(_, entry)| entry.began).map(|(key, _)| key.clone());
            oldest.map(|oldest| known.remove(&oldest));
        }
        // What was known is shown until there is something newer.
        let before = known.get(key).and_then(|entry| entry.answer.borrow().clone());
        let (sender, answer) = watch::channel(before);
        known.insert(key.clone(), Entry { answer: answer.clone(), began: Instant::now() });
        drop(known);
        let (shared, key) = (Arc::clone(self), key.clone());
        // It ends by itself: each call has its time.
        tokio::spawn(async move {
            let day = shared.ask(&key).await;
            sender.send_replace(Some(Arc::new(day)));
        });
        answer
    }

    async fn ask(&self, key: &WorkloadKey) -> LastDay {
        // Never closed; were it, there would be more calls at a time.
        let _permit = self.calls.acquire().await;
        let asked = Timestamp::now();
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        // On whole steps, so that Prometheus and caches in front of it see the same times again.
        let step = nanos(STEP);
        let to =
            i64::try_from(asked.as_nanosecond()).unwrap_or(i64::MAX).div_euclid(step).saturating_mul(step);
        let workload = &key.workload;
        let past = self
            .prometheus
            .past(&key.namespace, &workload.kind, &workload.name, to - nanos(BACK), to, STEP)
            .await;
        LastDay { asked, host: self.prometheus.host().to_owned(), step: STEP, past }
    }
}
