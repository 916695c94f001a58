//! What a connection is doing, and for how long it may go on doing nothing.
//!
//! hyper's own header timer also runs while a connection waits for its next request, so it cannot tell a slow
//! client (seconds) from an idle one (minutes). This one starts with the first byte of a request's head.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// What ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Nothing was asked for too long.
    Idle,
    /// A request's head began and did not end.
    Head,
}

#[derive(Debug)]
struct State {
    /// Requests being answered.
    active: usize,
    /// Whether there was any request yet.
    asked: bool,
    /// When the last request was answered, or the connection opened.
    idle_since: Instant,
    /// When the head that is being read began.
    head_since: Option<Instant>,
}

/// The state of one connection, shared by its socket, its requests and its watch.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    first: Notify,
    /// Whether bytes outside a request begin a request. Not so in HTTP/2, where they may be any frame.
    times_heads: bool,
}

impl Activity {
    pub(super) fn new(times_heads: bool) -> Arc<Self> {
        let state = State { active: 0, asked: false, idle_since: Instant::now(), head_since: None };
        Arc::new(Self { state: Mutex::new(state), first: Notify::new(), times_heads })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came in.
    pub(super) fn received(&self) {
        if self.times_heads {
            let mut state = self.lock();
            if state.active == 0 && state.head_since.is_none() {
                state.head_since = Some(Instant::now());
            }
        }
    }

    /// A request's head is complete. The request is being answered until the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> RequestGuard {
        let mut state = self.lock();
        state.active += 1;
        state.head_since = None;
        if !state.asked {
            state.asked = true;
            self.first.notify_one();
        }
        RequestGuard(Arc::clone(self))
    }

    /// Waits for the first request; returns at once if there was one.
    pub(super) async fn first_request(&self) {
        if !self.lock().asked {
            self.first.notified().await;
        }
    }

    /// How long nothing can run out yet, or what did.
    fn rest(&self, head: Duration, idle: Duration, now: Instant) -> Result<Duration, Expiry> {
        let state = self.lock();
        if state.active > 0 {
            return Ok(head.min(idle));
        }
        if let Some(since) = state.head_since {
            return left(since, head, now).ok_or(Expiry::Head);
        }
        // Looking again after `head` sees every head in time that begins meanwhile.
        left(state.idle_since, idle, now).map(|left| left.min(head)).ok_or(Expiry::Idle)
    }

    /// Waits until something runs out.
    pub(super) async fn expiry(&self, head: Duration, idle: Duration) -> Expiry {
        loop {
            match self.rest(head, idle, Instant::now()) {
                Ok(rest) => tokio::time::sleep(rest).await,
                Err(expiry) => return expiry,
            }
        }
    }
}

fn left(since: Instant, limit: Duration, now: Instant) -> Option<Duration> {
    limit.checked_sub(now.saturating_duration_since(since)).filter(|left| !left.is_zero())
}

/// Keeps its connection from being idle.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.active = state.active.saturating_sub(1);
        state.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(5);
    const IDLE: Duration = Duration::from_secs(120);

    #[test]
    fn idle_and_head_are_timed_apart() {
        let activity = Activity::new(true);
        let start = Instant::now();
        let rest = |after: u64| activity.rest(HEAD, IDLE, start + Duration::from_secs(after));
        assert_eq!(rest(0), Ok(HEAD), "never sleeps past a head that may begin");
        assert_eq!(rest(100), Ok(HEAD));
        assert_eq!(rest(121), Err(Expiry::Idle));

        activity.received();
        assert!(rest(4).is_ok());
        assert_eq!(rest(6), Err(Expiry::Head));

        let request = activity.request();
        assert_eq!(rest(1000), Ok(HEAD), "a request being answered is no idleness");
        activity.received();
        drop(request);
        assert_eq!(rest(1), Ok(HEAD), "bytes of a body begin no head");
        assert_eq!(rest(1000), Err(Expiry::Idle));
    }

    #[test]
    fn frames_begin_no_head() {
        let activity = Activity::new(false);
        let start = Instant::now();
        activity.received();
        assert!(activity.rest(HEAD, IDLE, start + Duration::from_secs(60)).is_ok());
    }
}
