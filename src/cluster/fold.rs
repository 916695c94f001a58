//! From objects as the API server sends them to changes of the snapshot. Nothing here waits or calls anybody.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::objects::{Fact, FactKey, Objects, read_manifest};
use plimsoll_core::problem::Problem;
use serde_json::{Value, json};

use super::kinds::WatchedKind;
use super::watch::Reader;

/// What happened to the objects of one kind.
#[derive(Debug)]
pub(super) enum Change {
    /// These are all of them.
    Listed(&'static WatchedKind, Vec<Reading>),
    /// The cluster does not know the kind, so there are none.
    Absent(&'static WatchedKind),
    /// We may not list them. What was known stays.
    Forbidden(&'static WatchedKind),
    /// One was added or changed.
    Put(Reading),
    /// One is gone.
    Gone(FactKey),
}

/// An object, read.
#[derive(Debug)]
pub(super) struct Reading {
    /// Which object.
    pub(super) key: FactKey,
    /// What decisions need of it, or why it cannot be used.
    pub(super) fact: Result<Fact, String>,
    /// For a profile: what its status is decided from.
    pub(super) profile: Option<Box<SeenProfile>>,
}

/// A profile, as far as its status is concerned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenProfile {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    /// What is wrong with it.
    pub(super) problems: Vec<Problem>,
    /// The condition `Valid` that it has now.
    pub(super) stored: Option<StoredCondition>,
}

/// A condition as it stands in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCondition {
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) observed_generation: Option<i64>,
    pub(super) last_transition: Option<String>,
}

/// Reads an object of `kind`. `Err` holds the reason when it has not even a name.
pub(super) fn read(kind: &WatchedKind, object: &Value) -> Result<Reading, String> {
    let Some(key) = kind.key_of(object) else {
        return Err(format!("a {} without metadata.name was sent; it is passed over", kind.kind));
    };
    let manifest = manifest(kind, object);
    let fact = match read_manifest(&manifest) {
        Ok(Some(fact)) if fact.key() == key => Ok(fact),
        Ok(_) => Err(format!("this is no {} that can be used", kind.kind)),
        Err(error) => Err(error.to_string()),
    };
    let profile = match &fact {
        Ok(Fact::Profile(_)) => Some(Box::new(seen_profile(object, Vec::new()))),
        Ok(Fact::BrokenProfile { problems, .. }) => Some(Box::new(seen_profile(object, problems.clone()))),
        _ => None,
    };
    Ok(Reading { key, fact, profile })
}

/// Reads objects of one kind into changes of the snapshot.
#[derive(Debug)]
pub(super) struct FactReader(pub(super) &'static WatchedKind);

impl Reader for FactReader {
    type Item = Reading;
    type Change = Change;

    fn item(&self, object: &Value) -> Result<Option<Reading>, String> {
        read(self.0, object).map(Some)
    }

    fn listed(&self, items: Vec<Reading>, _: &str) -> Change {
        Change::Listed(self.0, items)
    }

    fn absent(&self) -> Change {
        Change::Absent(self.0)
    }

    fn forbidden(&self) -> Option<Change> {
        Some(Change::Forbidden(self.0))
    }

    fn put(&self, object: &Value) -> Result<Option<Change>, String> {
        read(self.0, object).map(|reading| Some(Change::Put(reading)))
    }

    fn gone(&self, object: &Value) -> Vec<Change> {
        self.0.key_of(object).map(Change::Gone).into_iter().collect()
    }
}

/// The object with its type, which lists leave out and metadata calls by another name; without what nobody reads.
fn manifest(kind: &WatchedKind, object: &Value) -> Value {
    const METADATA: [&str; 8] = [
        "name",
        "namespace",
        "labels",
        "annotations",
        "ownerReferences",
        "uid",
        "generation",
        "creationTimestamp",
    ];
    let metadata: serde_json::Map<String, Value> = METADATA
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object.get("metadata")?.get(field)?.clone())))
        .collect();
    let mut manifest = json!({ "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata });
    if !kind.metadata_only
        && let Some(map) = manifest.as_object_mut()
    {
        for part in ["spec", "status"] {
            map.extend(object.get(part).map(|value| (part.to_owned(), value.clone())));
        }
    }
    manifest
}

fn seen_profile(object: &Value, problems: Vec<Problem>) -> SeenProfile {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let stored = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Valid"))
        .map(|condition| {
            let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            StoredCondition {
                status: text("status"),
                reason: text("reason"),
                message: text("message"),
                observed_generation: condition.get("observedGeneration").and_then(Value::as_i64),
                last_transition: Some(text("lastTransitionTime")).filter(|time| !time.is_empty()),
            }
        });
    SeenProfile {
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
        problems,
        stored,
    }
}

/// An object that cannot be used, for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) key: FactKey,
    pub(super) reason: String,
}

