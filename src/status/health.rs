//! What fails now, told by whoever it fails for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Part;
use crate::cluster::WriteError;
use crate::recommender::store::StoreError;

/// How long the same failure is not said again.
const REPEAT: Duration = Duration::from_secs(300);
/// What did not fail again for this long is not a problem any more, though it was not seen to work: it may be long until
/// it is tried again. docs/api.md names it.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);
/// How many things of a part may fail at a time, for this to know each of them.
const MOST: usize = 32;

/// Something that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words, with the object it is about and what can be done.
    pub message: String,
    /// Whether a right is missing.
    pub forbidden: bool,
}

impl From<&WriteError> for Failure {
    fn from(error: &WriteError) -> Self {
        Self { message: error.to_string(), forbidden: matches!(error, WriteError::Forbidden { .. }) }
    }
}

impl From<&kube::Error> for Failure {
    fn from(error: &kube::Error) -> Self {
        let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
        Self { message: crate::cluster::describe(error), forbidden }
    }
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Self {
        Self { message: error.to_string(), forbidden: matches!(error, StoreError::Forbidden(_)) }
    }
}

impl From<String> for Failure {
    /// Texts of failures that were put together elsewhere say what to grant where a right is missing.
    fn from(message: String) -> Self {
        let forbidden = message.contains("grant ");
        Self { message, forbidden }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// A failure that goes on.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) forbidden: bool,
    pub(super) since: Timestamp,
    said: Instant,
    /// When it failed last; `None`: it is not tried again by itself, and thus goes on failing.
    last: Option<Instant>,
}

impl Problem {
    fn goes_on(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) < FORGOTTEN)
    }
}

/// A lease of a part, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Who holds it; empty: nobody.
    pub holder: String,
    /// Whether that is this replica.
    pub ours: bool,
}

/// What is known of one part.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// By what was tried, and by which of several that try the same.
    pub(super) problems: BTreeMap<(String, u64), Problem>,
    pub(super) last_error: Option<(String, Timestamp)>,
    /// When it had what it goes by, for parts that get it again and again; by which of several that each have their
    /// own. `None`: that one has nothing yet.
    pub(super) fresh: BTreeMap<u64, Option<Instant>>,
    /// The end of validity of its certificates, and by when they should be replaced, by listener.
    pub(super) certificates: BTreeMap<String, (Timestamp, Timestamp)>,
    /// By shard.
    pub(super) leases: BTreeMap<u32, LeaseSeen>,
}

impl Known {
    /// The age of what it goes by: of several the oldest, and none if one of them has nothing yet.
    pub(super) fn age(&self) -> Option<Duration> {
        self.fresh.values().min().copied().flatten().map(|at| at.elapsed())
    }
}

/// What is given to [`Health::one_failed`] and [`Health::one_fresh_since`] by a shard.
pub(crate) fn of_shard(shard: u32) -> u64 {
    u64::from(shard) + 1
}

/// What fails now, and what was wrong last, by part. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<Part, Known>>>);

impl Health {
    fn with<T>(&self, part: Part, use_it: impl FnOnce(&mut Known) -> T) -> T {
        use_it(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(part).or_default())
    }

