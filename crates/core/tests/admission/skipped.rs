//! Which reviews and pods are left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::admission::{
    AbsentNamespace, Context, Outcome, Settings, Skip, Stage, mutate, needs_namespace, read,
};
use plimsoll_core::objects::{Fact, Namespace};
use serde_json::{Value, json};

use crate::review::{annotated, answer, namespace, review, s1};
use crate::support::{NOW, app, merged, objects, pod, profile, settings, vector_spec};

#[test]
fn which_reviews_are_not_ours() {
    let rows = [
        ("S19 UPDATE", json!({"request": {"operation": "UPDATE", "oldObject": s1()}}), Skip::Operation),
        ("S19 DELETE", json!({"request": {"operation": "DELETE", "object": null}}), Skip::Operation),
        ("CONNECT", json!({"request": {"operation": "CONNECT"}}), Skip::Operation),
        ("an operation nobody knows", json!({"request": {"operation": "PATCH"}}), Skip::Operation),
        (
            "S19 a deployment",
            json!({"request": {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                "resource": {"group": "apps", "resource": "deployments"}}}),
            Skip::Kind,
        ),
        ("another group's Pod", json!({"request": {"kind": {"group": "example.com"}}}), Skip::Kind),
        ("a kind that is no object", json!({"request": {"kind": "Pod"}}), Skip::Kind),
        ("resize", json!({"request": {"subResource": "resize", "operation": "UPDATE"}}), Skip::SubResource),
        (
            "ephemeral containers",
            json!({"request": {"subResource": "ephemeralcontainers"}}),
            Skip::SubResource,
        ),
        ("eviction", json!({"request": {"subResource": "eviction"}}), Skip::SubResource),
        ("binding", json!({"request": {"subResource": "binding"}}), Skip::SubResource),
        ("status", json!({"request": {"subResource": "status"}}), Skip::SubResource),
    ];
    for (rule, over, skip) in rows {
        let answer = answer(&review(&s1(), &over), &[profile(&vector_spec())]);
        assert_eq!(answer["response"]["allowed"], true, "{rule}");
        assert_eq!(answer["response"].get("patch"), None, "{rule}");
        assert_eq!(answer["response"]["auditAnnotations"]["decision"], skip.word(), "{rule}");
    }
}

#[test]
fn which_pods_are_skipped() {
    let guaranteed = app(&Value::Null, &json!({"cpu": "1", "memory": "1Gi"}));
    let spec = |over: Value| profile(&merged(&vector_spec(), &over));
    let rows: Vec<(&str, Value, Vec<Value>, &str)> = vec![
        ("no profile", s1(), vec![], "skipped_no_profile"),
        ("mode Off", s1(), vec![spec(json!({"mode": "Off"}))], "skipped_profile_off"),
        ("Off by default", s1(), vec![profile(&json!({}))], "skipped_profile_off"),
        ("apply false", s1(), vec![spec(json!({"apply": false}))], "skipped_not_applied"),
        (
            "a mirror pod",
            annotated(&json!({"kubernetes.io/config.mirror": "x"})),
            vec![spec(json!({}))],
            "skipped_mirror_pod",
        ),
        (
            "guaranteed, Skip",
            guaranteed.clone(),
            vec![spec(json!({"guaranteedPods": "Skip"}))],
            "skipped_guaranteed",
        ),
        ("guaranteed, Apply", guaranteed, vec![spec(json!({}))], "applied"),
        ("burstable, Skip", s1(), vec![spec(json!({"guaranteedPods": "Skip"}))], "applied"),
        (
            "S17 the pod opts out",
            annotated(&json!({"plimsoll.dev/overcommit": "disabled"})),
            vec![spec(json!({}))],
            "skipped_pod_opt_out",
        ),
        (
            "false means the same",
            annotated(&json!({"plimsoll.dev/overcommit": "false"})),
            vec![spec(json!({}))],
            "skipped_pod_opt_out",
        ),
        (
            "off means the same",
            annotated(&json!({"plimsoll.dev/overcommit": "off"})),
            vec![spec(json!({}))],
            "skipped_pod_opt_out",
        ),
        (
            "a value that is no string opts nobody out",
            annotated(&json!({"plimsoll.dev/overcommit": false})),
            vec![spec(json!({}))],
            "applied",
        ),
        (
            "S17 nonsense",
            annotated(&json!({"plimsoll.dev/overcommit": "nonsense"})),
            vec![spec(json!({}))],
            "applied",
        ),
        (
            "no profile and an opt-out",
            annotated(&json!({"plimsoll.dev/overcommit": "off"})),
            vec![],
            "skipped_pod_opt_out",
        ),
        (
            "the namespace's annotation",
            s1(),
            vec![
                spec(json!({})),
                namespace(&json!({"annotations": {"plimsoll.dev/overcommit": "disabled"}})),
            ],
            "skipped_namespace_opt_out",
        ),
        (
            "the namespace's label",
            s1(),
            vec![spec(json!({})), namespace(&json!({"labels": {"plimsoll.dev/overcommit": "disabled"}}))],
            "skipped_namespace_opt_out",
        ),
        (
            "optOut Namespace: the pod may not",
            annotated(&json!({"plimsoll.dev/overcommit": "disabled"})),
            vec![spec(json!({"optOut": "Namespace"}))],
            "applied",
        ),
        (
            "optOut Namespace: the namespace may",
            s1(),
            vec![
                spec(json!({"optOut": "Namespace"})),
                namespace(&json!({"labels": {"plimsoll.dev/overcommit": "off"}})),
            ],
            "skipped_namespace_opt_out",
        ),
        (
            "optOut None: nobody may",
            annotated(&json!({"plimsoll.dev/overcommit": "disabled"})),
            vec![
                spec(json!({"optOut": "None"})),
                namespace(&json!({"annotations": {"plimsoll.dev/overcommit": "off"}})),
            ],
            "applied",
        ),
        (
            "containers is no list",
            pod(&json!({"containers": {}})),
            vec![spec(json!({}))],
            "skipped_malformed",
        ),
        ("requests is no object", app(&json!([1]), &Value::Null), vec![spec(json!({}))], "skipped_malformed"),
        (
            "no metadata to record anything in",
            json!({"spec": s1()["spec"]}),
            vec![spec(json!({}))],
            "skipped_malformed",
        ),
    ];
    for (rule, pod, manifests, expected) in rows {
        let answer = answer(&review(&pod, &json!({})), &manifests);
        assert_eq!(answer["response"]["auditAnnotations"]["decision"], expected, "{rule}");
        assert_eq!(answer["response"].get("patch").is_some(), expected == "applied", "{rule}");
        assert_eq!(answer["response"]["allowed"], true, "{rule}");
    }
}