/// Remembers which objects cannot be used, so that each is spoken of once.
#[derive(Debug, Default)]
pub(super) struct Folder {
    refused: BTreeMap<FactKey, String>,
}

impl Folder {
    /// Applies a change, and returns the objects in it that cannot be used and were not spoken of before.
    ///
    /// An object that cannot be used is not there, whatever it was before: decisions by figures that somebody
    /// replaced would be wrong in a way that nobody sees.
    pub(super) fn apply(&mut self, objects: &mut Objects, change: Change) -> Vec<Refusal> {
        match change {
            Change::Listed(kind, readings) => {
                let listed: BTreeSet<_> = readings.iter().map(|reading| reading.key.clone()).collect();
                self.refused.retain(|key, _| key.kind != kind.fact || listed.contains(key));
                let mut refusals = Vec::new();
                let mut facts = Vec::with_capacity(readings.len());
                for reading in readings {
                    match reading.fact {
                        Ok(fact) => {
                            self.refused.remove(&reading.key);
                            facts.push(fact);
                        }
                        Err(reason) => refusals.extend(self.refuse(reading.key, reason)),
                    }
                }
                objects.replace(kind.fact, facts);
                refusals
            }
            Change::Absent(kind) => {
                self.refused.retain(|key, _| key.kind != kind.fact);
                objects.replace(kind.fact, []);
                Vec::new()
            }
            Change::Forbidden(_) => Vec::new(),
            Change::Put(Reading { key, fact: Ok(fact), .. }) => {
                self.refused.remove(&key);
                objects.put(fact);
                Vec::new()
            }
            Change::Put(Reading { key, fact: Err(reason), .. }) => {
                objects.remove(&key);
                self.refuse(key, reason).into_iter().collect()
            }
            Change::Gone(key) => {
                self.refused.remove(&key);
                objects.remove(&key);
                Vec::new()
            }
        }
    }

    /// How many objects there are that cannot be used.
    pub(super) fn refused(&self) -> usize {
        self.refused.len()
    }

    fn refuse(&mut self, key: FactKey, reason: String) -> Option<Refusal> {
        if self.refused.get(&key) == Some(&reason) {
            return None;
        }
        self.refused.insert(key.clone(), reason.clone());
        Some(Refusal { key, reason })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::objects::FactKind;

    use super::*;
    use crate::cluster::kinds::WATCHED;

    fn kind(name: &str) -> &'static WatchedKind {
        WATCHED.iter().find(|kind| kind.kind == name).unwrap()
    }

    fn range(name: &str, min: &str) -> Reading {
        let object = json!({
            "metadata": {"name": name, "namespace": "shop", "managedFields": [{}]},
            "spec": {"limits": [{"type": "Container", "min": {"cpu": min}}]},
        });
        read(kind("LimitRange"), &object).unwrap()
    }

    fn names(objects: &Objects) -> Vec<&str> {
        objects.limit_ranges("shop").map(|range| range.name.as_str()).collect()
    }

