//! What is worth saying, but not a hundred times a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says yes once in a while.
#[derive(Debug)]
pub(super) struct Seldom {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::new(None) }
    }

    /// Whether it is time to say it (again).
    pub(super) fn now(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|last| now.saturating_duration_since(last) >= self.interval);
        if is_time {
            *last = Some(now);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_an_interval() {
        let seldom = Seldom::new(Duration::from_secs(10));
        let start = Instant::now();
        let said = [0, 1, 9, 10, 11, 19, 30].map(|seconds| seldom.now(start + Duration::from_secs(seconds)));
        assert_eq!(said, [true, false, false, true, false, false, true]);
    }
}
