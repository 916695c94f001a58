//! What is answered: `HostPriorityList` and `ExtenderFilterResult`.

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::Args;

/// The most points that the scheduler takes.
pub const MOST: u8 = 10;
/// What every node gets of which nothing is known.
pub const EQUAL: u8 = 5;

/// The points of each name, as a `HostPriorityList`. A name beyond the end of `points` gets [`EQUAL`].
pub fn priorities(names: &[&str], points: &[u8]) -> Vec<u8> {
    // {"Host":"","Score":10},
    const FRAME: usize = 23;
    let text: usize = names.iter().map(|name| name.len() + FRAME).sum();
    let mut body = Vec::with_capacity(text + 2);
    body.push(b'[');
    for (index, name) in names.iter().enumerate() {
        let points = points.get(index).copied().unwrap_or(EQUAL).min(MOST);
        body.extend_from_slice(if index == 0 { b"{\"Host\":" } else { b",{\"Host\":" });
        write(&mut body, name);
        body.extend_from_slice(b",\"Score\":");
        write(&mut body, &points);
        body.push(b'}');
    }
    body.push(b']');
    body
}

/// The nodes that passed and those that did not, as an `ExtenderFilterResult`. `refused` has the reason for each of
/// [`Args::names`] that is refused; a whole node without a name passes. Whole nodes are given back as they were sent,
/// byte for byte, if they were read as [`Objects`](super::Wanted::Objects).
pub fn filter_result(args: &Args<'_>, refused: &[Option<String>]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut failed: Vec<(&str, &str)> = Vec::new();
    let mut reasons = refused.iter();
    let passed = args.nodes.iter().filter(|node| {
        let Some(name) = node.name.as_deref() else { return true };
        let reason = reasons.next().and_then(Option::as_deref);
        failed.extend(reason.map(|reason| (name, reason)));
        reason.is_none()
    });
    if let Some(rest) = &args.list {
        let text: usize =
            args.nodes.iter().filter_map(|node| node.object).map(|node| node.get().len() + 1).sum();
        body.reserve(text + 1024);
        body.extend_from_slice(b"{\"Nodes\":{");
        for (key, value) in rest {
            member(&mut body, key, value);
        }
        body.extend_from_slice(b"\"items\":");
        list(&mut body, passed.filter_map(|node| node.object), raw);
        body.push(b'}');
    } else {
        body.extend_from_slice(b"{\"NodeNames\":");
        list(&mut body, passed.filter_map(|node| node.name.as_deref()), write);
    }
    // In both: what is unresolvable goes before what has failed. Nodes that have only failed are tried again with pods of
    // lower priority taken away in thought, which changes no load that was measured, and ends in an error of the scheduler.
    for key in [&b",\"FailedNodes\":{"[..], b",\"FailedAndUnresolvableNodes\":{"] {
        body.extend_from_slice(key);
        for (index, (name, reason)) in failed.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            write(&mut body, name);
            body.push(b':');
            write(&mut body, reason);
        }
        body.push(b'}');
    }
    body.extend_from_slice(b",\"Error\":\"\"}");
    body
}

fn member(body: &mut Vec<u8>, key: &str, value: &RawValue) {
    write(body, key);
    body.push(b':');
    raw(body, value);
    body.push(b',');
}

fn list<T>(body: &mut Vec<u8>, items: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    body.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write(body, item);
    }
    body.push(b']');
}

fn raw(body: &mut Vec<u8>, value: &RawValue) {
    body.extend_from_slice(value.get().as_bytes());
}

fn write<T: Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    // Texts and whole numbers always become JSON, and a vector takes everything.
    let _ = serde_json::to_writer(body, value);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::placement::extender::{Wanted, read};

    fn value(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn scores_are_whole_numbers_within_bounds() {
        let body = priorities(&["a", "b\"\n", "c", "d"], &[0, 10, 200]);
        assert_eq!(
            value(&body),
            json!([{"Host": "a", "Score": 0}, {"Host": "b\"\n", "Score": 10}, {"Host": "c", "Score": 10},
                {"Host": "d", "Score": 5}])
        );
        assert!(!body.contains(&b'.'));
        assert_eq!(priorities(&[], &[]), b"[]", "never null");
    }

    #[test]
    fn names_come_back_as_names() {
        let args = read(br#"{"NodeNames": ["a", "b", "a", "c"]}"#, Wanted::Objects).unwrap();
        let refused = [None, Some("cpu 0.9".to_owned()), None];
        assert_eq!(
            value(&filter_result(&args, &refused)),
            json!({"NodeNames": ["a", "c"], "FailedNodes": {"b": "cpu 0.9"}, "FailedAndUnresolvableNodes": {"b": "cpu 0.9"}, "Error": ""})
        );
        let none = read(b"{}", Wanted::Objects).unwrap();
        assert_eq!(value(&filter_result(&none, &[]))["NodeNames"], json!([]), "never null");
    }

    #[test]
    fn whole_nodes_come_back_byte_for_byte() {
        let first = r#"{ "metadata" : {"name":"a", "x": 1.50}, "é":"\u00e9" }"#;
        let nameless = r#"{"status":  {}}"#;
        let body = format!(
            r#"{{"Nodes": {{"metadata":{{"resourceVersion": "7" }},"items":[{first},{{"metadata":{{"name":"b"}}}},{nameless}]}}}}"#
        );
        let args = read(body.as_bytes(), Wanted::Objects).unwrap();
        let answer = String::from_utf8(filter_result(&args, &[None, Some("hot".to_owned())])).unwrap();
        assert!(answer.contains(&format!(r#""items":[{first},{nameless}]"#)), "{answer}");
        assert!(answer.contains(r#"{"resourceVersion": "7" }"#), "{answer}");
        assert_eq!(value(answer.as_bytes())["FailedNodes"], json!({"b": "hot"}));
        assert!(value(answer.as_bytes()).get("NodeNames").is_none());
    }
}