    pub(super) fn known(&self) -> BTreeMap<Part, Known> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for known in all.values_mut() {
            known.problems.retain(|_, problem| problem.goes_on(now));
        }
        all.clone()
    }

    /// What is said of `what` of a part, if it fails since a right is missing.
    pub(crate) fn forbidden(&self, part: Part, what: &str) -> Option<String> {
        self.with(part, |known| {
            let mut problems =
                known.problems.iter().filter(|((of, _), problem)| of == what && problem.forbidden);
            problems.next().map(|(_, problem)| problem.message.clone())
        })
    }

    /// `what` of a part failed. Whether this is to be said in the log: it is news, or was not said for some minutes.
    /// It counts until [`works`](Self::works) says otherwise, or until it did not fail again for 15 minutes.
    pub fn failed(&self, part: Part, what: &str, failure: impl Into<Failure>) -> bool {
        self.note_failure(part, what, 0, failure.into(), true)
    }

    /// The same of one of several that do `what`, each of which fails and works by itself.
    pub fn one_failed(&self, part: Part, what: &str, one: u64, failure: impl Into<Failure>) -> bool {
        self.note_failure(part, what, one, failure.into(), true)
    }

    /// The same of what is not tried again by itself: it counts until it works.
    pub fn failed_for_good(&self, part: Part, what: &str, failure: impl Into<Failure>) -> bool {
        self.note_failure(part, what, 0, failure.into(), false)
    }

    fn note_failure(&self, part: Part, what: &str, one: u64, failure: Failure, tries_again: bool) -> bool {
        let Failure { message, forbidden } = failure;
        let (now, at) = (Instant::now(), Timestamp::now());
        let last = tries_again.then_some(now);
        self.with(part, |known| {
            known.last_error = Some((message.clone(), at));
            let key = (what.to_owned(), one);
            if let Some(problem) = known.problems.get_mut(&key).filter(|problem| problem.goes_on(now)) {
                // Of many objects the same is wrong, each with its own name: the call is what fails.
                let is_news = problem.forbidden != forbidden || now.duration_since(problem.said) >= REPEAT;
                problem.said = if is_news { now } else { problem.said };
                (problem.message, problem.forbidden, problem.last) = (message, forbidden, last);
                return is_news;
            }
            if known.problems.len() < MOST || known.problems.contains_key(&key) {
                known.problems.insert(key, Problem { message, forbidden, since: at, said: now, last });
            }
            true
        })
    }

    /// `what` of a part works. Whether it did not before.
    pub fn works(&self, part: Part, what: &str) -> bool {
        self.one_works(part, what, 0)
    }

    /// The same of one of several that do `what`.
    pub fn one_works(&self, part: Part, what: &str, one: u64) -> bool {
        self.with(part, |known| known.problems.remove(&(what.to_owned(), one)).is_some())
    }

    /// What came of it: [`failed`](Self::failed) or [`works`](Self::works). Whether a failure is to be said.
    pub fn note<T>(&self, part: Part, what: &str, result: &Result<T, WriteError>) -> bool {
        match result {
            Ok(_) => {
                self.works(part, what);
                false
            }
            Err(error) => self.failed(part, what, error),
        }
    }

    /// A part just got what it goes by.
    pub fn fresh(&self, part: Part) {
        self.with(part, |known| known.fresh.insert(0, Some(Instant::now())));
    }

    /// One of several that each have their own got what it goes by this long ago; `None`: it has nothing yet.
    pub fn one_fresh_since(&self, part: Part, one: u64, age: Option<Duration>) {
        let at = age.and_then(|age| Instant::now().checked_sub(age));
        self.with(part, |known| known.fresh.insert(one, at));
    }

    /// When the certificate of a listener ends, and by when it should be replaced.
    pub fn certificate(&self, part: Part, listener: &str, not_after: Timestamp, renew: Timestamp) {
        self.with(part, |known| known.certificates.insert(listener.to_owned(), (not_after, renew)));
    }

    /// Who holds a lease of a part.
    pub fn lease(&self, part: Part, shard: u32, holder: &str, ours: bool) {
        self.with(part, |known| known.leases.insert(shard, LeaseSeen { holder: holder.to_owned(), ours }));
    }

    /// This replica no longer leads a shard: what failed for it there may work for the next one, and what it went by
    /// there gets old. If it leads none, that is true of everything.
    pub fn no_longer_leads(&self, part: Part, shard: u32) {
        let leads = self.with(part, |known| {
            known.leases.entry(shard).and_modify(|lease| lease.ours = false);
            known.leases.values().any(|lease| lease.ours)
        });
        for led in part.led_with() {
            self.with(*led, |known| {
                known.problems.retain(|(what, one), _| {
                    // That a lease cannot be read is wrong also for who does not lead.
                    what.starts_with("lease ") || (leads && *one != of_shard(shard))
                });
                known.fresh.retain(|one, _| leads && *one != of_shard(shard));
            });
        }
    }

    /// How many things of each part fail now: those for which a right is missing, and others.
    pub fn counts(&self) -> Vec<(Part, [usize; 2])> {
        let known = self.known();
        let count = |part: &Part, forbidden: bool| {
            let problems = known.get(part).into_iter().flat_map(|known| known.problems.values());
            problems.filter(|problem| problem.forbidden == forbidden).count()
        };
        Part::ALL.iter().map(|part| (*part, [count(part, true), count(part, false)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(object: &str) -> WriteError {
        WriteError::Forbidden {
            what: format!("create Recommendation {object}"),
            message: "no".to_owned(),
            grant: "create on recommendations.plimsoll.dev".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_said_once_and_now_and_then_again() {
        let health = Health::default();
        let fails = |object: &str| health.failed(Part::Recommender, "write", &forbidden(object));
        assert!(fails("a/x"), "news");
        assert!(!fails("a/x") && !fails("b/y"), "the same right, another object");
        assert!(health.failed(Part::Recommender, "write", "down"), "another kind of failure");
        assert!(!health.failed(Part::Recommender, "write", "down again"));
        tokio::time::advance(REPEAT).await;
        assert!(health.failed(Part::Recommender, "write", "down"), "still");
        assert!(health.works(Part::Recommender, "write"));
        assert!(!health.works(Part::Recommender, "write"));
        assert!(fails("a/x"), "news again");
        assert_eq!(health.counts()[5], (Part::Recommender, [1, 0]));
        let known = health.known();
        let part = &known[&Part::Recommender];
        assert!(part.last_error.as_ref().unwrap().0.contains("grant create on recommendations.plimsoll.dev"));
    }

    #[test]
    fn what_may_fail_is_bounded() {
        let health = Health::default();
        for index in 0..1000 {
            health.failed(Part::Events, &index.to_string(), "down");
        }
        assert_eq!(health.known()[&Part::Events].problems.len(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fail_again_is_forgotten() {
        let health = Health::default();
        let almost = FORGOTTEN.saturating_sub(Duration::from_secs(1));
        health.failed(Part::Balance, "evict", "no answer");
        health.failed(Part::Balance, "write", "no answer");
        health.failed_for_good(Part::Configuration, "reload", "line 3");
        tokio::time::advance(almost).await;
        health.failed(Part::Balance, "write", "no answer");
        let problems = |part: Part| -> Vec<String> {
            health.known()[&part].problems.keys().map(|(what, _)| what.clone()).collect()
        };
        assert_eq!(problems(Part::Balance), ["evict", "write"], "not yet");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(problems(Part::Balance), ["write"], "the other one failed again");
        tokio::time::advance(FORGOTTEN * 10).await;
        assert_eq!(problems(Part::Configuration), ["reload"], "nobody tries it again");
        assert_eq!(health.counts()[4], (Part::Configuration, [0, 1]));
        assert!(problems(Part::Balance).is_empty() && health.known()[&Part::Balance].last_error.is_some());
        assert!(health.failed(Part::Balance, "evict", "no answer"), "news again");
    }

    #[test]
    fn one_of_several_does_not_speak_for_the_others() {
        let health = Health::default();
        let lost = |shard| health.one_failed(Part::Recommender, "write", of_shard(shard), "no");
        lost(0);
        lost(1);
        health.one_works(Part::Recommender, "write", of_shard(1));
        health.works(Part::Recommender, "write");
        let ones = || -> Vec<u64> {
            health.known()[&Part::Recommender].problems.keys().map(|(_, one)| *one).collect()
        };
        assert_eq!(ones(), [of_shard(0)]);
        lost(1);
        health.lease(Part::Recommender, 0, "a", true);
        health.lease(Part::Recommender, 1, "a", true);
        health.no_longer_leads(Part::Recommender, 1);
        assert_eq!(ones(), [of_shard(0)], "shard 1 is led elsewhere");
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_all_shards_that_are_led_counts() {
        tokio::time::advance(Duration::from_secs(3600)).await;
        let minute = |count: u64| Some(Duration::from_secs(60 * count));
        for (rule, told, given_up, age) in [
            ("none", vec![], vec![], None),
            ("one", vec![(0, minute(1))], vec![], minute(1)),
            ("one again", vec![(0, minute(5)), (0, minute(1))], vec![], minute(1)),
            ("the oldest, told first", vec![(0, minute(9)), (1, minute(1))], vec![], minute(9)),
            ("the oldest, told last", vec![(0, minute(1)), (1, minute(9))], vec![], minute(9)),
            ("one has nothing yet", vec![(0, minute(1)), (1, None)], vec![], None),
            ("the oldest is given up", vec![(0, minute(9)), (1, minute(1))], vec![0], minute(1)),
            ("the one without is given up", vec![(0, minute(9)), (1, None)], vec![1], minute(9)),
            ("all are given up", vec![(0, minute(9)), (1, minute(1))], vec![0, 1], None),
        ] {
            let health = Health::default();
            for shard in 0..2 {
                health.lease(Part::Recommender, shard, "a", true);
            }
            for (shard, age) in told {
                health.one_fresh_since(Part::UsageSource, of_shard(shard), age);
            }
            for shard in given_up {
                health.no_longer_leads(Part::Recommender, shard);
            }
            let known = health.known();
            assert_eq!(known.get(&Part::UsageSource).and_then(Known::age), age, "{rule}");
        }
    }

    #[test]
    fn the_next_leader_begins_anew() {
        let health = Health::default();
        health.lease(Part::Recommender, 0, "a", true);
        health.failed(Part::UsageSource, "scan", "down");
        health.failed(Part::Snapshots, "list pods", "down");
        health.no_longer_leads(Part::Recommender, 0);
        let known = health.known();
        assert!(known[&Part::UsageSource].problems.is_empty() && !known[&Part::Recommender].leases[&0].ours);
        assert_eq!(known[&Part::Snapshots].problems.len(), 1);
    }
}
