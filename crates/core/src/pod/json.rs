//! JSON that borrows its texts from what it was read from.
//!
//! A pod is read, judged and forgotten: copying its texts would cost more than all decisions about it.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Number, Value};

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Json<'a> {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Json<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// The members of an object, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Json<'a> {
    /// The same value as `value`, without copies of its texts.
    pub fn borrowed(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(list) => Self::List(list.iter().map(Self::borrowed).collect()),
            Value::Object(map) => Self::Object(Members::new(
                map.iter().map(|(key, value)| (Cow::from(key), Self::borrowed(value))).collect(),
            )),
        }
    }

    /// A copy that borrows nothing.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.as_ref().to_owned()),
            Self::List(list) => Value::Array(list.iter().map(Json::to_value).collect()),
            Self::Object(members) => {
                Value::Object(members.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect())
            }
        }
    }

    /// Whether it is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The members, if it is an object.
    pub const fn as_object(&self) -> Option<&Members<'a>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The member of that name, if it is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }
}

impl From<Value> for Json<'static> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(list) => Self::List(list.into_iter().map(Self::from).collect()),
            Value::Object(map) => Self::Object(Members::new(
                map.into_iter().map(|(key, value)| (Cow::from(key), Self::from(value))).collect(),
            )),
        }
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl<'a> Members<'a> {
    /// Puts members in order. Of those with the same key the last one stays.
    pub fn new(mut members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        if !members.is_sorted_by(|a, b| a.0 < b.0) {
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        Self(members)
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(found, _)| found.as_ref().cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.0.get(self.find(key).ok()?).map(|(_, value)| value)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        let index = self.find(key).ok()?;
        self.0.get_mut(index).map(|(_, value)| value)
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a member.
    pub fn insert(&mut self, key: Cow<'a, str>, value: Json<'a>) {
        match self.find(&key) {
            Ok(index) => {
                if let Some(member) = self.0.get_mut(index) {
                    member.1 = value;
                }
            }
            Err(index) => self.0.insert(index, (key, value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        let index = self.find(key).ok()?;
        Some(self.0.remove(index).1)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, Members};
    use serde_json::json;

    #[test]
    fn there_and_back() {
        let value = json!({"b": [null, true, 1, -1, 1.5, "x"], "a": {"": {}}});
        assert_eq!(Json::borrowed(&value).to_value(), value);
        assert_eq!(Json::borrowed(&value), Json::from(value.clone()));
        assert_eq!(Json::borrowed(&value).to_string(), value.to_string());
    }

    #[test]
    fn members_are_found_set_and_taken_out() {
        let member = |key: &'static str, text: &'static str| (key.into(), Json::Text(text.into()));
        let mut members =
            Members::new(vec![member("b", "1"), member("a", "2"), member("b", "3"), member("b", "4")]);
        let text =
            |members: &Members<'_>, key: &str| members.get(key).and_then(Json::as_str).map(str::to_owned);
        assert_eq!(members.len(), 2);
        assert_eq!(text(&members, "b").as_deref(), Some("4"), "the last one stays");
        members.insert("a".into(), Json::Text("5".into()));
        members.insert("ab".into(), Json::Text("6".into()));
        assert_eq!(members.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "ab", "b"]);
        assert_eq!(text(&members, "a").as_deref(), Some("5"));
        assert!(members.remove("ab").is_some() && members.remove("ab").is_none());
        assert!(members.contains_key("b") && !members.contains_key("ab"));
    }
}
