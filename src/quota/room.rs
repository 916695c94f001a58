//! Makes room for claims: evicts borrowers, and tells owners when they can have what they claimed.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::pod::{Owner, Workload};
use plimsoll_core::quota::keeper::{Keeper, Wanted};
use plimsoll_core::quota::ledger::{Claimant, Ledger};
use plimsoll_core::quota::{Honour, Plan, Situation, Victim, plan};
use tokio::time::Instant;

use super::events;
use super::evict::Mode;
use super::{Evicted, Evictor, OwnerRetry, Retrier};
use crate::cluster::{Events, News};
use crate::status::{Failure, Health, Part};

/// Reservations that have been without a pod for longer than this, in milliseconds, cause no eviction.
const UNSEEN_MS: u64 = 5_000;
/// So many plans are made for one claim before the next round.
const PLANS: usize = 32;

/// So long the leader is busy with claims before it looks at the ledger again.
const TURN: Duration = Duration::from_secs(5);

/// What may fail, as it is told.
const EVICT: &str = "evict borrowers";

/// How far a plan came.
enum Progress {
    /// All are evicted.
    Done,
    /// Not all could be; another plan may do.
    PlanAgain,
    /// The API server does not answer.
    Failed,
}

/// Calls the API server for claims.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) evictor: Evictor,
    pub(super) retrier: Retrier,
    pub(super) events: Arc<Events>,
    pub(super) health: Health,
    pub(super) honour: Honour,
    pub(super) enabled: bool,
}

impl Room {
    /// Prompts whose room is free, and evicts for the others, the oldest claim first.
    pub(super) async fn serve(&self, keeper: &mut Keeper, ledger: &Ledger, now: u64) {
        let until = Instant::now() + TURN;
        let (prompts, wanted) = keeper.claims(ledger, now);
        for claimant in prompts {
            if Instant::now() >= until {
                return;
            }
            self.prompt(&claimant, now).await;
        }
        if !self.enabled {
            return;
        }
        for claim in wanted {
            // The ledger must not be left alone for longer; what is left has its turn later.
            if Instant::now() >= until || !self.make(keeper, ledger, &claim, now).await {
                return;
            }
        }
    }

    async fn prompt(&self, claimant: &Claimant, now: u64) {
        let owner = owner_of(claimant);
        match self.retrier.tell(&claimant.namespace, &owner, &format!("{now}")).await {
            Ok(OwnerRetry::Told) => {
                tracing::info!(
                    namespace = claimant.namespace,
                    owner = claimant.name,
                    "room is free, told to retry"
                );
            }
            Ok(OwnerRetry::Gone | OwnerRetry::Unpatchable) => {}
            Err(error) => {
                if self.health.failed(Part::QuotaKeeper, "tell owners of claims to retry", &error) {
                    tracing::warn!(%error, "the owner of a claim cannot be told to retry");
                }
                return;
            }
        }
        self.health.works(Part::QuotaKeeper, "tell owners of claims to retry");
    }

    /// Evicts for one claim. Whether the API server can be asked.
    async fn make(&self, keeper: &mut Keeper, ledger: &Ledger, wanted: &Wanted, now: u64) -> bool {
        for _ in 0..PLANS {
            let excluded = keeper.left_alone(now);
            let used = ledger.used(keeper.tree());
            let unseen = keeper.unseen(ledger, UNSEEN_MS, now);
            let planned = plan(&Situation {
                pods: keeper.candidates(),
                used: &used,
                claimed: &wanted.claimed,
                unseen: &unseen,
                leaf: wanted.leaf,
                charge: &wanted.claim.charge,
                blocks: &wanted.blocks,
                honour: &self.honour,
                excluded: &excluded,
            });
            let victims = match planned {
                Plan::Nothing => {
                    keeper.waits(wanted.claim.number, now);
                    return true;
                }
                Plan::Impossible => {
                    let note = format!(
                        "no pods that may be evicted would make room for {}; room that becomes free is held for it",
                        wanted.claim.charge
                    );
                    self.tell_owner(&wanted.claim.claimant, News::Warning, "QuotaReclaimImpossible", &note)
                        .await;
                    return true;
                }
                Plan::Victims(victims) => victims,
            };
            match self.evict(keeper, wanted, &victims, now).await {
                Progress::Done => {
                    keeper.waits(wanted.claim.number, now);
                    return true;
                }
                Progress::PlanAgain => {}
                Progress::Failed => return false,
            }
        }
        true
    }

