//! What is asked: `ExtenderArgs`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::placement::PLACED_POD;
use crate::pod::{Json, Keep, Key, Prune, Pruned};

/// Why a request cannot be answered. It is HTTP 400.
#[derive(Debug, Error)]
#[error(
    "the body is no ExtenderArgs of kube-scheduler: {0}; a JSON object with Pod and NodeNames (or Nodes) is right"
)]
pub struct ArgsError(#[from] serde_json::Error);

/// What of whole nodes is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Their names.
    Names,
    /// All of them, to give them back.
    Objects,
}

/// A request.
#[derive(Debug, Default)]
pub struct Args<'a> {
    /// The pod to be placed: the parts [`PLACED_POD`]. `None`: none was sent.
    pub pod: Option<Pruned<'a>>,
    /// The nodes among which there is a choice, in the order in which they were sent, each name once.
    pub nodes: Vec<Offered<'a>>,
    /// The members of the list of whole nodes beside `items`; `None`: names were sent.
    pub(super) list: Option<Vec<(Cow<'a, str>, &'a RawValue)>>,
}

/// A node that was offered.
#[derive(Debug)]
pub struct Offered<'a> {
    /// Its name. A whole node may have none.
    pub name: Option<Cow<'a, str>>,
    /// All of it, where that is wanted and was sent.
    pub object: Option<&'a RawValue>,
}

impl Args<'_> {
    /// The names that were sent, each once.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().filter_map(|node| node.name.as_deref()).collect()
    }

    /// Whether whole nodes were sent in place of names.
    pub const fn is_whole(&self) -> bool {
        self.list.is_some()
    }
}

/// Reads a request. Names of fields are taken in any letter case, as Go takes them; unknown fields are passed over, null
/// is as good as absent, and of a field that is there twice the last counts.
///
/// # Errors
/// The body is no JSON, or its `Nodes` or `NodeNames` are no lists. The message says where.
pub fn read(body: &[u8], wanted: Wanted) -> Result<Args<'_>, ArgsError> {
    let sent = match std::str::from_utf8(body) {
        Ok(text) => read_from(serde_json::Deserializer::from_str(text), wanted),
        // Where bytes are no UTF-8 it matters only whether they stand in something that is read.
        Err(_) => read_from(serde_json::Deserializer::from_slice(body), wanted),
    }?;
    let pod = sent.pod.filter(|pod| pod.as_object().is_some()).map(Pruned);
    let (mut nodes, list) = match (sent.names, sent.nodes) {
        (Some(names), None) => (named(names), None),
        // The scheduler sends one of the two; an empty list says nothing.
        (Some(names), Some(_)) if !names.is_empty() => (named(names), None),
        (_, Some(whole)) => (whole.items, Some(whole.rest)),
        (None, None) => (Vec::new(), None),
    };
    let mut seen = HashSet::with_capacity(nodes.len());
    let first: Vec<bool> =
        nodes.iter().map(|node| node.name.as_deref().is_none_or(|name| seen.insert(name))).collect();
    if first.contains(&false) {
        let mut first = first.into_iter();
        nodes.retain(|_| first.next().unwrap_or(true));
    }
    Ok(Args { pod, nodes, list })
}

fn named(names: Vec<Cow<'_, str>>) -> Vec<Offered<'_>> {
    names.into_iter().map(|name| Offered { name: Some(name), object: None }).collect()
}

fn read_from<'de, R: serde_json::de::Read<'de>>(
    mut deserializer: serde_json::Deserializer<R>,
    wanted: Wanted,
) -> Result<Sent<'de>, serde_json::Error> {
    // What is kept is bounded by what keeps it; what is passed over takes no stack.
    deserializer.disable_recursion_limit();
    let sent = ArgsSeed(wanted).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(sent)
}

#[derive(Default)]
struct Sent<'a> {
    pod: Option<Json<'a>>,
    names: Option<Vec<Cow<'a, str>>>,
    nodes: Option<Whole<'a>>,
}

#[derive(Default)]
struct Whole<'a> {
    items: Vec<Offered<'a>>,
    rest: Vec<(Cow<'a, str>, &'a RawValue)>,
}

fn is(key: &str, name: &str) -> bool {
    key.eq_ignore_ascii_case(name)
}

