//! What `/validate` says.

use plimsoll_core::admission::{Stage, ValidateContext, read, validate, write};
use plimsoll_core::objects::Objects;
use serde_json::{Value, json};

use crate::review::review;
use crate::support::{merged, profile, settings, vector_spec};

#[test]
fn profiles_are_judged_at_validate() {
    let judge = |object: Value, over: Value| {
        let kind = json!({"request": {"namespace": null, "name": "x",
            "kind": {"group": "plimsoll.dev", "version": "v1alpha1", "kind": "OvercommitProfile"},
            "resource": {"group": "plimsoll.dev", "version": "v1alpha1", "resource": "overcommitprofiles"}}});
        let body = review(&object, &merged(&kind, &over)).to_string();
        let review = read(body.as_bytes(), Stage::Validate).unwrap();
        let (objects, settings) = (Objects::default(), settings());
        let context = ValidateContext { objects: &objects, settings: &settings, usage: None };
        serde_json::from_slice::<Value>(&write(&review, &validate(&review, &context))).unwrap()["response"]
            .clone()
    };
    let bad = || profile(&json!({"mode": "on", "static": {"factors": {"cpu": "2", "gpu": "1"}}}));
    let good = judge(profile(&vector_spec()), json!({}));
    assert_eq!((&good["allowed"], good.get("patch")), (&json!(true), None));

    for operation in ["CREATE", "UPDATE"] {
        let refused = judge(bad(), json!({"request": {"operation": operation}}));
        assert_eq!(refused["allowed"], false);
        assert_eq!(refused["status"]["code"], 403);
        assert_eq!(refused["status"]["reason"], "Forbidden");
        let message = refused["status"]["message"].as_str().unwrap();
        for part in ["shared-pool", "spec.mode", "spec.static.factors.cpu", "spec.static.factors.gpu"] {
            assert!(message.contains(part), "all at once: {message}");
        }
    }
    assert_eq!(judge(Value::Null, json!({}))["allowed"], false, "no object is no profile");
    for (rule, over) in [
        ("DELETE", json!({"request": {"operation": "DELETE", "object": null}})),
        ("status", json!({"request": {"subResource": "status"}})),
        ("a pod", json!({"request": {"kind": {"group": "", "kind": "Pod"}}})),
    ] {
        assert_eq!(judge(bad(), over)["allowed"], true, "{rule}");
    }
    let label = judge(bad(), json!({"request": {"operation": "UPDATE", "oldObject": bad()}}));
    assert_eq!(label["allowed"], true, "a label of a bad profile can be changed");
    assert!(label["warnings"][0].as_str().unwrap().contains("spec.mode"));
}
