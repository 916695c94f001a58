//! Which objects have to be written, and which to be deleted.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::objects::Objects;
use plimsoll_core::recommender::{Desired, Key, Recommender, is_garbage, must_write};
use serde_json::Value;

use super::store::StoredRecommendation;

/// What is known of the `Recommendation`s that stand in the cluster, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Standing {
    all: BTreeMap<(String, String), Entry>,
}

#[derive(Debug)]
struct Entry {
    stored: StoredRecommendation,
    /// Whether the snapshot has held it: one that it does not hold any more was deleted.
    seen: bool,
}

/// What is to be done to one `Recommendation`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Created, or changed where it stands.
    Put { desired: Box<Desired>, stored: Option<Box<StoredRecommendation>> },
    /// Deleted.
    Delete(Box<StoredRecommendation>),
}

impl Standing {
    /// These are all of them.
    pub(super) fn replace(&mut self, all: Vec<StoredRecommendation>) {
        let before = std::mem::take(&mut self.all);
        for stored in all {
            let key = (stored.key.namespace.clone(), stored.name.clone());
            let seen = before.get(&key).is_some_and(|entry| entry.seen);
            self.all.insert(key, Entry { stored, seen });
        }
    }

    /// One was written.
    pub(super) fn put(&mut self, stored: StoredRecommendation) {
        let key = (stored.key.namespace.clone(), stored.name.clone());
        let seen = self.all.get(&key).is_some_and(|entry| entry.seen && entry.stored.uid == stored.uid);
        self.all.insert(key, Entry { stored, seen });
    }

    /// One is gone.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        self.all.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Compares with the snapshot. What was deleted by others is forgotten; the answer is what those were about.
    pub(super) fn note_deleted(&mut self, objects: &Objects) -> Vec<Key> {
        let mut deleted = Vec::new();
        self.all.retain(|(namespace, name), entry| {
            let there = objects.recommendation(namespace, name).is_some();
            if there {
                entry.seen = true;
            } else if entry.seen {
                deleted.push(entry.stored.key.clone());
            }
            there || !entry.seen
        });
        deleted
    }

    /// What has to be done so that the cluster says what is desired: first what is new, then what changed, then what
    /// nobody asks for any more. `now` is the clock in nanoseconds since 1970.
    pub(super) fn plan(
        &self,
        desired: Vec<Desired>,
        recommender: &Recommender,
        objects: &Objects,
        now: i64,
    ) -> Vec<Action> {
        let mut about: HashMap<Target<'_>, Vec<&StoredRecommendation>> = HashMap::new();
        for entry in self.all.values().filter(|entry| recommender.covers(&entry.stored.key.namespace)) {
            about.entry(Target::of(&entry.stored)).or_default().push(&entry.stored);
        }
        let standing: Vec<_> = desired
            .iter()
            .map(|desired| {
                about.remove(&Target { key: &desired.key, pod: desired.pod.as_deref() }).unwrap_or_default()
            })
            .collect();
        let left: Vec<_> = about.into_values().flatten().filter(|stored| stored.managed).collect();
        let (mut created, mut changed) = (Vec::new(), Vec::new());
        for (desired, stored) in desired.into_iter().zip(standing) {
            // Somebody decides by hand about this target.
            let by_hand = stored.iter().any(|stored| !stored.managed);
            let mut ours = stored.into_iter().filter(|stored| stored.managed);
            let first = if by_hand { None } else { ours.next() };
            changed.extend(ours.map(|extra| Action::Delete(Box::new(extra.clone()))));
            if by_hand {
                continue;
            }
            match first {
                None => created.push(Action::Put { desired: Box::new(desired), stored: None }),
                Some(stored) if differs(&desired, stored) => {
                    let stored = Some(Box::new(stored.clone()));
                    changed.push(Action::Put { desired: Box::new(desired), stored });
                }
                Some(_) => {}
            }
        }
        let garbage = left.into_iter().filter(|stored| {
            let key = &stored.key;
            if recommender.knows(key) {
                return true;
            }
            let profile = objects.profiles().iter().find(|profile| profile.name == stored.profile);
            !recommender.is_parked(key) && is_garbage(profile.map(AsRef::as_ref), last_of(stored), now)
        });
        let mut deleted: Vec<_> = garbage.map(|stored| Action::Delete(Box::new(stored.clone()))).collect();
        deleted.sort_by(|a, b| a.name().cmp(&b.name()));
        created.into_iter().chain(changed).chain(deleted).collect()
    }
}

impl Action {
    fn name(&self) -> Option<(&str, &str)> {
        match self {
            Self::Put { .. } => None,
            Self::Delete(stored) => Some((&stored.key.namespace, &stored.name)),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Target<'a> {
    key: &'a Key,
    pod: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn of(stored: &'a StoredRecommendation) -> Self {
        Self { key: &stored.key, pod: stored.pod.as_deref() }
    }
}

/// Whether what stands there says something else.
fn differs(desired: &Desired, stored: &StoredRecommendation) -> bool {
    desired.profile.name != stored.profile
        || desired.owner.as_ref().map(|owner| owner.uid.as_str()) != stored.owner_uid.as_deref()
        || must_write(desired, &stored.status)
}

/// The time of its last sample, or of its creation.
fn last_of(stored: &StoredRecommendation) -> i64 {
    let containers = stored.status.get("containers").and_then(Value::as_array);
    let last = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("lastSample")?.as_str()?.parse::<jiff::Timestamp>().ok())
        .map(plimsoll_core::usage::nanos_of)
        .max();
    last.unwrap_or(stored.created)
}
