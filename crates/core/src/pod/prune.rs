//! Reads only some parts of a JSON document, in one pass and without a typed model of the rest.
//!
//! A pod has hundreds of fields that no decision reads. They are skipped where they stand: they cost
//! no allocation, and whatever a newer Kubernetes adds cannot fail to parse. Duplicate keys: the last
//! one wins. What stands deeper than [`MOST_NESTING`] levels is read as null: no pod is that deep, and of a quota tree
//! that is, enough is left to refuse it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::nesting::MOST_NESTING;
use crate::pod::{Json, Members};

/// Which parts of a document are read.
#[derive(Debug)]
pub enum Keep {
    /// Everything below.
    All,
    /// These members of an object.
    Members(&'static [(&'static str, Keep)]),
    /// These parts of every item of a list.
    Items(&'static Keep),
}

const RESOURCES: Keep = Keep::Members(&[("requests", Keep::All), ("limits", Keep::All)]);
const CONTAINER: Keep =
    Keep::Members(&[("name", Keep::All), ("resources", RESOURCES), ("restartPolicy", Keep::All)]);

const AFFINITY: Keep = Keep::Members(&[(
    "nodeAffinity",
    Keep::Members(&[
        ("requiredDuringSchedulingIgnoredDuringExecution", Keep::All),
        ("preferredDuringSchedulingIgnoredDuringExecution", Keep::All),
    ]),
)]);

/// The parts of a pod that decisions read.
pub const POD: Keep = Keep::Members(&[
    (
        "metadata",
        Keep::Members(&[
            ("name", Keep::All),
            ("generateName", Keep::All),
            ("namespace", Keep::All),
            ("labels", Keep::All),
            ("annotations", Keep::All),
            ("ownerReferences", Keep::All),
        ]),
    ),
    (
        "spec",
        Keep::Members(&[
            ("containers", Keep::Items(&CONTAINER)),
            ("initContainers", Keep::Items(&CONTAINER)),
            ("resources", RESOURCES),
            ("nodeSelector", Keep::All),
            ("overhead", Keep::All),
            ("affinity", AFFINITY),
        ]),
    ),
]);

/// Deserializes the kept parts of a document.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    keep: &'static Keep,
    left: usize,
}

impl Prune {
    /// These parts. The deserializer should have no limit of its own to how deep a document may be.
    pub const fn new(keep: &'static Keep) -> Self {
        Self { keep, left: MOST_NESTING }
    }

    const fn below(self, keep: &'static Keep) -> Self {
        Self { keep, left: self.left.saturating_sub(1) }
    }
}

/// The parts of a pod that decisions read, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pruned<'a>(pub Json<'a>);

impl<'a> Pruned<'a> {
    /// The kept parts of a pod that is already in memory.
    pub fn of(pod: &'a Value) -> Self {
        Self(prune_value(pod, &POD))
    }

    /// These parts of an object that is already in memory.
    pub(crate) fn borrowed_parts(object: &'a Value, keep: &Keep) -> Self {
        Self(prune_value(object, keep))
    }
}

impl Pruned<'static> {
    /// A copy of these parts of an object.
    pub(crate) fn kept(object: &Value, keep: &Keep) -> Self {
        Self(Json::from(prune_value(object, keep).to_value()))
    }
}

fn prune_value<'a>(value: &'a Value, keep: &Keep) -> Json<'a> {
    match (keep, value) {
        (Keep::Members(members), Value::Object(map)) => {
            let kept = map.iter().filter_map(|(key, value)| {
                let (_, keep) = members.iter().find(|(name, _)| name == key)?;
                Some((Cow::from(key), prune_value(value, keep)))
            });
            Json::Object(Members::new(kept.collect()))
        }
        (Keep::Items(keep), Value::Array(list)) => {
            Json::List(list.iter().map(|item| prune_value(item, keep)).collect())
        }
        (_, value) => Json::borrowed(value),
    }
}

impl<'de> DeserializeSeed<'de> for Prune {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Prune {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut members = Vec::new();
        if self.left == 0 {
            while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Json::Null);
        }
        match self.keep {
            Keep::All => {
                let below = self.below(self.keep);
                while let Some(key) = access.next_key::<Key<'de>>()? {
                    members.push((key.0, access.next_value_seed(below)?));
                }
            }
            Keep::Members(kept) => {
                while let Some(key) = access.next_key::<Key<'de>>()? {
                    if let Some((name, keep)) = kept.iter().find(|(name, _)| *name == key.0) {
                        members.push((Cow::Borrowed(*name), access.next_value_seed(self.below(keep))?));
                    } else {
                        access.next_value::<IgnoredAny>()?;
                    }
                }
            }
            // A list was expected; what stands here instead is kept so that it can be reported.
            Keep::Items(_) => while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {},
        }
        Ok(Json::Object(Members::new(members)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        if self.left == 0 {
            while access.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Json::Null);
        }
        let keep = match self.keep {
            Keep::All => &Keep::All,
            Keep::Items(keep) => keep,
            Keep::Members(_) => {
                while access.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Json::List(Vec::new()));
            }
        };
        let mut list = Vec::new();
        while let Some(item) = access.next_element_seed(self.below(keep))? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }
}

/// An object's key, borrowed where the text has no escapes.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::{POD, Prune, Pruned};
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    fn read(text: &str) -> Value {
        Prune::new(&POD).deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap().to_value()
    }

    #[test]
    fn keeps_what_decisions_read_and_skips_the_rest() {
        let pod = json!({
            "metadata": {"name": "p", "managedFields": [{"a": 1}], "annotations": {"k": "v"}},
            "spec": {"containers": [{"name": "app", "image": "i", "env": [{}],
                "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}], "futureField": {"a": 1}},
            "status": {"phase": "Pending"},
        });
        let expected = json!({
            "metadata": {"name": "p", "annotations": {"k": "v"}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
        });
        assert_eq!(read(&pod.to_string()), expected);
        assert_eq!(Pruned::of(&pod).0.to_value(), expected);
    }

    #[test]
    fn the_last_of_duplicate_keys_wins() {
        assert_eq!(
            read(r#"{"spec":{"nodeSelector":{"a":"1","a":"2"}},"spec":{"nodeSelector":{"b":"1","b":"3"}}}"#),
            json!({"spec": {"nodeSelector": {"b": "3"}}})
        );
    }

    #[test]
    fn other_types_than_expected_are_read_without_error() {
        for text in ["1", "null", "\"x\"", "[1]", "true", "1.5", "-3"] {
            let _ = read(text);
            let _ = read(&format!("{{\"spec\":{text},\"metadata\":{text}}}"));
            let _ = read(&format!("{{\"spec\":{{\"containers\":{text}}}}}"));
        }
    }
}
