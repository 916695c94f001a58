//! What stays as it was.

use serde_json::{Value, json};

use crate::support::{after, app, container, judge, objects, pod, profile, record, vector_spec};

#[test]
fn s8_no_resources_no_patch() {
    let objects = objects(&[profile(&vector_spec())]);
    for bare in [
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "a", "resources": {}}]}),
        json!({"containers": []}),
        json!({}),
    ] {
        assert_eq!(judge(&pod(&bare), &objects).answer.patch, vec![], "{bare}");
    }
}

#[test]
fn s14_annotations_of_others_are_kept() {
    let mut before = app(&json!({"cpu": "1"}), &Value::Null);
    before["metadata"]["annotations"] = json!({"a/b~c": "kept"});
    let (patched, decision) = after("S14", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(patched["metadata"]["annotations"]["a/b~c"], "kept");
    let paths: Vec<_> = decision.answer.patch.iter().map(plimsoll_core::admission::Operation::path).collect();
    assert_eq!(
        paths,
        [
            "/spec/containers/0/resources/requests/cpu",
            "/metadata/annotations/plimsoll.dev~1applied",
            "/metadata/annotations/plimsoll.dev~1original-resources"
        ]
    );
    before["metadata"]["annotations"] = Value::Null;
    let (patched, _) = after("S14 null", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(record(&patched)["containers"]["app"]["requests"]["cpu"], "1");
}

#[test]
fn a_number_that_a_parser_rounded_is_not_a_request() {
    let text = r#"{"metadata": {}, "spec": {"containers": [{"name": "a",
        "resources": {"requests": {"memory": 36893488147419103233, "cpu": "\t1"}}}]}}"#;
    let before: Value = serde_json::from_str(text).unwrap();
    let (patched, decision) = after("rounded", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(decision.answer.patch, vec![], "{patched}");
}

#[test]
fn a_pod_of_many_containers_is_judged() {
    let containers: Vec<Value> = (0..20_000)
        .map(|index| container(&format!("c{index}"), &json!({"cpu": "1"}), &Value::Null))
        .collect();
    let before = pod(&json!({"resources": {"limits": {"cpu": "40k"}}, "containers": containers}));
    let decision = judge(&before, &objects(&[profile(&vector_spec())]));
    assert_eq!(decision.plan.lines.len(), 20_001);
    assert!(decision.answer.patch.is_empty(), "there is no room to record so many originals");
}

#[test]
fn s18_unknown_fields_and_claims_survive() {
    let mut before = app(&json!({"cpu": "1"}), &Value::Null);
    before["spec"]["futureField"] = json!({"a": 1});
    before["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    let (patched, _) = after("S18", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(patched["spec"]["futureField"], json!({"a": 1}));
    assert_eq!(patched["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]));
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
}
