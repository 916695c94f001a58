//! The one replica that makes and replaces the authority, and keeps every `caBundle` right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Authority;
use super::authority::{AuthorityError, Root};
use super::bundles::{Bundles, Seen, WEBHOOKS};
use super::plan::{self, Bundle, BundleState, Reason, Steady, Step, Timing, View};
use super::secret::{self, Authorities, Content};
use super::store::{SecretStore, StoreError};
use crate::cluster::{WriteError, chance};
use crate::metrics::{Metrics, RotationStep, WriteResult};
use crate::server::health::Condition;
use crate::server::tls::Clock;

/// What the name of an authority begins with.
const NAME: &str = "plimsoll CA";
/// After a conflict it is looked again within this time.
const SOON: Duration = Duration::from_secs(1);
/// After a patch was refused it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(10);
/// So many conflicts in a row are told: whoever only was faster is not so each time.
const CONFLICTS: u32 = 5;

/// What the leader needs.
#[derive(Clone)]
pub struct Parts {
    /// Where the Secret is.
    pub store: SecretStore,
    /// Where the API server is told whom to trust.
    pub bundles: Bundles,
    /// How long things last.
    pub timing: Timing,
    /// How often all of it is looked at.
    pub interval: Duration,
    /// The clock on the wall.
    pub clock: Clock,
    /// Says what is wrong.
    pub condition: Condition,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("store", &self.store)
            .field("bundles", &self.bundles)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// Why a round came to nothing.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("Secret {name} {problem}")]
    Content { name: String, problem: secret::ContentError },
    #[error(transparent)]
    Bundle(#[from] WriteError),
    /// What was refused, and when it is tried again.
    #[error("{0}")]
    Refused(String),
    #[error("no authority can be made: {0}")]
    Make(#[from] AuthorityError),
}

impl RoundError {
    /// Whether somebody else was faster, so that it only has to be looked again.
    fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Bundle(WriteError::Conflict { .. })
                | Self::Store(StoreError::Call(WriteError::Conflict { .. }))
        )
    }
}

/// What a round came to.
enum Done {
    /// Something was written; there may be more to do.
    More,
    /// Nothing for a while; and what is wrong, if anything is.
    Idle { at_most: Option<Duration>, wrong: Option<String> },
}

/// Keeps until `token` is cancelled.
pub async fn keep(parts: Parts, token: CancellationToken) {
    let condition = parts.condition.clone();
    let metrics = Arc::clone(&parts.metrics);
    let mut keeper = Keeper {
        parts,
        steady: Steady::default(),
        started: Instant::now(),
        said: None,
        refused: BTreeMap::new(),
        conflicts: 0,
    };
    loop {
        let pause = tokio::select! {
            pause = keeper.round() => pause,
            () = token.cancelled() => break,
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = token.cancelled() => break,
        }
    }
    // Another replica tells of it from now on.
    condition.ready();
    metrics.degraded("certificate_authority", false);
}

struct Keeper {
    parts: Parts,
    steady: Steady,
    started: Instant,
    /// What was complained about last.
    said: Option<String>,
    /// What may not be written, why, and when it was tried last.
    refused: BTreeMap<String, (String, Instant)>,
    /// So many rounds in a row somebody else was faster.
    conflicts: u32,
}

impl Keeper {
    /// Looks, and does one step. How long to wait before the next round.
    async fn round(&mut self) -> Duration {
        let step = self.step().await;
        let conflict = step.as_ref().is_err_and(RoundError::is_conflict);
        self.conflicts = if conflict { self.conflicts.saturating_add(1) } else { 0 };
        let (pause, wrong) = match step {
            Ok(Done::More) => return Duration::ZERO,
            Ok(Done::Idle { at_most, wrong }) => {
                let pause = self.parts.interval.min(self.next_try());
                (at_most.map_or(pause, |most| most.min(pause)), wrong)
            }
            Err(error) if error.is_conflict() => {
                tracing::debug!(%error, "looking again");
                self.steady.forget();
                if self.conflicts >= CONFLICTS {
                    self.say(Some(format!("{error}, again and again: somebody else keeps writing it")));
                }
                return chance(SOON);
            }
            Err(error) => {
                self.steady.forget();
                (self.parts.interval.min(self.next_try()), Some(error.to_string()))
            }
        };
        self.say(wrong);
        pause
    }

