//! Checkpoints are written, deleted, and set aside where they cannot be used.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use plimsoll_core::recommender::{Key, SetAside};

use super::{AT_ONCE, Shard, Superseded};
use crate::recommender::store::{Store, StoreError, shown};
use crate::status::Part;

/// What may fail, as it is told.
const CHECKPOINT: &str = "write checkpoints";
const DELETE: &str = "delete checkpoints";

impl<S: Store> Shard<S> {
    pub(super) async fn write_checkpoints(&mut self, keys: Vec<Arc<Key>>) -> Result<(), Superseded> {
        let contents: Vec<_> = keys.iter().filter_map(|key| self.recommender.checkpoint(key)).collect();
        let (store, versions) = (&self.store, &self.checkpoints);
        let written = stream::iter(contents)
            .map(|content| async move {
                let result = store.put_checkpoint(&content, versions.get(&*content.key)).await;
                (content.key, result)
            })
            .buffer_unordered(AT_ONCE);
        let written: Vec<_> = written.collect().await;
        let (mut superseded, mut failed) = (false, false);
        let tried = !written.is_empty();
        let now = (self.options.clock)();
        for (key, result) in written {
            let error = match result {
                Ok(version) => {
                    self.checkpoints.insert(Key::clone(&key), version);
                    self.recommender.checkpoint_written(&key, now);
                    continue;
                }
                Err(error) => error,
            };
            let target = shown(&key);
            match error {
                StoreError::Conflict(_) => {
                    superseded = true;
                    tracing::warn!(%target, %error, "another replica leads; starting anew from what stands there");
                }
                // Deleted by hand, or with its workload: the next one is made anew.
                StoreError::NotFound(_) => {
                    self.checkpoints.remove(&*key);
                }
                StoreError::Refused(_) | StoreError::Forbidden(_) | StoreError::Unavailable(_) => {
                    failed = true;
                    if self.failed(Part::Recommender, CHECKPOINT, &error) {
                        tracing::warn!(%target, %error, "a checkpoint could not be written; trying again at the next scan");
                    }
                }
            }
        }
        if tried && !failed {
            self.works(Part::Recommender, CHECKPOINT);
        }
        if superseded { Err(Superseded) } else { Ok(()) }
    }

    /// Deletes checkpoints of what is not known any more, because it is too old.
    pub(super) async fn delete_checkpoints(&mut self, most: usize) {
        let recommender = &self.recommender;
        let forgotten =
            self.checkpoints.keys().filter(|key| !recommender.knows(key) && !recommender.is_parked(key));
        let forgotten: Vec<Key> = forgotten.take(most.max(1)).cloned().collect();
        for key in forgotten {
            let Some(version) = self.checkpoints.get(&key) else { continue };
            match self.store.delete_checkpoint(&key.namespace, version).await {
                Ok(()) | Err(StoreError::NotFound(_) | StoreError::Conflict(_)) => {
                    self.checkpoints.remove(&key);
                    self.works(Part::Recommender, DELETE);
                }
                Err(error) => {
                    if self.failed(Part::Recommender, DELETE, &error) {
                        tracing::warn!(target = %shown(&key), %error, "a checkpoint could not be deleted");
                    }
                }
            }
        }
    }

    pub(super) async fn set_aside(&mut self, SetAside { key, message }: SetAside) {
        self.metrics.recommender_set_aside();
        let target = shown(&key);
        tracing::error!(target = %target, why = message, "a checkpoint cannot be used; it is set aside");
        if let Some(version) = self.checkpoints.get(&*key)
            && let Err(error) = self.store.set_aside(&key, version, &message).await
        {
            tracing::warn!(target = %target, %error, "no copy of it could be kept");
        }
    }
}
