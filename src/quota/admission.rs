//! Pods that wait for the ledger: decided in batches, one write for each.
//!
//! While one batch is being written the next one gathers, so that the busier it is the more are decided by one write.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use plimsoll_core::objects::Objects;
use plimsoll_core::quota::Tree;
use plimsoll_core::quota::ledger::{Busy, Claim, Judged, Ledger, Request, Ruling, judge};
use plimsoll_core::quota::{UsageByNamespace, words};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::content::{self, Latest};
use super::store::{LedgerStore, LedgerVersion};
use crate::cluster::{WriteError, chance};
use crate::metrics::{ClaimEvent, Metrics};
use crate::status::Part;

/// So many requests may wait; more are told at once that it is busy.
const QUEUE: usize = 4096;
/// So many are decided by one write.
const BATCH: usize = 512;
/// The first pause after a conflict; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How soon it is looked again whether all know the tree.
const TREE_PAUSE: Duration = Duration::from_millis(50);

/// What a request is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// What was decided by this tree.
    Ruled(Ruling, Arc<Tree>),
    /// Nothing can be decided by the ledger as it is.
    NotReady(Busy),
    /// The time was too short.
    Late,
}

/// Where pods wait. Clones share it.
#[derive(Clone, Debug)]
pub struct Queue {
    waiting: mpsc::Sender<Waiting>,
    budget: Duration,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    deadline: Instant,
    answer: oneshot::Sender<Verdict>,
}

impl Queue {
    /// What becomes of a request; within the budget.
    pub async fn ask(&self, request: Request) -> Verdict {
        let deadline = Instant::now() + self.budget;
        let (answer, answered) = oneshot::channel();
        if self.waiting.try_send(Waiting { request, deadline, answer }).is_err() {
            return Verdict::Late;
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(_)) | Err(_) => Verdict::Late,
        }
    }
}

/// What may fail, as it is told.
const READ: &str = "read the quota ledger";
const WRITE: &str = "write the quota ledger";

/// Decides about what waits in a [`Queue`].
pub struct Decider<S> {
    store: S,
    objects: Arc<ArcSwap<Objects>>,
    metrics: Arc<Metrics>,
    latest: Latest,
    waiting: mpsc::Receiver<Waiting>,
}

impl<S> std::fmt::Debug for Decider<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decider").finish_non_exhaustive()
    }
}

/// The queue, and who decides about what is in it. `budget` is the longest that a request waits.
pub fn queue<S: LedgerStore>(
    store: S,
    objects: Arc<ArcSwap<Objects>>,
    metrics: Arc<Metrics>,
    latest: Latest,
    budget: Duration,
) -> (Queue, Decider<S>) {
    let (sender, waiting) = mpsc::channel(QUEUE);
    (Queue { waiting: sender, budget }, Decider { store, objects, metrics, latest, waiting })
}

impl<S: LedgerStore> Decider<S> {
    /// Decides until nobody can ask any more.
    pub async fn run(mut self) {
        loop {
            let mut batch = Vec::new();
            if self.waiting.recv_many(&mut batch, BATCH).await == 0 {
                return;
            }
            self.metrics.quota_batch(batch.len());
            self.decide(batch).await;
        }
    }

