//! The certificate that a replica signs for itself: what with, when, and for how long.
//!
//! The authority is what the Secret said when it was read last. A replica that has not read it for `publishFor` signs
//! nothing more: the authority may no longer be the one in force. It goes on with the certificate that it has, which ends
//! before the authority leaves the `caBundle`s.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::authority::{Authority, AuthorityError, SKEW, later};
use super::secret::{Authorities, Content, read};
use super::store::SecretStore;
use crate::metrics::Metrics;
use crate::server::health::Condition;
use crate::server::tls::Clock;

/// When a certificate is valid, and when it is replaced. All by the clock on the wall: after a machine was suspended
/// the next look finds it due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub from: Timestamp,
    /// It is replaced then.
    pub renew: Timestamp,
    /// Until then.
    pub until: Timestamp,
}

impl Validity {
    /// Of one that is signed now: for `lifetime`, or as long as its authority; replaced when a third is left.
    ///
    /// # Errors
    /// The clock is beyond what X.509 can say.
    pub fn of_new(authority: &Authority, lifetime: Duration, now: Timestamp) -> Result<Self, AuthorityError> {
        let until = later(now, lifetime)?.min(authority.root().not_after());
        let long: Duration = until.duration_since(now).try_into().unwrap_or_default();
        let from = now.checked_sub(SKEW).unwrap_or(Timestamp::MIN);
        Ok(Self { from, renew: later(now, long * 2 / 3)?, until })
    }

    /// Whether it is time for another one; also when the clock was set back to before it began.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.renew || now < self.from
    }
}

/// What the Secret said last.
#[derive(Debug)]
struct Holding {
    authority: Option<Arc<Authority>>,
    confirmed: Timestamp,
    /// Why there is nothing newer; empty when there is nothing to say.
    why: String,
}

/// What a replica may sign with. Clones share it.
#[derive(Clone)]
pub struct Held {
    holding: Arc<ArcSwap<Holding>>,
    news: Arc<Notify>,
    /// How long what was read may be signed with.
    longest: Duration,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("holding", &self.holding.load()).finish_non_exhaustive()
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.holding, &other.holding)
    }
}

impl Eq for Held {}

impl Held {
    /// Nothing yet. What is read later may be signed with for `longest`; no longer than a new authority is published
    /// before it is used.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        let holding = Holding {
            authority: None,
            confirmed: Timestamp::MIN,
            why: "the Secret was not read yet".to_owned(),
        };
        Self { holding: Arc::new(ArcSwap::from_pointee(holding)), news: Arc::default(), longest }
    }

    /// Notes what the Secret said at `now`.
    pub fn confirm(&self, authority: Arc<Authority>, now: Timestamp) {
        let is_new = self.holding.load().authority.as_ref() != Some(&authority);
        let holding = Holding { authority: Some(authority), confirmed: now, why: String::new() };
        self.holding.store(Arc::new(holding));
        if is_new {
            self.news.notify_waiters();
        }
    }

    /// Notes why the Secret said nothing that can be used. What it said before, counts on for a while.
    pub fn lacks(&self, why: &str) {
        let last = self.holding.load();
        let (authority, confirmed) = (last.authority.clone(), last.confirmed);
        self.holding.store(Arc::new(Holding { authority, confirmed, why: why.to_owned() }));
    }

    /// What may be signed with now.
    #[must_use]
    pub fn usable(&self, now: Timestamp) -> Option<Arc<Authority>> {
        let holding = self.holding.load();
        // A clock that was set back says nothing of how long ago it was.
        let age = Duration::try_from(now.duration_since(holding.confirmed)).ok()?;
        holding.authority.clone().filter(|authority| age <= self.longest && authority.root().is_valid(now))
    }

    /// Why nothing can be read; empty: it can.
    #[must_use]
    pub fn why(&self) -> String {
        self.holding.load().why.clone()
    }

    /// Waits until there is a new authority.
    pub(crate) async fn changed(&self) {
        self.news.notified().await;
    }
}

