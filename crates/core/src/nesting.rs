//! JSON of any depth, read without trusting the stack.
//!
//! A quota tree of depth 100 is more than 200 levels of JSON, which is more than `serde_json` reads by itself; without
//! a limit, a few 100,000 brackets would take the process down. What is passed over is passed over without recursion,
//! so only what is kept has to be bounded.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// So many levels of lists and objects are read. The deepest quota tree that is allowed takes four fifths of them.
pub const MOST_NESTING: usize = 512;

/// What becomes of what stands deeper than [`MOST_NESTING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deeper {
    /// The text is refused.
    Refuse,
    /// It is read as null.
    Cut,
}

/// Reads one JSON value.
///
/// # Errors
/// The text is no JSON, or too deep where that is refused.
pub fn from_str(text: &str, deeper: Deeper) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = Bounded { left: MOST_NESTING, deeper }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads the JSON values that stand one after the other in a text. Deeper ones are refused.
pub fn stream(text: &str) -> impl Iterator<Item = Result<Value, serde_json::Error>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    deserializer.into_iter::<Refusing>().map(|read| read.map(|value| value.0))
}

struct Refusing(Value);

impl<'de> serde::Deserialize<'de> for Refusing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounded { left: MOST_NESTING, deeper: Deeper::Refuse }.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct Bounded {
    left: usize,
    deeper: Deeper,
}

impl Bounded {
    fn below<E: serde::de::Error>(self) -> Result<Option<Self>, E> {
        match (self.left.checked_sub(1), self.deeper) {
            (Some(left), _) => Ok(Some(Self { left, ..self })),
            (None, Deeper::Cut) => Ok(None),
            (None, Deeper::Refuse) => Err(E::custom(too_deep())),
        }
    }
}

fn too_deep() -> String {
    format!("lists and objects are nested deeper than {MOST_NESTING} levels, which is the limit")
}

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let Some(below) = self.below::<A::Error>()? else {
            while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(below)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let Some(below) = self.below::<A::Error>()? else {
            while access.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut list = Vec::new();
        while let Some(item) = access.next_element_seed(below)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Deeper, MOST_NESTING, from_str, stream};
    use serde_json::{Value, json};

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let value = json!({"b": [null, true, 1, -1, 1.5, "x\n", {}], "a": {"": [[]]}, "big": u64::MAX});
        let text = value.to_string();
        for deeper in [Deeper::Refuse, Deeper::Cut] {
            assert_eq!(from_str(&text, deeper).unwrap(), value);
        }
        assert_eq!(
            stream(&format!("{text}\n{text} 5")).map(Result::unwrap).collect::<Vec<_>>(),
            [value.clone(), value, json!(5)]
        );
        for bad in ["", "[1", "{\"a\" 1}", "[1]]", "1e400", "{1: 2}", "\u{feff}1"] {
            assert!(from_str(bad, Deeper::Cut).is_err(), "{bad:?}");
        }
        assert_eq!(
            from_str(r#"{"a": 1, "a": 2}"#, Deeper::Refuse).unwrap(),
            json!({"a": 2}),
            "the last one wins"
        );
    }

    #[test]
    fn depth_is_bounded() {
        for (rule, text, refused) in [
            ("the limit", nested(MOST_NESTING), false),
            ("one more", nested(MOST_NESTING + 1), true),
            ("very many", nested(300_000), true),
            ("very many objects", format!("{}1{}", "{\"a\":".repeat(300_000), "}".repeat(300_000)), true),
        ] {
            let read = from_str(&text, Deeper::Refuse);
            assert_eq!(read.is_err(), refused, "{rule}");
            assert_eq!(stream(&text).next().unwrap().is_err(), refused, "{rule}");
            if let Err(error) = read {
                assert!(error.to_string().contains("deeper than 512 levels"), "{rule}: {error}");
            }
            let cut = from_str(&text, Deeper::Cut).unwrap();
            assert!(cut.is_array() || cut.is_object(), "{rule}");
        }
        let cut = from_str(&nested(MOST_NESTING + 5), Deeper::Cut).unwrap();
        let deepest = std::iter::successors(Some(&cut), |value| value.get(0)).last().unwrap();
        assert_eq!(deepest, &Value::Null);
        assert!(from_str(&"[".repeat(300_000), Deeper::Cut).is_err(), "cut short");
    }
}