    fn say(&mut self, wrong: Option<String>) {
        self.parts.metrics.degraded("certificate_authority", wrong.is_some());
        match &wrong {
            None => self.parts.condition.ready(),
            Some(wrong) => {
                self.parts.condition.degraded(wrong.clone());
                if self.said.as_ref() != Some(wrong) {
                    tracing::warn!(
                        problem = wrong,
                        "the authority of certificates cannot be kept as it should be"
                    );
                }
            }
        }
        self.said = wrong;
    }

    async fn step(&mut self) -> Result<Done, RoundError> {
        // In this order: a patch is about a state that was seen before the Secret was, so that it fails if another
        // leader has published since.
        let mut seen = self.parts.bundles.read().await;
        let found = self.parts.store.read().await?;
        let content = secret::read(&found)
            .map_err(|problem| RoundError::Content { name: self.parts.store.name().to_owned(), problem })?;
        let now = (self.parts.clock)();
        let rotate = secret::rotate(&found);
        let authorities = match &content {
            Content::Ours(authorities) => authorities.clone(),
            Content::Empty => Authorities::default(),
        };
        if self.next_try().is_zero() {
            let bundles: Vec<Bundle> = seen.iter().map(|seen| seen.bundle.clone()).collect();
            let view = View { content: &content, rotate, bundles: &bundles, now, steady: Duration::ZERO };
            match plan::next(&view, &self.parts.timing) {
                Step::Publish(wanted) if self.try_again(&seen, &wanted).await? => return Ok(Done::More),
                // What it holds comes first; then it is tried.
                Step::Adopt(_) => self.refused.clear(),
                _ => {}
            }
        }
        self.close_refused(&mut seen, &authorities.bundle());
        let bundles: Vec<Bundle> = seen.iter().map(|seen| seen.bundle.clone()).collect();
        let steady = self.steady.seen(&content, &bundles, self.started.elapsed());
        let view = View { content: &content, rotate, bundles: &bundles, now, steady };
        let current = authorities.current.as_ref();
        self.parts.metrics.certificate_authority(
            current.map(|current| current.root().ends_and_renew(self.parts.timing.margin())),
        );
        match plan::next(&view, &self.parts.timing) {
            Step::Make { keep, reason } => self.make(&found, &authorities, &keep, reason, rotate).await,
            Step::Adopt(others) => {
                self.write(RotationStep::Adopt, &found, &authorities.adopted(&others, now)).await?;
                tracing::info!(
                    others = others.len(),
                    "a caBundle held authorities of another source; they stay trusted beside ours for a while"
                );
                Ok(Done::More)
            }
            Step::Publish(wanted) => self.publish(&seen, &wanted).await,
            Step::Switch => {
                self.write(RotationStep::Switch, &found, &authorities.switched(now)).await?;
                tracing::info!("the new authority is in force; replicas sign with it from now on");
                Ok(Done::More)
            }
            Step::Drop => {
                self.write(RotationStep::Drop, &found, &authorities.dropped()).await?;
                tracing::info!("the former authority is no longer trusted");
                Ok(Done::More)
            }
            Step::Wait(why, left) => {
                tracing::debug!(why, ?left, "waiting");
                Ok(Done::Idle { at_most: left, wrong: self.unpublished(&seen) })
            }
            Step::Blocked(why) => Ok(Done::Idle {
                at_most: None,
                wrong: Some(format!("the new authority waits until it is published everywhere: {why}")),
            }),
            Step::Nothing => Ok(Done::Idle { at_most: None, wrong: self.unpublished(&seen) }),
        }
    }

    /// Who is not told whom to trust, if it is anybody.
    fn unpublished(&self, seen: &[Seen]) -> Option<String> {
        let unknown = seen.iter().find_map(|seen| match &seen.bundle.state {
            BundleState::Unknown(why) | BundleState::Closed(why, _) => Some(why.clone()),
            BundleState::Absent | BundleState::Holds(_) => None,
        });
        unknown.or_else(|| {
            let service = self.parts.bundles.service();
            seen.iter().all(|seen| seen.bundle.state == BundleState::Absent).then(|| {
                format!(
                    "neither MutatingWebhookConfiguration {WEBHOOKS} nor ValidatingWebhookConfiguration {WEBHOOKS} names \
                     Service {}/{}, so that nobody calls this server; apply the manifests, and check tls.selfManaged.service \
                     and admission.ownNamespace",
                    service.namespace, service.name
                )
            })
        })
    }