    /// Answers every request of a batch that is answered in time.
    async fn decide(&self, mut batch: Vec<Waiting>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let now = Instant::now();
            // Whoever asked has been told already that it took too long; nothing must be promised for it.
            batch.retain(|waiting| waiting.deadline > now && !waiting.answer.is_closed());
            let Some(deadline) = batch.iter().map(|waiting| waiting.deadline).max() else { return };
            let round = self.round(&mut batch);
            match timeout_at(deadline, round).await {
                Ok(Round::Done) | Err(_) => {}
                Ok(Round::Again) => {
                    sleep(pause / 2 + chance(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Ok(Round::TreeChanges) => sleep(TREE_PAUSE).await,
            }
        }
    }

    /// Judges what is left of a batch by the newest ledger. Whoever is refused is told so and leaves the batch; the
    /// others once what they were promised is written.
    async fn round(&self, batch: &mut Vec<Waiting>) -> Round {
        let Some(tree) = self.objects.load().quota_tree().map(|stored| Arc::clone(&stored.tree)) else {
            // The tree was deleted: nothing binds them any more.
            let none = Arc::new(Tree::default());
            answer(batch.drain(..), |_| Verdict::Ruled(Ruling::NotBound, Arc::clone(&none)));
            return Round::Done;
        };
        let (version, ledger) = match self.read(&tree).await {
            Ok(Some(read)) => {
                self.metrics.health().works(Part::QuotaLedger, READ);
                read
            }
            Ok(None) => {
                answer(batch.drain(..), |_| Verdict::NotReady(Busy::NotInitialised));
                return Round::Done;
            }
            Err(ReadFailure::Store(error)) => {
                if self.metrics.health().failed(Part::QuotaLedger, READ, &error) {
                    tracing::warn!(%error, "the quota ledger cannot be read");
                }
                return Round::Again;
            }
            Err(ReadFailure::Content(message)) => {
                if self.metrics.health().failed(Part::QuotaLedger, READ, message.clone()) {
                    tracing::error!(tree = tree.name, message, "the quota ledger cannot be used");
                }
                answer(batch.drain(..), |_| Verdict::NotReady(Busy::NotInitialised));
                return Round::Done;
            }
        };
        let requests: Vec<Request> = batch.iter().map(|waiting| waiting.request.clone()).collect();
        let Judged { rulings, ledger: next } =
            match judge(&ledger, &tree, &requests, Timestamp::now().as_second()) {
                Ok(judged) => judged,
                // It takes a moment until all have seen a change.
                Err(Busy::Generation { .. }) => return Round::TreeChanges,
                Err(busy) => {
                    answer(batch.drain(..), |_| Verdict::NotReady(busy.clone()));
                    return Round::Done;
                }
            };
        // A refusal that leaves no trace stays one, whatever becomes of the write.
        let mut held = Vec::new();
        let mut kept = Vec::new();
        for (waiting, ruling) in batch.drain(..).zip(rulings) {
            let writes = !waiting.request.dry_run
                && match &ruling {
                    Ruling::Admitted => true,
                    Ruling::Refused { entitled, .. } => *entitled,
                    Ruling::NotBound => false,
                };
            if writes && next.is_some() {
                kept.push(waiting);
                held.push(ruling);
            } else {
                let _ = waiting.answer.send(Verdict::Ruled(ruling, Arc::clone(&tree)));
            }
        }
        *batch = kept;
        let Some(next) = next.filter(|_| !batch.is_empty()) else { return Round::Done };
        match self.write(&tree, &version, &next).await {
            Ok(()) => {
                self.metrics.health().works(Part::QuotaLedger, WRITE);
                content::note(&self.latest, &tree, &next);
                self.count_claims(&ledger, &next);
                let rulings = held.into_iter();
                for (waiting, ruling) in batch.drain(..).zip(rulings) {
                    let _ = waiting.answer.send(Verdict::Ruled(ruling, Arc::clone(&tree)));
                }
                Round::Done
            }
            Err(WriteError::Conflict { .. } | WriteError::NotFound { .. }) => Round::Again,
            Err(error) => {
                // It may have been written. That is no harm: a promise is found again by the pod's UID.
                if self.metrics.health().failed(Part::QuotaLedger, WRITE, &error) {
                    tracing::warn!(%error, "the quota ledger cannot be written");
                }
                Round::Again
            }
        }
    }

    async fn read(&self, tree: &Tree) -> Result<Option<(LedgerVersion, Ledger)>, ReadFailure> {
        read(&self.store, &tree.name).await
    }

    async fn write(&self, tree: &Tree, version: &LedgerVersion, next: &Ledger) -> Result<(), WriteError> {
        let spec = content::write(next).map_err(|error| WriteError::Unavailable {
            what: "encode QuotaLedger".to_owned(),
            message: error.to_string(),
            retry_after: None,
        })?;
        self.store.replace(&tree.name, version, &spec).await.map(|_| ())
    }

    fn count_claims(&self, before: &Ledger, after: &Ledger) {
        let lacks =
            |claims: &[Claim], claim: &Claim| claims.iter().all(|other| !other.claimant.is(&claim.claimant));
        let opened = after.claims.iter().filter(|claim| lacks(&before.claims, claim)).count();
        let served = before.claims.iter().filter(|claim| lacks(&after.claims, claim)).count();
        for _ in 0..opened {
            self.metrics.quota_claim(ClaimEvent::Opened);
        }
        for _ in 0..served {
            self.metrics.quota_claim(ClaimEvent::Served);
        }
    }
}

/// How a round ended.
enum Round {
    /// Everybody is answered, or nobody more can be now.
    Done,
    /// Somebody else was faster, or the API server did not answer.
    Again,
    /// The ledger, or this replica, is behind the tree.
    TreeChanges,
}

/// Why there is no ledger to judge by.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    #[error("{0}")]
    Store(WriteError),
    #[error("{0}")]
    Content(String),
}

/// The newest state of a tree's ledger.
pub(super) async fn read<S: LedgerStore>(
    store: &S,
    tree: &str,
) -> Result<Option<(LedgerVersion, Ledger)>, ReadFailure> {
    let Some(stored) = store.read(tree).await.map_err(ReadFailure::Store)? else { return Ok(None) };
    let ledger = content::read(&stored.spec).map_err(|error| ReadFailure::Content(error.to_string()))?;
    Ok(Some((stored.version, ledger)))
}

fn answer(batch: impl Iterator<Item = Waiting>, verdict: impl Fn(&Request) -> Verdict) {
    for waiting in batch {
        // Nobody listens where the time was up.
        let verdict = verdict(&waiting.request);
        let _ = waiting.answer.send(verdict);
    }
}

/// What is used and promised by namespace, where the ledger can be read; for checking changes of the tree.
pub async fn usage<S: LedgerStore>(store: &S, tree: &str) -> Option<UsageByNamespace> {
    match read(store, tree).await {
        Ok(Some((_, ledger))) if ledger.initialised => Some(ledger.by_namespace()),
        _ => None,
    }
}

/// What a request is told that was not ruled about.
pub fn not_now(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::NotReady(Busy::NotInitialised | Busy::OtherTree) => words::NOT_COUNTED_YET,
        Verdict::NotReady(Busy::Generation { .. }) => words::TREE_IS_CHANGING,
        Verdict::Late | Verdict::Ruled(..) => words::BUSY,
    }
}
