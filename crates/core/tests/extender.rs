//! Whatever names a scheduler sends: each comes back once, with whole points, or is refused with a reason.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here says so")]

use std::collections::BTreeSet;

use plimsoll_core::placement::extender::{Wanted, filter_result, priorities, read};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Few of them, so that some come twice.
fn names() -> impl Strategy<Value = Vec<String>> {
    vec(prop_oneof!["[a-c]", "node-[0-9]{1,2}", any::<String>()], 0..20)
}

fn distinct(names: &[String]) -> Vec<&String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).collect()
}

/// The request in one of the two forms.
fn request(names: &[String], whole: bool, lower_case: bool) -> String {
    let items: Vec<_> =
        names.iter().map(|name| json!({"metadata": {"name": name}, "of": format!("é {name}")})).collect();
    let (nodes, sent) =
        if whole { (json!({"items": items}), Value::Null) } else { (Value::Null, json!(names)) };
    let body = if lower_case {
        json!({"pod": {}, "nodes": nodes, "nodenames": sent})
    } else {
        json!({"Pod": {}, "Nodes": nodes, "NodeNames": sent})
    };
    body.to_string()
}

proptest! {
    #[test]
    fn what_was_sent_comes_back_once(names in names(), whole: bool, lower_case: bool, points in vec(any::<u8>(), 0..20)) {
        let body = request(&names, whole, lower_case);
        let args = read(body.as_bytes(), Wanted::Names).unwrap();
        prop_assert_eq!(args.is_whole(), whole);
        let answer: Vec<Value> = serde_json::from_slice(&priorities(&args.names(), &points)).unwrap();
        let expected: Vec<_> = distinct(&names)
            .into_iter()
            .enumerate()
            .map(|(index, name)| json!({"Host": name, "Score": points.get(index).map_or(5, |points| (*points).min(10))}))
            .collect();
        prop_assert_eq!(answer, expected);
    }

    #[test]
    fn who_is_not_refused_passes(names in names(), whole: bool, lower_case: bool, refused in vec(any::<bool>(), 0..20)) {
        let body = request(&names, whole, lower_case);
        let args = read(body.as_bytes(), Wanted::Objects).unwrap();
        let reasons: Vec<_> = refused.iter().map(|refused| refused.then(|| "why \"so\"".to_owned())).collect();
        let answer: Value = serde_json::from_slice(&filter_result(&args, &reasons)).unwrap();
        let is_refused = |index: usize| refused.get(index).copied().unwrap_or(false);
        let distinct = distinct(&names);
        let passed: Vec<_> = distinct.iter().enumerate().filter(|(index, _)| !is_refused(*index)).map(|(_, name)| *name).collect();
        if whole {
            let expected: Vec<_> =
                passed.iter().map(|name| json!({"metadata": {"name": name}, "of": format!("é {name}")})).collect();
            prop_assert_eq!(&answer["Nodes"]["items"], &json!(expected));
            prop_assert!(answer.get("NodeNames").is_none());
        } else {
            prop_assert_eq!(&answer["NodeNames"], &json!(passed));
            prop_assert!(answer.get("Nodes").is_none());
        }
        let failed = answer["FailedNodes"].as_object().unwrap();
        prop_assert_eq!(failed.len() + passed.len(), distinct.len());
        for (index, name) in distinct.iter().enumerate().filter(|(index, _)| is_refused(*index)) {
            prop_assert_eq!(&failed[*name], "why \"so\"", "{}", index);
        }
    }
}
