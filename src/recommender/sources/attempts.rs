//! When to ask a source again.

use std::time::Duration;

use super::Scan;
use crate::cluster::backoff::Backoff;

/// What is known of how a source does, and when it may be asked next. Times are nanoseconds since 1970; the clock
/// is the caller's.
#[derive(Debug)]
pub struct Attempts {
    backoff: Backoff,
    next: Option<i64>,
    failing_since: Option<i64>,
    last_success: Option<i64>,
    last_error: Option<String>,
}

impl Attempts {
    /// Pauses after failures grow from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            backoff: Backoff::new(first, longest),
            next: None,
            failing_since: None,
            last_success: None,
            last_error: None,
        }
    }

    /// Takes what became of a scan at `now`. One that brought samples is a success, though a part of it failed:
    /// then [`Self::last_error`] says what.
    pub fn record(&mut self, now: i64, scan: &Scan) {
        let error = scan.failures.first().map(ToString::to_string);
        if let (true, Some(message)) = (scan.failed(), &error) {
            let retry_after = scan.failures.iter().filter_map(|failure| failure.retry_after).max();
            self.fail(now, message, retry_after);
        } else {
            self.succeed(now);
            self.last_error = error;
        }
    }

    /// It worked.
    pub fn succeed(&mut self, now: i64) {
        self.backoff.reset();
        (self.next, self.failing_since, self.last_error) = (None, None, None);
        self.last_success = Some(now);
    }

    /// It did not; `retry_after` is what the source asks for.
    pub fn fail(&mut self, now: i64, message: &str, retry_after: Option<Duration>) {
        let pause = self.backoff.pause().max(retry_after.unwrap_or_default());
        let pause = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        self.next = Some(now.saturating_add(pause));
        self.failing_since.get_or_insert(now);
        self.last_error = Some(message.to_owned());
    }

    /// Whether it may be asked. A clock that was set back does not make the pause longer than it was.
    pub fn is_due(&self, now: i64) -> bool {
        self.next.is_none_or(|next| now >= next) || self.failing_since.is_some_and(|since| now < since)
    }

    /// When it may be asked again; none while it works.
    pub const fn next(&self) -> Option<i64> {
        self.next
    }

    /// Since when nothing came; none while it works.
    pub const fn failing_since(&self) -> Option<i64> {
        self.failing_since
    }

    /// When it worked last.
    pub const fn last_success(&self) -> Option<i64> {
        self.last_success
    }

    /// The error of the last attempt; also that of a part, where the rest worked.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Failure;
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn scan(samples: u64, messages: &[&str]) -> Scan {
        let failure = |message: &&str| Failure {
            scope: "cpuQuery".to_owned(),
            message: (*message).to_owned(),
            retry_after: message.contains("wait").then(|| Duration::from_secs(60)),
        };
        Scan { samples, failures: messages.iter().map(failure).collect(), ..Scan::default() }
    }

    #[test]
    fn a_failing_source_is_asked_less_and_less() {
        let mut attempts = Attempts::new(Duration::from_secs(2), Duration::from_secs(8));
        assert!(attempts.is_due(0) && attempts.failing_since().is_none() && attempts.last_error().is_none());
        let mut now = 100 * SECOND;
        for most in [2, 4, 8, 8] {
            attempts.record(now, &scan(0, &["down"]));
            let pause = attempts.next().unwrap() - now;
            assert!((most * SECOND / 2..=most * SECOND).contains(&pause), "{pause} of {most} s");
            assert!(
                !attempts.is_due(now) && !attempts.is_due(now + pause - 1) && attempts.is_due(now + pause)
            );
            now += pause;
        }
        assert_eq!(attempts.failing_since(), Some(100 * SECOND), "since the first failure");
        assert_eq!(attempts.last_error(), Some("cpuQuery: down"));
        assert!(attempts.is_due(99 * SECOND), "a clock that was set back");

        attempts.record(now, &scan(0, &["please wait", "down"]));
        assert!(attempts.next().unwrap() >= now + 60 * SECOND, "as long as it asks for");

        attempts.record(now, &scan(5, &["one namespace is down"]));
        assert_eq!((attempts.failing_since(), attempts.last_success()), (None, Some(now)));
        assert_eq!(attempts.last_error(), Some("cpuQuery: one namespace is down"), "a part failed");
        assert!(attempts.is_due(now));

        attempts.record(now + 1, &scan(0, &[]));
        assert_eq!(
            (attempts.last_error(), attempts.last_success()),
            (None, Some(now + 1)),
            "nothing is an answer"
        );
    }
}
