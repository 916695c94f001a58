//! How much is done at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies are accounted in blocks of this many bytes.
const BLOCK: usize = 1024;

/// The limits that all connections share.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    slots: Arc<Semaphore>,
    memory: Arc<Semaphore>,
}

impl Limits {
    pub(crate) fn new(concurrency: usize, body_memory: usize) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { slots: semaphore(concurrency), memory: semaphore(body_memory.div_ceil(BLOCK)) }
    }

    /// A slot to answer one request in; waits in line, no longer than `deadline`.
    pub(crate) async fn slot(&self, deadline: Duration) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        tokio::time::timeout(deadline, Arc::clone(&self.slots).acquire_owned()).await.ok()?.ok()
    }

    /// Memory for one body, which grows with it.
    pub(crate) fn memory(&self) -> BodyMemory {
        BodyMemory { memory: Arc::clone(&self.memory), held: None, bytes: 0 }
    }
}

/// The longest a request waits for its turn: half of the time its client waits, so that there is time left to
/// try again.
pub(crate) fn queue_deadline(longest: Duration, timeout: Option<Duration>) -> Duration {
    timeout.map_or(longest, |timeout| longest.min(timeout / 2))
}

/// Memory taken by one body, given back when dropped.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    memory: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl BodyMemory {
    /// Accounts for `bytes` more; false when there is no room. It never waits: bodies that wait for each other
    /// with half of their memory taken would wait for ever.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let blocks = self.bytes.saturating_add(bytes).div_ceil(BLOCK) - self.bytes.div_ceil(BLOCK);
        let Ok(blocks) = u32::try_from(blocks) else { return false };
        let Ok(permit) = Arc::clone(&self.memory).try_acquire_many_owned(blocks) else { return false };
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_deadlines() {
        let second = Duration::from_secs(1);
        let rows = [
            ("no timeout", None, second),
            ("long", Some(10_000), second),
            ("half is shorter", Some(600), Duration::from_millis(300)),
            ("half is the same", Some(2_000), second),
        ];
        for (rule, timeout, want) in rows {
            assert_eq!(queue_deadline(second, timeout.map(Duration::from_millis)), want, "{rule}");
        }
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let limits = Limits::new(1, 4 * BLOCK);
        let mut first = limits.memory();
        assert!(first.grow(100) && first.grow(900), "one block");
        assert!(first.grow(2 * BLOCK), "three blocks");
        let mut second = limits.memory();
        assert!(second.grow(BLOCK));
        assert!(!second.grow(1), "full");
        drop(first);
        assert!(second.grow(1));
    }
}