#[test]
fn a_patch_that_could_not_be_recorded_is_not_sent() {
    let huge = annotated(&json!({"big": "x".repeat(262_000)}));
    let answer = answer(&review(&huge, &json!({})), &[profile(&vector_spec())]);
    assert_eq!(answer["response"]["auditAnnotations"]["decision"], "error");
    assert_eq!(answer["response"].get("patch"), None);
    assert_eq!(answer["response"]["allowed"], true);
    assert!(answer["response"]["warnings"][0].as_str().unwrap().contains("left untouched: the annotations"));
}

#[test]
fn an_opt_out_that_is_not_understood_or_not_allowed_is_warned_about() {
    let warning = |value: &str, spec: Value| {
        let body = review(&annotated(&json!({"plimsoll.dev/overcommit": value})), &json!({}));
        let answer = answer(&body, &[profile(&merged(&vector_spec(), &spec))]);
        answer["response"]["warnings"][0].as_str().unwrap().to_owned()
    };
    assert!(warning("nonsense", json!({})).contains("\"nonsense\" is ignored"));
    assert!(warning("disabled", json!({"optOut": "None"})).contains("does not allow it"));
    let label = merged(&s1(), &json!({"metadata": {"labels": {"plimsoll.dev/overcommit": "off"}}}));
    let labelled = answer(&review(&label, &json!({})), &[profile(&vector_spec())]);
    assert_eq!(
        labelled["response"]["auditAnnotations"]["decision"], "applied",
        "a pod opts out by an annotation"
    );
    assert!(labelled["response"]["warnings"][0].as_str().unwrap().contains("label"));
    let long = warning(&"x\ny".repeat(300), json!({}));
    assert!(
        long.len() <= 256 && !long.chars().any(char::is_control) && long.contains("is ignored"),
        "{long}"
    );
}

#[test]
fn a_namespace_that_was_not_seen_is_read_or_left_alone() {
    let settings = Settings { absent_namespace: AbsentNamespace::Unknown, ..settings() };
    let objects = objects(&[profile(&merged(&vector_spec(), &json!({"match": {"pools": ["shared"]}})))]);
    let body = review(&s1(), &json!({})).to_string();
    let review = read(body.as_bytes(), Stage::Mutate).unwrap();
    assert_eq!(needs_namespace(&review, &objects, &settings), Some("shop"));
    let decide = |namespace: Option<&Namespace>| {
        let now = NOW.parse().unwrap();
        let context = Context { objects: &objects, settings: &settings, namespace, now, defaulted: None };
        mutate(&review, &context).answer.outcome
    };
    assert_eq!(decide(None), Outcome::Skipped(Skip::UnknownNamespace));
    let labels: BTreeMap<_, _> = [("plimsoll.dev/pool".to_owned(), "shared".to_owned())].into();
    let found = Namespace { name: "shop".to_owned(), labels, annotations: BTreeMap::new() };
    assert_eq!(decide(Some(&found)), Outcome::Applied);

    let mut seen = objects.clone();
    seen.put(Fact::Namespace(Arc::new(found)));
    assert_eq!(needs_namespace(&review, &seen, &settings), None, "the snapshot has it");
    let body = body.replace("\"shop\"", "\"kube-system\"");
    let excluded = read(body.as_bytes(), Stage::Mutate).unwrap();
    assert_eq!(needs_namespace(&excluded, &objects, &settings), None, "it does not matter");
}
