//! How many writes a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Gives out turns at a steady rate, in the order in which they are asked for. After a pause a few may go at once.
#[derive(Debug)]
pub struct Limiter {
    interval: Duration,
    burst: Duration,
    /// When the next turn is, if nobody had to wait before.
    next: Mutex<Instant>,
}

impl Limiter {
    /// `per_second` turns a second, at least one; up to as many as in one second at once after a pause.
    pub fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self {
            interval,
            burst: Duration::from_secs(1).saturating_sub(interval),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a turn. One who stops waiting loses the turn.
    pub async fn turn(&self) {
        sleep_until(self.reserve(Instant::now())).await;
    }

    /// When the next turn is; it is taken.
    fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        // As far back as a pause may be made up for.
        let earliest = now.checked_sub(self.burst).unwrap_or(now);
        let at = (*next).max(earliest);
        *next = at + self.interval;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_at_a_steady_rate() {
        let limiter = Limiter::new(10);
        let now = Instant::now() + Duration::from_secs(60);
        let turns: Vec<_> = (0..30).map(|_| limiter.reserve(now)).collect();
        assert!(turns[9] <= now, "a pause is made up for by one second's worth");
        assert!(turns[10] > now);
        let steps: Vec<_> = turns.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == Duration::from_millis(100)), "{steps:?}");
        assert_eq!(turns[29] - now, Duration::from_secs(2));
    }

    #[test]
    fn one_a_second_is_one_a_second() {
        for limiter in [Limiter::new(1), Limiter::new(0)] {
            let now = Instant::now() + Duration::from_secs(60);
            assert_eq!(limiter.reserve(now), now);
            assert_eq!(limiter.reserve(now), now + Duration::from_secs(1));
        }
    }
}