    #[test]
    fn objects_are_read_by_the_kind_that_was_asked_for() {
        for (rule, name, object, good) in [
            ("without kind, as in lists", "Namespace", json!({"metadata": {"name": "a"}}), true),
            (
                "metadata has a kind of its own",
                "ReplicaSet",
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                       "metadata": {"name": "a", "namespace": "b"}}),
                true,
            ),
            (
                "spec that is no spec",
                "LimitRange",
                json!({"metadata": {"name": "a", "namespace": "b"}, "spec": 5}),
                true,
            ),
            ("labels that are none", "Namespace", json!({"metadata": {"name": "a", "labels": 5}}), true),
            ("cannot be used", "Recommendation", json!({"metadata": {"name": "a", "namespace": "b"}}), false),
        ] {
            let reading = read(kind(name), &object).unwrap();
            assert_eq!(reading.fact.is_ok(), good, "{rule}: {reading:?}");
            assert_eq!(reading.key.kind, kind(name).fact, "{rule}");
        }
        for object in
            [json!({}), json!({"metadata": 5}), json!({"metadata": {"name": ""}}), json!(null), json!([])]
        {
            assert!(read(kind("Namespace"), &object).is_err(), "{object}");
        }
    }

    #[test]
    fn a_profile_brings_what_its_status_is_decided_from() {
        let object = json!({
            "metadata": {"name": "shared", "uid": "u", "generation": 4},
            "spec": {"mode": "Nonsense"},
            "status": {"conditions": [
                {"type": "Other", "status": "True"},
                {"type": "Valid", "status": "True", "reason": "ChecksPassed", "message": "m",
                 "observedGeneration": 3, "lastTransitionTime": "2026-03-01T10:00:00Z"},
            ]},
        });
        let reading = read(kind("OvercommitProfile"), &object).unwrap();
        assert!(matches!(reading.fact, Ok(Fact::BrokenProfile { .. })));
        let profile = reading.profile.unwrap();
        assert_eq!((profile.name.as_str(), profile.uid.as_str(), profile.generation), ("shared", "u", 4));
        assert_eq!(profile.problems.len(), 1);
        let stored = profile.stored.unwrap();
        assert_eq!((stored.status.as_str(), stored.observed_generation), ("True", Some(3)));
    }

    #[test]
    fn changes_are_folded_in_order() {
        let (mut folder, mut objects) = (Folder::default(), Objects::default());
        let listed = |readings| Change::Listed(kind("LimitRange"), readings);
        assert!(folder.apply(&mut objects, listed(vec![range("a", "1"), range("b", "1")])).is_empty());
        assert_eq!(names(&objects), ["a", "b"]);
        folder.apply(&mut objects, Change::Put(range("c", "1")));
        folder.apply(&mut objects, Change::Gone(range("a", "1").key));
        assert_eq!(names(&objects), ["b", "c"]);
        folder.apply(&mut objects, listed(vec![range("d", "1")]));
        assert_eq!(names(&objects), ["d"], "a list is all there is");
        folder.apply(&mut objects, Change::Absent(kind("LimitRange")));
        assert_eq!(objects.count(FactKind::LimitRange), 0);
    }

    #[test]
    fn what_cannot_be_used_is_spoken_of_once() {
        let (mut folder, mut objects) = (Folder::default(), Objects::default());
        let mut apply = |change| folder.apply(&mut objects, change).len();
        let listed = |readings| Change::Listed(kind("LimitRange"), readings);
        for (rule, change, spoken) in [
            ("first seen", listed(vec![range("bad", "x"), range("good", "1")]), 1),
            ("listed again", listed(vec![range("bad", "x"), range("good", "1")]), 0),
            ("sent again", Change::Put(range("bad", "x")), 0),
            ("another reason", Change::Put(range("bad", "y")), 1),
            ("repaired", Change::Put(range("bad", "1")), 0),
            ("the same as long ago", Change::Put(range("bad", "x")), 1),
            ("gone", Change::Gone(range("bad", "x").key), 0),
            ("made anew", Change::Put(range("bad", "x")), 1),
            ("left out of a list", listed(vec![]), 0),
            ("listed anew", listed(vec![range("bad", "x")]), 1),
        ] {
            assert_eq!(apply(change), spoken, "{rule}");
        }
        assert_eq!(folder.refused(), 1);
        assert!(names(&objects).is_empty());
    }
}