    /// Evicts all victims of a plan, or none. Who cannot be evicted now is left alone for a while.
    async fn evict(&self, keeper: &mut Keeper, wanted: &Wanted, victims: &[Victim], now: u64) -> Progress {
        for mode in [Mode::DryRun, Mode::Real] {
            for Victim { pod, .. } in victims {
                let answer = self.evictor.evict(&pod.namespace, &pod.name, &pod.uid, mode).await;
                // Who may evict, and is answered, can evict, also where a budget says no.
                if matches!(answer, Evicted::Yes | Evicted::Gone | Evicted::Refused { may_not: false, .. }) {
                    self.health.works(Part::QuotaKeeper, EVICT);
                }
                match answer {
                    Evicted::Yes if mode == Mode::DryRun => {}
                    Evicted::Yes => {
                        keeper.evicted(&pod.uid);
                        self.tell(wanted, pod).await;
                    }
                    // Its room is free already, or soon.
                    Evicted::Gone => {
                        keeper.evicted(&pod.uid);
                        if mode == Mode::DryRun {
                            return Progress::PlanAgain;
                        }
                    }
                    Evicted::Refused { message, may_not } => {
                        if may_not {
                            let told = Failure { message: message.clone(), forbidden: true };
                            if self.health.failed(Part::QuotaKeeper, EVICT, told) {
                                tracing::warn!(why = message, "borrowers may not be evicted");
                            }
                        }
                        tracing::debug!(
                            namespace = &*pod.namespace,
                            pod = &*pod.name,
                            message,
                            "not evicted"
                        );
                        keeper.refused(&pod.namespace, &pod.name, now);
                        return Progress::PlanAgain;
                    }
                    Evicted::Failed(error) => {
                        if self.health.failed(Part::QuotaKeeper, EVICT, &error) {
                            tracing::warn!(%error, "an eviction failed; trying again");
                        }
                        return Progress::Failed;
                    }
                }
            }
        }
        Progress::Done
    }

    async fn tell(&self, wanted: &Wanted, pod: &plimsoll_core::quota::QuotaPod) {
        let claimant = &wanted.claim.claimant;
        tracing::info!(
            namespace = &*pod.namespace,
            pod = &*pod.name,
            claimant = claimant.name,
            claimant_namespace = claimant.namespace,
            "evicted, its room was borrowed"
        );
        let note = format!(
            "evicted: its namespace borrows, and {} {}/{} needs {} of what its own is guaranteed",
            claimant.kind, claimant.namespace, claimant.name, wanted.claim.charge
        );
        self.events.publish(&events::of_pod(pod), News::Warning, "QuotaReclaimed", "Evict", &note).await;
        let note = format!(
            "pod {}/{} was evicted to make room for {}",
            pod.namespace, pod.name, wanted.claim.charge
        );
        self.tell_owner(claimant, News::Normal, "QuotaReclaim", &note).await;
    }

    async fn tell_owner(&self, claimant: &Claimant, news: News, reason: &'static str, note: &str) {
        // A pod that was refused does not exist.
        if claimant.uid.is_empty() {
            return;
        }
        let regarding = events::of_owner(&claimant.namespace, &owner_of(claimant));
        self.events.publish(&regarding, news, reason, "Reclaim", note).await;
    }
}

fn owner_of(claimant: &Claimant) -> Owner {
    let group = claimant.api_version.split_once('/').map_or("", |(group, _)| group);
    Owner {
        workload: Workload {
            group: group.to_owned(),
            kind: claimant.kind.clone(),
            name: claimant.name.clone(),
        },
        api_version: claimant.api_version.clone(),
        uid: claimant.uid.clone(),
    }
}
