//! Growing pauses between attempts, with a part left to chance so that replicas do not ask in step.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The pauses of one series of attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// How long to wait now: from half to the whole of a pause that doubles each time.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause / 2 + chance(pause / 2)
    }
}

/// A random duration from zero to `most`.
pub(crate) fn chance(most: Duration) -> Duration {
    // The standard library seeds each of these at random; a generator of its own would be a dependency for this.
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    most.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        for whole in [1, 2, 4, 5, 5] {
            let pause = backoff.pause();
            assert!(pause >= seconds(whole) / 2 && pause <= seconds(whole), "{pause:?} of {whole} s");
        }
        backoff.reset();
        assert!(backoff.pause() <= seconds(1));
        assert_eq!(chance(Duration::ZERO), Duration::ZERO);
    }
}
