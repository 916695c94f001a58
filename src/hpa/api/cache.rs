//! What the API server said a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Tells entries apart. A hash, so that no token is kept.
pub(super) type Key = [u8; 32];

/// Answers that are good for a while. The one that is good for the shortest time makes room for a new one, so that what
/// anybody may ask does not fill memory.
#[derive(Debug)]
pub(super) struct Cache<V> {
    entries: Mutex<HashMap<Key, (Instant, V)>>,
    life: Duration,
    most: usize,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new(life: Duration, most: usize) -> Self {
        Self { entries: Mutex::default(), life, most }
    }

    pub(super) fn get(&self, key: &Key) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(end, _)| *end > Instant::now()).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, key: Key, value: V) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.most && !entries.contains_key(&key) {
            entries.retain(|_, (end, _)| *end > now);
            let first = entries.iter().min_by_key(|(_, (end, _))| *end).map(|(key, _)| *key);
            if let Some(first) = first.filter(|_| entries.len() >= self.most) {
                entries.remove(&first);
            }
        }
        entries.insert(key, (now + self.life, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_grow_old_and_make_room() {
        let cache = Cache::new(Duration::from_secs(10), 2);
        cache.put([1; 32], 1);
        tokio::time::advance(Duration::from_secs(4)).await;
        cache.put([2; 32], 2);
        assert_eq!((cache.get(&[1; 32]), cache.get(&[2; 32]), cache.get(&[3; 32])), (Some(1), Some(2), None));
        tokio::time::advance(Duration::from_secs(2)).await;
        cache.put([3; 32], 3);
        assert_eq!((cache.get(&[1; 32]), cache.get(&[2; 32]), cache.get(&[3; 32])), (None, Some(2), Some(3)));
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!((cache.get(&[2; 32]), cache.get(&[3; 32])), (None, Some(3)), "old");
        cache.put([4; 32], 4);
        cache.put([3; 32], 5);
        assert_eq!((cache.get(&[4; 32]), cache.get(&[3; 32])), (Some(4), Some(5)), "replaced in place");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&[4; 32]), None);
    }
}
