//! The rounds of the leader.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use kube::Client;
use plimsoll_core::balance::{Claims, Move, NodeView, QuotaRoom, Round, State, Verdict};
use plimsoll_core::placement::WorkloadKey;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::MANAGER;
use super::answers::{self, EVICT};
use super::claims::ClaimReader;
use super::memory::{Memory, Remembered};
use super::plan::{plan_by, settings};
use super::refusals::Refusals;
use super::report::{Outcome, Report};
use super::rounds::Rounds;
use crate::cluster::{Events, Evicted, EvictionMode, Evictor, News, reference};
use crate::config;
use crate::metrics::{BalanceEviction, Metrics};
use crate::placement::{PlacementState, now};
use crate::quota::content::{Known, Latest};
use crate::status::{Failure, Part};

/// So many pods are tried in a round, if `PodDisruptionBudget`s do not allow those before.
const MOST_TRIES: usize = 5;
/// When what the last leader has left cannot be read, it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(5);
/// What this replica heard of the ledger longer ago says nothing. The leader of quota, and whoever admits pods, hear of each change.
const LEDGER_AGE: Duration = Duration::from_secs(300);
/// The cap counts evictions of an hour.
const HOUR: Duration = Duration::from_secs(3_600);

/// What the controller needs of its process.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its settings, as they are now: each round goes by the newest, and each eviction by the newest `dryRun`.
    pub config: Arc<ArcSwap<config::Balance>>,
    /// Where the lease is.
    pub own_namespace: String,
    /// Who we are in the lease.
    pub identity: String,
    /// What is known of nodes and pods.
    pub placement: PlacementState,
    /// What is known of quota; empty without it.
    pub quota: Latest,
    /// Where rounds are told.
    pub rounds: Rounds,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Balances until `cancelled`: what the leader does.
pub async fn balance(client: Client, parts: Parts, cancelled: CancellationToken) {
    let (rounds, metrics) = (parts.rounds.clone(), Arc::clone(&parts.metrics));
    let mut controller = Controller::new(client, parts, cancelled.clone());
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = controller.run() => {}
    }
    // Another replica tells of them from now on.
    rounds.clear();
    metrics.balance_ends();
}

/// What may fail, as it is told.
const MEMO: &str = "note evictions on the lease";

struct Controller {
    parts: Parts,
    state: State,
    memory: Memory,
    claims: ClaimReader,
    refusals: Refusals,
    evictor: Evictor,
    events: Events,
    cancelled: CancellationToken,
    /// What came of the last round.
    last: Option<&'static str>,
}

/// How a try to evict a pod went on.
enum Tried {
    /// This round is over.
    Done,
    /// The next pod may be tried.
    Next,
}

impl Controller {
    fn new(client: Client, parts: Parts, cancelled: CancellationToken) -> Self {
        Self {
            memory: Memory::new(client.clone(), &parts.own_namespace, &parts.identity),
            claims: ClaimReader::new(client.clone()),
            refusals: Refusals::default(),
            evictor: Evictor::new(client.clone(), MANAGER),
            events: Events::new(client, MANAGER).with_health(parts.metrics.health()),
            state: State::default(),
            cancelled,
            last: None,
            parts,
        }
    }

    async fn run(&mut self) {
        self.remember().await;
        let mut ticks = interval(self.parts.config.load().interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.round().await;
        }
    }

