//! Applies a JSON Patch, as the API server will.

use std::borrow::Cow;

use crate::admission::patch::Operation;
use crate::pod::Json;

/// Applies the operations in turn. The document is of no use after an error.
///
/// Stricter than RFC 6902 needs: what is added must be a member of an object that is there; of a list, items are only
/// removed.
///
/// # Errors
/// The path of the first operation that does not apply.
pub(crate) fn apply<'a>(document: &mut Json<'a>, operations: &'a [Operation]) -> Result<(), String> {
    for operation in operations {
        let applied = parent(document, operation.path()).and_then(|(at, key)| match (at, operation) {
            (Json::Object(map), Operation::Add { value, .. }) => {
                map.insert(key, Json::borrowed(value));
                Some(())
            }
            (Json::Object(map), Operation::Remove { .. }) => map.remove(key.as_ref()).map(drop),
            (Json::List(list), Operation::Remove { .. }) => {
                let index = index(&key).filter(|index| *index < list.len())?;
                list.remove(index);
                Some(())
            }
            _ => None,
        });
        applied.ok_or_else(|| operation.path().to_owned())?;
    }
    Ok(())
}

/// What a path leads into, and the key of the member or item that it means.
fn parent<'d, 'a>(document: &'d mut Json<'a>, path: &'a str) -> Option<(&'d mut Json<'a>, Cow<'a, str>)> {
    let (parents, key) = path.strip_prefix('/')?.rsplit_once('/').map_or_else(
        || (None, path.strip_prefix('/').unwrap_or_default()),
        |(parents, key)| (Some(parents), key),
    );
    let mut at = document;
    for token in parents.into_iter().flat_map(|parents| parents.split('/')) {
        at = match at {
            Json::Object(map) => map.get_mut(unescape(token).as_ref())?,
            Json::List(list) => list.get_mut(index(token)?)?,
            _ => return None,
        };
    }
    Some((at, unescape(key)))
}

fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || !token.starts_with(['0', '+']);
    plain.then(|| token.parse().ok()).flatten()
}

fn unescape(token: &str) -> Cow<'_, str> {
    if token.bytes().any(|byte| byte == b'~') {
        token.replace("~1", "/").replace("~0", "~").into()
    } else {
        token.into()
    }
}

#[cfg(test)]
mod tests {
    use super::apply;
    use crate::admission::patch::{Operation, to_json};
    use crate::pod::Json;
    use serde_json::{Value, json};

    #[test]
    fn as_another_implementation_does() {
        let document =
            json!({"a/b": {"~": 1}, "list": [{"x": 1}, {}], "text": "t", "none": null, "": {"": 1}});
        let add = |path: &str| Operation::Add { path: path.to_owned(), value: json!({"new": [1]}) };
        let remove = |path: &str| Operation::Remove { path: path.to_owned() };
        for (rule, operations, applies) in [
            ("adds a member", vec![add("/c")], true),
            ("sets a member", vec![add("/text")], true),
            ("escaped keys", vec![add("/a~1b/~0"), remove("/a~1b/~0")], true),
            ("tilde before one", vec![add("/a~1b/~01"), remove("/a~1b/~01")], true),
            ("through a list", vec![add("/list/1/x"), remove("/list/0/x")], true),
            ("empty keys", vec![add("//"), remove("//")], true),
            ("into what was added", vec![add("/c"), add("/c/d"), remove("/c/new")], true),
            ("no parent", vec![add("/c/d")], false),
            ("parent is text", vec![add("/text/d")], false),
            ("parent is null", vec![add("/none/d")], false),
            ("nothing to remove", vec![remove("/c")], false),
            ("removed twice", vec![remove("/text"), remove("/text")], false),
            ("past the end of a list", vec![add("/list/2/x")], false),
            ("an index with a leading zero", vec![add("/list/01/x")], false),
            ("an index with a sign", vec![add("/list/+1/x")], false),
            ("no slash", vec![add("c")], false),
        ] {
            let mut ours = Json::borrowed(&document);
            let applied = apply(&mut ours, &operations).is_ok();
            let mut theirs = document.clone();
            // Some paths cannot even be read there.
            let patch = serde_json::from_slice::<json_patch::Patch>(&to_json(&operations));
            let theirs =
                patch.ok().and_then(|patch| json_patch::patch(&mut theirs, &patch).ok()).map(|()| theirs);
            assert_eq!(applied, applies, "{rule}");
            assert_eq!(applied.then(|| ours.to_value()), theirs, "{rule}");
        }
    }

    #[test]
    fn stricter_than_others_with_items_and_the_whole_document() {
        for path in ["/list/0", "/list/-", ""] {
            let mut document = Json::from(json!({"list": [1]}));
            let operations = [Operation::Add { path: path.to_owned(), value: Value::Null }];
            assert_eq!(apply(&mut document, &operations), Err(path.to_owned()));
        }
    }
}