    async fn make(
        &self,
        found: &Value,
        authorities: &Authorities,
        keep: &[Root],
        reason: Reason,
        rotate: Option<&str>,
    ) -> Result<Done, RoundError> {
        let authority = Authority::make(NAME, self.parts.timing.authority_lifetime, (self.parts.clock)())?;
        let (subject, not_after) = (authority.root().subject(), authority.root().not_after());
        self.write(RotationStep::Make, found, &authorities.made(Arc::new(authority), keep, rotate)).await?;
        tracing::info!(subject, %not_after, reason = reason.text(), kept = keep.len(), "a new authority was made");
        Ok(Done::More)
    }

    async fn write(
        &self,
        step: RotationStep,
        found: &Value,
        authorities: &Authorities,
    ) -> Result<(), StoreError> {
        let written = self.parts.store.replace(&secret::with(found, authorities)).await;
        let result = match &written {
            Ok(()) => WriteResult::Success,
            Err(StoreError::Call(WriteError::Conflict { .. })) => WriteResult::Conflict,
            Err(_) => WriteResult::Failure,
        };
        self.parts.metrics.certificate_rotation(step, result);
        written
    }

    /// Writes what is not as wanted; each is tried.
    async fn publish(&mut self, seen: &[Seen], wanted: &[Root]) -> Result<Done, RoundError> {
        let mut result = Ok(Done::More);
        for seen in seen.iter().filter(|seen| matches!(seen.bundle.state, BundleState::Holds(_))) {
            // A refusal is told rather than a conflict: somebody has to do something about it.
            if let Err(error) = self.publish_one(seen, wanted).await
                && (result.is_ok() || !error.is_conflict())
            {
                result = Err(error);
            }
        }
        result
    }

    /// Writes one, and notes whether that is refused. Whether it was written.
    async fn publish_one(&mut self, seen: &Seen, wanted: &[Root]) -> Result<bool, RoundError> {
        let published = self.parts.bundles.publish(seen, wanted).await;
        let at = &seen.bundle.at;
        if !matches!(published, Ok(false)) {
            self.parts.metrics.ca_bundle_patch(match &published {
                Ok(_) => WriteResult::Success,
                Err(WriteError::Conflict { .. }) => WriteResult::Conflict,
                Err(_) => WriteResult::Failure,
            });
        }
        match published {
            Ok(written) => {
                self.refused.remove(at);
                if written {
                    tracing::info!(object = at, authorities = wanted.len(), "caBundle written");
                }
                Ok(written)
            }
            Err(error @ (WriteError::Forbidden { .. } | WriteError::Refused { .. })) => {
                let why = format!("{error}; it is tried again every {} s", AGAIN.as_secs());
                self.refused.insert(at.clone(), (why.clone(), Instant::now()));
                Err(RoundError::Refused(why))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// How long until something that was refused is tried again; for ever if nothing was.
    fn next_try(&self) -> Duration {
        let tries = self.refused.values().map(|(_, last)| AGAIN.saturating_sub(last.elapsed()));
        tries.min().unwrap_or(Duration::MAX)
    }

    /// Tries again what was refused some time ago. Whether something was written.
    async fn try_again(&mut self, seen: &[Seen], wanted: &[Root]) -> Result<bool, RoundError> {
        let mut written = false;
        for seen in seen.iter().filter(|seen| matches!(seen.bundle.state, BundleState::Holds(_))) {
            let last = self.refused.get(&seen.bundle.at).map(|(_, last)| last.elapsed());
            if last.is_none_or(|last| last < AGAIN) {
                continue;
            }
            match self.publish_one(seen, wanted).await {
                Ok(done) => written |= done,
                Err(RoundError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// What was refused is seen as closed until it is as wanted: so that nothing changes by its being tried again, and
    /// what is waited for comes.
    fn close_refused(&mut self, seen: &mut [Seen], wanted: &[Root]) {
        self.refused.retain(|at, _| seen.iter().any(|seen| seen.bundle.at == *at));
        for Bundle { at, state } in seen.iter_mut().map(|seen| &mut seen.bundle) {
            let BundleState::Holds(entries) = &*state else { continue };
            if entries.iter().all(|held| plan::same(held, wanted)) {
                self.refused.remove(at);
            } else if let Some((why, _)) = self.refused.get(at) {
                *state = BundleState::Closed(why.clone(), entries.concat());
            }
        }
    }
}