    /// Begins with what the leader before has done.
    async fn remember(&mut self) {
        loop {
            match self.memory.read().await {
                Ok(Remembered::Evictions(evictions)) => {
                    self.parts.metrics.health().works(Part::Balance, MEMO);
                    self.state = State::remembering(evictions, now());
                    return;
                }
                Ok(Remembered::Unreadable(why)) => {
                    let pause = self.parts.config.load().cooldown.max(HOUR);
                    tracing::warn!(
                        why,
                        annotation = super::MEMO,
                        "what the last leader has evicted cannot be read; waiting until all pauses and the hour of the cap are over"
                    );
                    sleep(pause).await;
                    return;
                }
                Err(error) => {
                    if self.parts.metrics.health().failed(Part::Balance, MEMO, &error) {
                        tracing::warn!(%error, "what the last leader has evicted cannot be read; trying again");
                    }
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// One round.
    async fn round(&mut self) {
        let known = self.claims.known();
        let (mut round, mut seconds) = self.plan(known).await;
        if !round.unread.is_empty() && self.is_worth_reading(&round) {
            let known = self.claims.read(&round.unread).await;
            (round, seconds) = self.plan(known).await;
        }
        self.parts.metrics.balance_round(&round, seconds);
        for past in &round.came_back {
            tracing::info!(
                workload = past.workload,
                node = past.node,
                "a pod of the workload came back to the node; its pause is twice as long"
            );
        }
        let mut report = Report::of(&round);
        self.state = std::mem::take(&mut round.state);
        if self.last == Some(report.verdict) {
            tracing::debug!(verdict = report.verdict, why = report.why, "balance");
        } else {
            tracing::info!(verdict = report.verdict, why = report.why, "balance");
            self.last = Some(report.verdict);
        }
        if let (Verdict::Evict { .. }, Some(source)) = (&round.verdict, &round.source) {
            self.act(&round, source, &mut report).await;
        }
        self.tell_of_stuck(&round).await;
        self.parts.rounds.add(report);
    }

    /// Claims are read only where pods may be moved.
    fn is_worth_reading(&self, round: &Round) -> bool {
        matches!(round.verdict, Verdict::Evict { .. } | Verdict::NoCandidate { .. })
            && !self.cancelled.is_cancelled()
    }

    /// Plans on a thread of its own: it takes a while, and others want to go on. Also how many seconds it took.
    async fn plan(&self, claims: Claims) -> (Round, f64) {
        let (placement, state) = (self.parts.placement.clone(), self.state.clone());
        let ledger = self.parts.quota.load_full().filter(|known| is_recent(known));
        let settings = settings(&self.parts.config.load(), placement.settings.load().flood.node_lost);
        let planned = spawn_blocking(move || {
            let uses = placement.uses.load_full();
            let began = Instant::now();
            let quota = ledger.as_ref().map(|known| QuotaRoom::new(&known.tree, &known.ledger));
            let round = placement.decide_at_leisure(now(), |view| {
                let oldest = view.now.saturating_sub(nanos(view.settings.load.maximum_age));
                let containers = if uses.taken >= oldest { &uses.containers[..] } else { &[] };
                plan_by(view, containers, &claims, quota.as_ref(), &settings, &state)
            });
            (round, began.elapsed().as_secs_f64())
        });
        match planned.await {
            Ok(planned) => planned,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Evicts the first of the candidates that can be.
    async fn act(&mut self, round: &Round, source: &NodeView, report: &mut Report) {
        self.refusals.begin_round();
        let mut refused: HashSet<&WorkloadKey> = HashSet::new();
        let mut tries = 0;
        for index in self.refusals.order(&round.candidates) {
            let Some(goes) = round.candidates.get(index) else { continue };
            // A budget that does not allow one pod of a workload does not allow the next one either.
            if refused.contains(&goes.workload) {
                continue;
            }
            if self.cancelled.is_cancelled() || tries == MOST_TRIES {
                return;
            }
            tries += 1;
            let (outcome, message, goes_on) = if self.parts.config.load().dry_run {
                self.ask(round, source, goes).await
            } else {
                self.evict(round, source, goes).await
            };
            if outcome == Outcome::Refused {
                self.refusals.note(&goes.workload);
                refused.insert(&goes.workload);
            }
            self.parts.metrics.balance_eviction(counted(outcome));
            self.tell(source, goes, outcome, message.as_deref()).await;
            report.note(index, outcome, message);
            if let Tried::Done = goes_on {
                return;
            }
        }
    }

    /// Asks whether a pod could be evicted, so that a dry run does not promise what a budget forbids.
    async fn ask(
        &mut self,
        round: &Round,
        source: &NodeView,
        goes: &Move,
    ) -> (Outcome, Option<String>, Tried) {
        let (namespace, name) = (&goes.pod.namespace, &goes.pod.name);
        let asked = self.evictor.evict(namespace, name, &goes.uid, EvictionMode::DryRun).await;
        answers::note(self.parts.metrics.health(), &asked);
        let unknown = match asked {
            Evicted::Yes => None,
            Evicted::Gone => return (Outcome::Gone, None, Tried::Done),
            Evicted::Refused { message, may_not: false } => {
                return (Outcome::Refused, Some(message), Tried::Next);
            }
            Evicted::Refused { message, may_not: true } => {
                let told = Failure { message: message.clone(), forbidden: true };
                if self.parts.metrics.health().failed(Part::Balance, EVICT, told) {
                    tracing::warn!(why = message, "evictions are not allowed");
                }
                Some(message)
            }
            Evicted::Failed(error) => Some(error.to_string()),
        };
        self.state.note(goes.past(&source.name, round.now, false));
        let message =
            unknown.map(|why| format!("whether a PodDisruptionBudget allows it could not be asked: {why}"));
        (Outcome::WouldBeEvicted, message, Tried::Done)
    }

    async fn evict(
        &mut self,
        round: &Round,
        source: &NodeView,
        goes: &Move,
    ) -> (Outcome, Option<String>, Tried) {
        // Before it is done: the next leader must know of it, and nobody can write there who does not lead.
        self.state.note(goes.past(&source.name, round.now, true));
        match self.memory.write(&self.state, round.now).await {
            Ok(true) => {
                self.parts.metrics.health().works(Part::Balance, MEMO);
            }
            Ok(false) => {
                self.state.take_back(&goes.workload);
                let message = "another replica leads now".to_owned();
                return (Outcome::Withheld, Some(message), Tried::Done);
            }
            Err(error) => {
                self.state.take_back(&goes.workload);
                if self.parts.metrics.health().failed(Part::Balance, MEMO, &error) {
                    tracing::warn!(%error, "an eviction could not be noted on the lease, and is not done");
                }
                return (Outcome::Withheld, Some(error.to_string()), Tried::Done);
            }
        }
        let (namespace, name) = (&goes.pod.namespace, &goes.pod.name);
        let evicted = self.evictor.evict(namespace, name, &goes.uid, EvictionMode::Real).await;
        answers::note(self.parts.metrics.health(), &evicted);
        match evicted {
            Evicted::Yes => (Outcome::Evicted, None, Tried::Done),
            Evicted::Gone => {
                // The node is less busy now; by how much, the next round knows better.
                self.state.take_back(&goes.workload);
                (Outcome::Gone, None, Tried::Done)
            }
            Evicted::Refused { message, may_not } => {
                if may_not {
                    let told = Failure { message: message.clone(), forbidden: true };
                    if self.parts.metrics.health().failed(Part::Balance, EVICT, told) {
                        tracing::warn!(why = message, "evictions are not allowed");
                    }
                }
                self.state.take_back(&goes.workload);
                (Outcome::Refused, Some(message), Tried::Next)
            }
            // It may have been evicted all the same, and counts as if it had been.
            Evicted::Failed(error) => {
                if self.parts.metrics.health().failed(Part::Balance, EVICT, &error) {
                    tracing::warn!(%error, "an eviction failed");
                }
                (Outcome::Failed, Some(error.to_string()), Tried::Done)
            }
        }
    }

    /// Says what became of a pod: in the log, and in events on the pod and its node.
    async fn tell(&self, source: &NodeView, goes: &Move, outcome: Outcome, message: Option<&str>) {
        let figures = format!(
            "node {} is used by {:.3}, {:.3} above the mean, and {} is {:.3} of it; node {} has room",
            source.name, source.usage, source.deviation, goes.pod, goes.part, goes.target
        );
        let (namespace, pod, node) = (&*goes.pod.namespace, &*goes.pod.name, &*source.name);
        let (reason, text) = match outcome {
            Outcome::Evicted => {
                tracing::info!(
                    namespace,
                    pod,
                    node,
                    target = &*goes.target,
                    part = goes.part,
                    "evicted for balance"
                );
                ("BalanceEvicted", format!("evicted: {figures}"))
            }
            Outcome::WouldBeEvicted => {
                tracing::info!(
                    namespace,
                    pod,
                    node,
                    target = &*goes.target,
                    part = goes.part,
                    "would be evicted for balance"
                );
                (
                    "BalanceDryRun",
                    format!("would be evicted, but placement.balance.dryRun is true: {figures}"),
                )
            }
            Outcome::Refused => {
                tracing::info!(namespace, pod, node, message, "not evicted; another pod may be");
                return;
            }
            Outcome::Gone | Outcome::Failed | Outcome::Withheld | Outcome::Later => return,
        };
        let regarding = reference("v1", "Pod", namespace, pod, &goes.uid);
        self.events.publish(&regarding, News::Normal, reason, "Balance", &text).await;
        self.tell_node(source, News::Normal, reason, &format!("pod {}: {text}", goes.pod)).await;
    }

    /// Says of which nodes no pod may go.
    async fn tell_of_stuck(&self, round: &Round) {
        let is_stuck = matches!(round.verdict, Verdict::NoCandidate { .. } | Verdict::NoTarget { .. });
        let source = round.source.iter().filter(|_| is_stuck);
        for node in source.chain(round.stuck.iter().map(|stuck| &stuck.node)) {
            let what = if matches!(round.verdict, Verdict::NoTarget { .. }) {
                "no node has room for its pods"
            } else {
                "none of its pods may go"
            };
            let text = format!(
                "used by {:.3}, {:.3} above the mean, but {what}; /api/v1/balance of {} says why",
                node.usage, node.deviation, self.parts.identity
            );
            self.tell_node(node, News::Warning, "BalanceImpossible", &text).await;
        }
    }

    async fn tell_node(&self, node: &NodeView, kind: News, reason: &'static str, text: &str) {
        let objects = self.parts.placement.objects.load_full();
        let uid = objects.node(&node.name).map(|node| node.uid.clone()).unwrap_or_default();
        let regarding = reference("v1", "Node", "", &node.name, &uid);
        self.events.publish(&regarding, kind, reason, "Balance", text).await;
    }
}

/// Whether a ledger still says something.
fn is_recent(known: &Known) -> bool {
    Timestamp::now().duration_since(known.at).unsigned_abs() < LEDGER_AGE
}

const fn nanos(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000)
}

const fn counted(outcome: Outcome) -> BalanceEviction {
    match outcome {
        Outcome::Evicted => BalanceEviction::Evicted,
        Outcome::WouldBeEvicted => BalanceEviction::DryRun,
        Outcome::Gone => BalanceEviction::Gone,
        Outcome::Refused => BalanceEviction::Refused,
        Outcome::Failed => BalanceEviction::Failed,
        Outcome::Withheld | Outcome::Later => BalanceEviction::Withheld,
    }
}