/// What a replica needs to follow the Secret.
pub struct Follower {
    /// Where the Secret is.
    pub store: SecretStore,
    /// Where what it says is noted.
    pub held: Held,
    /// How often it is read.
    pub interval: Duration,
    /// The authority should be replaced when this is left of it.
    pub margin: Duration,
    /// The clock on the wall.
    pub clock: Clock,
    /// Says what is wrong.
    pub condition: Condition,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Follower {
    /// Reads the Secret again and again until `cancelled`.
    pub async fn run(self, cancelled: CancellationToken) {
        let said = Mutex::new(None);
        self.condition.degraded("the Secret was not read yet");
        loop {
            tokio::select! {
                () = self.look(&said) => {}
                () = cancelled.cancelled() => return,
            }
            tokio::select! {
                () = sleep(self.interval) => {}
                () = cancelled.cancelled() => return,
            }
        }
    }

    async fn look(&self, said: &Mutex<Option<String>>) {
        let now = (self.clock)();
        let problem = match self.store.read().await {
            Err(error) => Some(error.to_string()),
            Ok(secret) => self.take(read(&secret), now),
        };
        self.metrics.degraded("self_managed_certificates", problem.is_some());
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        match &problem {
            None => {
                self.condition.ready();
                if said.is_some() {
                    tracing::info!("certificates can be signed again");
                }
            }
            Some(problem) => {
                self.held.lacks(problem);
                self.condition.degraded(problem.clone());
                if said.as_ref() != Some(problem) {
                    tracing::warn!(
                        problem,
                        "no certificate can be signed; the one that is served stays until its end"
                    );
                }
            }
        }
        *said = problem;
    }

    /// Notes what the Secret says; the problem if that is nothing to sign with.
    fn take(&self, content: Result<Content, super::secret::ContentError>, now: Timestamp) -> Option<String> {
        let name = self.store.name();
        match content {
            Err(error) => Some(format!("Secret {name} {error}")),
            Ok(Content::Empty) => Some(format!(
                "Secret {name} is empty; waiting for the replica that holds the Lease plimsoll-certs to make an authority"
            )),
            Ok(Content::Ours(Authorities { current: None, .. })) => Some(format!(
                "the authority in Secret {name} is being published; waiting until it may be used"
            )),
            Ok(Content::Ours(Authorities { current: Some(authority), .. })) => {
                let root = authority.root();
                self.metrics.certificate_authority(Some(root.ends_and_renew(self.margin)));
                if root.has_ended(now) {
                    return Some(format!("the authority in Secret {name} ended at {}", root.not_after()));
                }
                if root.begins_later(now) {
                    return Some(format!(
                        "the authority in Secret {name} begins at {}, and it is {now} by this machine's clock; it is replaced \
                         unless this clock is wrong",
                        root.not_before()
                    ));
                }
                self.held.confirm(authority, now);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_long_ago_is_not_signed_with() {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let minute = Duration::from_secs(60);
        let hour = Duration::from_secs(3600);
        let authority = Arc::new(Authority::make("a", 2 * hour, now).unwrap());
        let held = Held::new(minute);
        assert_eq!(held.usable(now), None);
        assert!(held.why().contains("not read yet"));
        held.confirm(Arc::clone(&authority), now);
        for (rule, at, usable) in [
            ("at once", now, true),
            ("for a while", now + minute, true),
            ("not for ever", now + minute + Duration::from_secs(1), false),
            ("the clock was set back", now - Duration::from_secs(1), false),
        ] {
            assert_eq!(held.usable(at).is_some(), usable, "{rule}");
        }
        held.lacks("no answer");
        assert_eq!((held.usable(now).is_some(), held.why()), (true, "no answer".to_owned()));
        held.confirm(authority, now + 3 * hour);
        assert_eq!(held.usable(now + 3 * hour), None, "it has ended");
        assert_eq!(held.why(), "");
        let ahead = Authority::make("a", 100 * 24 * hour, now + 30 * 24 * hour).unwrap();
        held.confirm(Arc::new(ahead), now);
        assert_eq!(held.usable(now), None, "it was made by a clock that was ahead");
    }

    #[test]
    fn certificates_are_renewed_by_the_clock() {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let hour = Duration::from_secs(3600);
        let authority = Authority::make("a", 100 * hour, now).unwrap();
        let validity = Validity::of_new(&authority, 24 * hour, now).unwrap();
        for (rule, at, due) in [
            ("fresh", now, false),
            ("most of it gone", now + 15 * hour, false),
            ("a third left", now + 16 * hour, true),
            ("after a long sleep", now + 1000 * hour, true),
            ("the clock was set back a little", now - hour / 2, false),
            ("the clock was set back a lot", now - 2 * hour, true),
        ] {
            assert_eq!(validity.is_due(at), due, "{rule}");
        }
        let late = now + 99 * hour;
        let short = Validity::of_new(&authority, 24 * hour, late).unwrap();
        assert_eq!(short.until, authority.root().not_after(), "no longer than the authority");
        assert!(!short.is_due(late), "and not due at once");
    }
}