struct ArgsSeed(Wanted);

impl<'de> DeserializeSeed<'de> for ArgsSeed {
    type Value = Sent<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Sent<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ArgsSeed {
    type Value = Sent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Sent<'de>, A::Error> {
        let mut sent = Sent::default();
        while let Some(Key(key)) = access.next_key()? {
            if is(&key, "Pod") {
                sent.pod = Some(access.next_value_seed(Prune::new(&PLACED_POD))?);
            } else if is(&key, "NodeNames") {
                sent.names = access.next_value_seed(Nullable(NamesSeed))?;
            } else if is(&key, "Nodes") {
                sent.nodes = access.next_value_seed(Nullable(NodesSeed(self.0)))?;
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(sent)
    }
}

/// Null is as good as absent.
struct Nullable<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Nullable<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Nullable<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

struct NamesSeed;

impl<'de> DeserializeSeed<'de> for NamesSeed {
    type Value = Vec<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NamesSeed {
    type Value = Vec<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of node names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = access.next_element_seed(Nullable(NameSeed))? {
            names.extend(name);
        }
        Ok(names)
    }
}

struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        serde::Deserialize::deserialize(deserializer).map(|Key(name)| name)
    }
}

struct NodesSeed(Wanted);

impl<'de> DeserializeSeed<'de> for NodesSeed {
    type Value = Whole<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodesSeed {
    type Value = Whole<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a NodeList")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut whole = Whole::default();
        while let Some(Key(key)) = access.next_key()? {
            if is(&key, "items") {
                whole.items = access.next_value_seed(Nullable(ItemsSeed(self.0)))?.unwrap_or_default();
            } else if self.0 == Wanted::Objects {
                whole.rest.push((key, access.next_value()?));
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(whole)
    }
}

struct ItemsSeed(Wanted);

impl<'de> DeserializeSeed<'de> for ItemsSeed {
    type Value = Vec<Offered<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed {
    type Value = Vec<Offered<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut nodes = Vec::new();
        match self.0 {
            Wanted::Names => {
                while let Some(node) = access.next_element_seed(Prune::new(&NODE))? {
                    nodes.push(Offered { name: name(node), object: None });
                }
            }
            Wanted::Objects => {
                while let Some(object) = access.next_element::<&'de RawValue>()? {
                    let mut deserializer = serde_json::Deserializer::from_str(object.get());
                    deserializer.disable_recursion_limit();
                    // It was read once already, so there is no error left.
                    let node = Prune::new(&NODE).deserialize(&mut deserializer).unwrap_or_default();
                    nodes.push(Offered { name: name(node), object: Some(object) });
                }
            }
        }
        Ok(nodes)
    }
}

/// What of a node is read. Its fields have tags, so Kubernetes writes them as they stand here.
const NODE: Keep = Keep::Members(&[("metadata", Keep::Members(&[("name", Keep::All)]))]);

fn name(node: Json<'_>) -> Option<Cow<'_, str>> {
    let Json::Object(mut node) = node else { return None };
    let Json::Object(mut metadata) = node.remove("metadata")? else { return None };
    match metadata.remove("name")? {
        Json::Text(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(body: &str, wanted: Wanted) -> Vec<String> {
        read(body.as_bytes(), wanted).unwrap().names().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn both_forms_in_any_letter_case() {
        for (rule, body, expected, is_whole) in [
            ("names", r#"{"Pod":{},"Nodes":null,"NodeNames":["a","b"]}"#, &["a", "b"][..], false),
            ("lower case", r#"{"pod":{},"nodenames":["a"]}"#, &["a"], false),
            ("other case", r#"{"POD":{},"nodeNames":["a"]}"#, &["a"], false),
            (
                "whole",
                r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}}"#,
                &["a", "b"],
                true,
            ),
            (
                "whole, lower case",
                r#"{"nodes":{"Items":[{"metadata":{"name":"a"}}]},"nodeNames":null}"#,
                &["a"],
                true,
            ),
            (
                "both: names",
                r#"{"NodeNames":["a"],"Nodes":{"items":[{"metadata":{"name":"b"}}]}}"#,
                &["a"],
                false,
            ),
            (
                "both, no names",
                r#"{"NodeNames":[],"Nodes":{"items":[{"metadata":{"name":"b"}}]}}"#,
                &["b"],
                true,
            ),
            ("twice", r#"{"NodeNames":["b","a","b","a","c"]}"#, &["b", "a", "c"], false),
            (
                "twice, whole",
                r#"{"Nodes":{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"a"},"x":1}]}}"#,
                &["a"],
                true,
            ),
            ("null among names", r#"{"NodeNames":["a",null,"b"]}"#, &["a", "b"], false),
            ("no items", r#"{"Nodes":{"items":null}}"#, &[], true),
            ("nodes without names", r#"{"Nodes":{"items":[null,{},5,{"metadata":{"name":7}}]}}"#, &[], true),
            ("nothing", "{}", &[], false),
            ("unknown fields", r#"{"Future":{"a":[1]},"NodeNames":["a"],"x":"y"}"#, &["a"], false),
            ("escapes", r#"{"Node\u004eames":["\u0061"]}"#, &["a"], false),
        ] {
            for wanted in [Wanted::Names, Wanted::Objects] {
                assert_eq!(names(body, wanted), expected, "{rule}");
                assert_eq!(read(body.as_bytes(), wanted).unwrap().is_whole(), is_whole, "{rule}");
            }
        }
    }

    #[test]
    fn of_the_pod_only_what_is_needed_is_kept() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "managedFields": [{}]},
            "spec": {"containers": [{"name": "c", "image": "i", "env": [{}], "resources": {"requests": {"cpu": "1"}}}],
                "securityContext": {}},
            "status": {"phase": "Pending"},
        });
        let body = json!({"Pod": pod, "NodeNames": []}).to_string();
        let kept = read(body.as_bytes(), Wanted::Names).unwrap().pod.unwrap().0.to_value();
        assert_eq!(
            kept,
            json!({"metadata": {"name": "p", "namespace": "n"},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
        );
        for other in ["null", "5", "\"x\"", "[]"] {
            let body = format!(r#"{{"Pod":{other},"NodeNames":["a"]}}"#);
            assert!(read(body.as_bytes(), Wanted::Names).unwrap().pod.is_none(), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (rule, body, place) in [
            ("empty", "", "line 1 column 0"),
            ("no JSON", "{\"NodeNames\":\n[1 2]}", "line 2"),
            ("no object", "[]", "expected an object at line 1 column 0"),
            ("cut short", r#"{"NodeNames":["a""#, "line 1 column 17"),
            ("more behind it", "{} {}", "line 1 column 4"),
            (
                "names that are none",
                r#"{"NodeNames":{}}"#,
                "expected a list of node names at line 1 column 13",
            ),
            ("a name that is none", r#"{"NodeNames":["a",5]}"#, "line 1 column 19"),
            ("no NodeList", r#"{"Nodes":[]}"#, "expected a NodeList at line 1 column 9"),
            (
                "items that are none",
                r#"{"Nodes":{"items":"x"}}"#,
                "expected a list of nodes at line 1 column 21",
            ),
        ] {
            for wanted in [Wanted::Names, Wanted::Objects] {
                let error = read(body.as_bytes(), wanted).unwrap_err().to_string();
                assert!(error.contains(place), "{rule}: {error}");
            }
        }
        assert!(
            read(b"{\"Pod\":\"\xff\",\"NodeNames\":[]}", Wanted::Names).is_err(),
            "no UTF-8 where it is read"
        );
    }

    #[test]
    fn depth_is_no_matter() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        for body in [
            format!(r#"{{"x":{deep},"NodeNames":["a"]}}"#),
            format!(r#"{{"Pod":{{"metadata":{{"labels":{deep}}}}},"NodeNames":["a"]}}"#),
            format!(r#"{{"Nodes":{{"x":{deep},"items":[{{"metadata":{{"name":"a","x":{deep}}}}}]}}}}"#),
        ] {
            assert_eq!(names(&body, Wanted::Names), ["a"]);
            assert_eq!(names(&body, Wanted::Objects), ["a"]);
        }
    }

    #[test]
    fn names_are_borrowed() {
        let args = read(br#"{"NodeNames":["a"],"Nodes":null}"#, Wanted::Names).unwrap();
        assert!(matches!(args.nodes.first().and_then(|node| node.name.as_ref()), Some(Cow::Borrowed("a"))));
    }
}
