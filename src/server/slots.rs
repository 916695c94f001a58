//! A bounded number of connections, of which the least recently used gives way to a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The connections of one listener. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    most: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// Counts uses; the number of a connection's last use is its key below.
    uses: u64,
    /// The least recently used first.
    by_last_use: BTreeMap<u64, CancellationToken>,
}

impl Open {
    fn add(&mut self, evicted: CancellationToken) -> u64 {
        self.uses += 1;
        self.by_last_use.insert(self.uses, evicted);
        self.uses
    }
}

/// The place of one connection; dropping it makes room.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    last_use: Mutex<u64>,
    evicted: CancellationToken,
}

impl Slots {
    /// Room for `most` connections, at least one.
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection. When there is none, the connection that asked nothing for the longest time is
    /// told to end.
    pub(super) fn enter(&self) -> Slot {
        let evicted = CancellationToken::new();
        let mut open = self.open();
        while open.by_last_use.len() >= self.most
            && let Some((_, oldest)) = open.by_last_use.pop_first()
        {
            oldest.cancel();
        }
        let last_use = Mutex::new(open.add(evicted.clone()));
        drop(open);
        Slot { slots: self.clone(), last_use, evicted }
    }
}

impl Slot {
    fn last_use(&self) -> MutexGuard<'_, u64> {
        self.last_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the connection is used now.
    pub(super) fn touch(&self) {
        let mut last_use = self.last_use();
        let mut open = self.slots.open();
        // One that was told to end has no place any more and gets none.
        if let Some(evicted) = open.by_last_use.remove(&last_use) {
            *last_use = open.add(evicted);
        }
    }

    /// Waits until the connection has to give way.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let last_use = *self.last_use();
        self.slots.open().by_last_use.remove(&last_use);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicted(slots: &[&Slot]) -> Vec<bool> {
        slots.iter().map(|slot| slot.evicted.is_cancelled()).collect()
    }

    #[test]
    fn the_least_recently_used_gives_way() {
        let slots = Slots::new(2);
        let (a, b) = (slots.enter(), slots.enter());
        assert_eq!(evicted(&[&a, &b]), [false, false]);
        a.touch();
        let c = slots.enter();
        assert_eq!(evicted(&[&a, &b, &c]), [false, true, false]);
        b.touch();
        assert_eq!(slots.open().by_last_use.len(), 2, "what was told to end does not come back");
        drop((a, b));
        let d = slots.enter();
        assert_eq!(evicted(&[&c, &d]), [false, false], "there was room again");
    }
}
