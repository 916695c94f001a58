//! Recommendations are decided and written.

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use plimsoll_core::objects::Objects;
use plimsoll_core::recommender::{Desired, SourceHealth, status_json};
use plimsoll_core::usage::timestamp_of;
use serde_json::Value;

use super::{AT_ONCE, Shard};
use crate::metrics::RecommenderStep;
use crate::recommender::plan::Action;
use crate::recommender::store::{Store, StoreError, StoredRecommendation, shown};
use crate::status::Part;

/// What may fail, as it is told.
const WRITE: &str = "write recommendations";

/// What became of an object.
enum Done {
    Put {
        target: String,
        name: Option<(String, String)>,
        result: Result<Box<StoredRecommendation>, StoreError>,
    },
    Deleted {
        stored: Box<StoredRecommendation>,
        result: Result<(), StoreError>,
    },
}

impl<S: Store> Shard<S> {
    pub(super) fn decide(&self, objects: &Objects) -> Vec<Action> {
        let began = Instant::now();
        let now = (self.options.clock)();
        let failing = self.attempts.failing_since();
        let why = self.attempts.last_error().unwrap_or_default();
        let source = SourceHealth { failing: failing.map(|since| (since, why.to_owned())) };
        let desired: Vec<Desired> = self.recommender.desired(objects, now, &source).collect();
        let actions = self.standing.plan(desired, &self.recommender, objects, now);
        self.metrics.recommender_step(RecommenderStep::Recommend, began.elapsed());
        actions
    }

    pub(super) async fn act(&mut self, actions: Vec<Action>) {
        let now = timestamp_of((self.options.clock)());
        let store = &self.store;
        let done = stream::iter(actions)
            .map(|action| async move {
                match action {
                    Action::Put { desired, stored } => {
                        let before = stored.as_ref().map_or(&Value::Null, |stored| &stored.status);
                        let status = status_json(&desired.status, before, now);
                        let result = store.put_recommendation(&desired, stored.as_deref(), status).await;
                        if let Ok(written) = &result {
                            tell(store, stored.as_deref(), written).await;
                        }
                        let name = stored.map(|stored| (stored.key.namespace, stored.name));
                        Done::Put { target: shown(&desired.key), name, result: result.map(Box::new) }
                    }
                    Action::Delete(stored) => {
                        let result = store.delete_recommendation(&stored).await;
                        Done::Deleted { stored, result }
                    }
                }
            })
            .buffer_unordered(AT_ONCE);
        let done: Vec<Done> = done.collect().await;
        let tried = !done.is_empty();
        let mut failures = 0_usize;
        for done in done {
            failures += usize::from(self.note(done));
        }
        if tried && failures == 0 {
            self.works(Part::Recommender, WRITE);
        }
    }

    /// Takes over what became of an object. Whether it could not be written.
    fn note(&mut self, done: Done) -> bool {
        let (target, error) = match done {
            Done::Put { result: Ok(written), .. } => {
                self.standing.put(*written);
                return false;
            }
            Done::Deleted { stored, result: Ok(()) | Err(StoreError::NotFound(_)) } => {
                self.standing.remove(&stored.key.namespace, &stored.name);
                return false;
            }
            Done::Put { target, name, result: Err(error) } => {
                if let (StoreError::NotFound(_), Some((namespace, name))) = (&error, name) {
                    self.standing.remove(&namespace, &name);
                }
                (target, error)
            }
            Done::Deleted { stored, result: Err(error) } => (shown(&stored.key), error),
        };
        self.relist |= matches!(error, StoreError::Conflict(_));
        if matches!(error, StoreError::Conflict(_) | StoreError::NotFound(_)) {
            tracing::debug!(%target, %error, "a recommendation was changed or deleted meanwhile");
            return false;
        }
        if self.failed(Part::Recommender, WRITE, &error) {
            tracing::warn!(%target, %error, "a recommendation could not be written; trying again at the next scan");
        }
        true
    }
}

/// Publishes an event where a recommendation became usable, or is not any more.
async fn tell(store: &impl Store, before: Option<&StoredRecommendation>, written: &StoredRecommendation) {
    let ready = |stored: &StoredRecommendation| {
        let conditions = stored.status.get("conditions").and_then(Value::as_array)?;
        let text =
            |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
        conditions
            .iter()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"))
            .and_then(|condition| Some((text(condition, "status")? == "True", text(condition, "message")?)))
    };
    let was = before.and_then(ready).is_some_and(|(ready, _)| ready);
    if let Some((is, message)) = ready(written)
        && is != was
    {
        store.tell(written, is, &message).await;
    }
}
