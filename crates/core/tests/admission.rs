//! The envelope, which pods are skipped, and what `/validate` says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use plimsoll_core::admission::{
    AbsentNamespace, Answer, Context, EnvelopeError, Outcome, Settings, Skip, Stage, ValidateContext,
    WouldBe, decide, explain, mutate, needs_namespace, read, validate, write,
};
use plimsoll_core::objects::{Fact, Namespace, Objects};
use plimsoll_core::overcommit::Line;
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};
use support::{NOW, app, container, merged, objects, pod, profile, settings, vector_spec};

fn review(object: &Value, over: &Value) -> Value {
    let base = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "requestKind": {"kind": "Pod"},
        "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "u"}, "object": object,
        "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions"}}});
    merged(&base, over)
}

fn s1() -> Value {
    app(&json!({"cpu": "1"}), &json!({"cpu": "2"}))
}

fn answer_with(body: &str, objects: &Objects, settings: &Settings) -> Value {
    let review = read(body.as_bytes(), Stage::Mutate).unwrap();
    let context = Context { objects, settings, namespace: None, now: NOW.parse().unwrap(), defaulted: None };
    serde_json::from_slice(&write(&review, &mutate(&review, &context).answer)).unwrap()
}

fn answer(body: &Value, manifests: &[Value]) -> Value {
    answer_with(&body.to_string(), &objects(manifests), &settings())
}

fn decision(body: &Value, manifests: &[Value]) -> String {
    answer(body, manifests)["response"]["auditAnnotations"]["decision"].as_str().unwrap().to_owned()
}

#[test]
fn the_answer_is_in_the_version_asked_with_the_same_uid() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let answer = answer(&review(&s1(), &json!({"apiVersion": version})), &[profile(&vector_spec())]);
        assert_eq!(answer["apiVersion"], version);
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], "705ab4f5");
        assert_eq!(answer["response"]["allowed"], true);
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        assert_eq!(answer["response"]["auditAnnotations"]["decision"], "applied");
        assert_eq!(answer["response"]["auditAnnotations"]["profile"], "shared-pool");
        assert_eq!(
            answer["response"]["auditAnnotations"]["changed"],
            "static(shared-pool): app cpu 1 -> 500m"
        );
        let patch = answer["response"]["patch"].as_str().unwrap();
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        assert!(serde_json::from_slice::<json_patch::Patch>(&patch).is_ok());
    }
}

#[test]
fn the_uid_is_echoed_as_raw_text() {
    let body = review(&s1(), &json!({})).to_string().replace("705ab4f5", r"a\u002fb\\\u00e9");
    let review = read(body.as_bytes(), Stage::Mutate).unwrap();
    let text = String::from_utf8(write(&review, &Answer::allow(Outcome::Unchanged))).unwrap();
    assert!(text.contains(r#""uid":"a\u002fb\\\u00e9""#), "{text}");
}

#[test]
fn no_patch_and_no_patch_type_when_nothing_changes() {
    let answer = answer(&review(&pod(&json!({"containers": []})), &json!({})), &[profile(&vector_spec())]);
    assert_eq!(answer["response"].get("patch"), None);
    assert_eq!(answer["response"].get("patchType"), None);
    assert_eq!(answer["response"].get("status"), None);
}

#[test]
fn bodies_that_cannot_be_answered() {
    let base = review(&s1(), &json!({})).to_string();
    for (rule, body, part) in [
        ("nothing", String::new(), "not JSON"),
        ("not JSON", "kind: AdmissionReview".to_owned(), "not JSON"),
        ("half a body", base[..base.len() / 2].to_owned(), "not JSON"),
        ("something behind it", format!("{base}}}"), "not JSON"),
        ("a list", "[]".to_owned(), "not JSON"),
        ("an empty object", "{}".to_owned(), "an AdmissionReview of admission.k8s.io/v1"),
        ("another version", base.replace("admission.k8s.io/v1", "admission.k8s.io/v2"), "v1beta1 is needed"),
        ("another kind", base.replace("AdmissionReview", "Pod"), "AdmissionReview"),
        ("kind is a number", base.replace("\"AdmissionReview\"", "7"), "AdmissionReview"),
        (
            "no request",
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}).to_string(),
            "request is missing",
        ),
        (
            "a null request",
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null})
                .to_string(),
            "request is missing",
        ),
        ("no uid", base.replace("\"uid\"", "\"id\""), "uid"),
        ("a uid that is no string", base.replace("\"705ab4f5\"", "5"), "uid"),
        ("invalid UTF-8 is no JSON", base.replace("705ab4f5", "\u{0}"), "not JSON"),
    ] {
        let error = read(body.as_bytes(), Stage::Mutate).unwrap_err();
        assert!(error.to_string().contains(part), "{rule}: {error}");
        assert!(read(body.as_bytes(), Stage::Validate).is_err(), "{rule}");
    }
    assert!(matches!(read(b"\xff", Stage::Mutate), Err(EnvelopeError::NotJson(_))));
}

#[test]
fn null_absent_and_empty_are_the_same() {
    for over in [json!(null), json!("")] {
        let body = review(
            &s1(),
            &json!({"request": {"name": over, "oldObject": over, "dryRun": over,
            "subResource": over}}),
        );
        assert_eq!(decision(&body, &[profile(&vector_spec())]), "applied", "{over}");
        let body = review(&over, &json!({}));
        assert_eq!(decision(&body, &[profile(&vector_spec())]), "skipped_malformed", "{over}");
    }
    let mut body = review(&s1(), &json!({}));
    for key in ["name", "oldObject", "dryRun", "options", "userInfo", "resource"] {
        body["request"].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(decision(&body, &[profile(&vector_spec())]), "applied");
}

#[test]
fn the_last_of_duplicate_keys_wins() {
    let body = review(&s1(), &json!({})).to_string();
    let body = body.replace("\"operation\":\"CREATE\"", "\"operation\":\"DELETE\",\"operation\":\"CREATE\"");
    let body = body.replace("\"cpu\":\"1\"", "\"cpu\":\"9\",\"cpu\":\"1\"");
    let answer = answer_with(&body, &objects(&[profile(&vector_spec())]), &settings());
    assert_eq!(answer["response"]["auditAnnotations"]["changed"], "static(shared-pool): app cpu 1 -> 500m");
}

#[test]
fn only_the_namespace_of_the_request_counts() {
    let mut elsewhere = s1();
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    assert_eq!(decision(&review(&elsewhere, &json!({})), &[profile(&vector_spec())]), "applied");
    let body = review(&s1(), &json!({"request": {"namespace": "kube-system"}}));
    assert_eq!(decision(&body, &[profile(&vector_spec())]), "skipped_excluded_namespace");
}

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

fn namespace(over: &Value) -> Value {
    merged(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        &json!({"metadata": over}),
    )
}

fn annotated(annotations: &Value) -> Value {
    merged(&s1(), &json!({"metadata": {"annotations": annotations}}))
}

/// `apply: false` is there to look before one leaps: what would be is told, and the answer stays what it is.
#[test]
fn what_would_become_of_a_pod_is_told_for_apply_false_only() {
    let guaranteed = app(&Value::Null, &json!({"cpu": "1", "memory": "1Gi"}));
    let opted_out = annotated(&json!({"plimsoll.dev/overcommit": "disabled"}));
    let rows: [(&str, &Value, Value, &str); 8] = [
        ("apply false", &s1(), json!({"apply": false}), "app cpu 1 -> 500m"),
        ("apply true", &s1(), json!({"apply": true}), "nothing"),
        ("off", &s1(), json!({"apply": false, "mode": "Off"}), "nothing"),
        ("opted out", &opted_out, json!({"apply": false}), "nothing"),
        ("nothing requested", &pod(&json!({"containers": []})), json!({"apply": false}), ""),
        (
            "guaranteed, Skip",
            &guaranteed,
            json!({"apply": false, "guaranteedPods": "Skip"}),
            "skipped_guaranteed",
        ),
        (
            "guaranteed, Apply",
            &guaranteed,
            json!({"apply": false}),
            "app cpu 1 -> 500m, app memory 1Gi -> 717Mi",
        ),
        (
            "bounds hold",
            &s1(),
            json!({"apply": false, "static": {"minimum": {"cpu": "800m"}}}),
            "app cpu 1 -> 800m",
        ),
    ];
    for (rule, pod, over, expected) in rows {
        let objects = objects(&[profile(&merged(&vector_spec(), &over))]);
        let settings = settings();
        let now = NOW.parse().unwrap();
        let context =
            Context { objects: &objects, settings: &settings, namespace: None, now, defaulted: None };
        let pod = Pruned::of(pod);
        let (decided, explained) = (decide(&pod, "shop", &context), explain(&pod, "shop", &context));
        assert_eq!(explained.answer, decided.answer, "{rule}: the answer is the same");
        assert!(decided.would_be.is_none(), "{rule}: whoever does not explain does not plan");
        let told = match &explained.would_be {
            None => "nothing".to_owned(),
            Some(WouldBe::Skipped(skip)) => skip.word().to_owned(),
            Some(WouldBe::Planned(plan)) => {
                let line = |line: &Line| {
                    format!(
                        "{} {} {} -> {}",
                        line.target, line.resource, line.original.text, line.result.text
                    )
                };
                plan.lines.iter().map(line).collect::<Vec<_>>().join(", ")
            }
        };
        assert_eq!(told, expected, "{rule}");
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
fn which_profile_a_pod_falls_under() {
    let named = |name: &str, spec: Value| {
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": name},
            "spec": merged(&vector_spec(), &spec)})
    };
    let pool = |pool: &str| json!({"match": {"pools": [pool]}});
    let kinds = |kind: &str| json!({"match": {"workloadKinds": [kind]}});
    let pod_of = |kind: &str, api: &str, name: &str| {
        merged(
            &s1(),
            &json!({"metadata": {"labels": {"pod-template-hash": "5d4"},
            "ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "controller": true}]}}),
        )
    };
    let owner = |api: &str, kind: &str, name: &str, controller: Option<(&str, &str, &str)>| {
        let references: Vec<Value> = controller
            .into_iter()
            .map(|(api, kind, name)| json!({"apiVersion": api, "kind": kind, "name": name, "controller": true}))
            .collect();
        json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": references}})
    };
    let rows: Vec<(&str, Value, Vec<Value>, Option<&str>)> = vec![
        (
            "the highest priority wins",
            s1(),
            vec![named("a", json!({})), named("b", json!({"priority": 1}))],
            Some("b"),
        ),
        (
            "equal priority: the name that sorts first",
            s1(),
            vec![named("b", json!({})), named("a", json!({}))],
            Some("a"),
        ),
        (
            "an Off profile of higher priority shields",
            s1(),
            vec![named("a", json!({})), named("b", json!({"priority": 1, "mode": "Off"}))],
            Some("b"),
        ),
        (
            "the namespace's pool before the pod's",
            merged(&s1(), &json!({"metadata": {"labels": {"plimsoll.dev/pool": "own"}}})),
            vec![
                named("a", pool("own")),
                named("b", pool("shared")),
                namespace(&json!({"labels": {"plimsoll.dev/pool": "shared"}})),
            ],
            Some("b"),
        ),
        (
            "the pod's pool before its node selector's",
            merged(
                &s1(),
                &json!({"metadata": {"labels": {"plimsoll.dev/pool": "own"}},
                "spec": {"nodeSelector": {"plimsoll.dev/pool": "shared"}}}),
            ),
            vec![named("a", pool("own")), named("b", pool("shared"))],
            Some("a"),
        ),
        (
            "the node selector's pool",
            merged(&s1(), &json!({"spec": {"nodeSelector": {"plimsoll.dev/pool": "shared"}}})),
            vec![named("a", pool("own")), named("b", pool("shared"))],
            Some("b"),
        ),
        ("no pool", s1(), vec![named("a", pool("own"))], None),
        (
            "a namespace selector",
            s1(),
            vec![
                named("a", json!({"match": {"namespaceSelector": {"matchLabels": {"team": "x"}}}})),
                named(
                    "b",
                    json!({"match": {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}}),
                ),
                namespace(&json!({"labels": {"team": "y"}})),
            ],
            Some("b"),
        ),
        (
            "a pod selector",
            merged(&s1(), &json!({"metadata": {"labels": {"app": "web"}}})),
            vec![
                named("a", json!({"match": {"podSelector": {"matchLabels": {"app": "db"}}}})),
                named("b", json!({"match": {"podSelector": {"matchLabels": {"app": "web"}}}})),
            ],
            Some("b"),
        ),
        ("a bare pod is of kind Pod", s1(), vec![named("a", kinds("Pod"))], Some("a")),
        (
            "a ReplicaSet's Deployment",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![
                named("a", kinds("Deployment")),
                owner("apps/v1", "ReplicaSet", "web-5d4", Some(("apps/v1", "Deployment", "web"))),
            ],
            Some("a"),
        ),
        (
            "a ReplicaSet's Rollout",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![
                named("a", kinds("Rollout")),
                owner("apps/v1", "ReplicaSet", "web-5d4", Some(("argoproj.io/v1alpha1", "Rollout", "web"))),
            ],
            Some("a"),
        ),
        (
            "a ReplicaSet of its own",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![named("a", kinds("ReplicaSet")), owner("apps/v1", "ReplicaSet", "web-5d4", None)],
            Some("a"),
        ),
        (
            "a ReplicaSet not seen yet is taken for a Deployment's",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![named("a", kinds("Deployment"))],
            Some("a"),
        ),
        (
            "a Job's CronJob",
            pod_of("Job", "batch/v1", "backup-1"),
            vec![
                named("a", kinds("CronJob")),
                owner("batch/v1", "Job", "backup-1", Some(("batch/v1", "CronJob", "backup"))),
            ],
            Some("a"),
        ),
        ("a Job of its own", pod_of("Job", "batch/v1", "once"), vec![named("a", kinds("Job"))], Some("a")),
        (
            "any other controller",
            pod_of("CloneSet", "apps.kruise.io/v1alpha1", "c"),
            vec![named("a", kinds("CloneSet"))],
            Some("a"),
        ),
        (
            "an owner that is no controller",
            merged(
                &s1(),
                &json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]}}),
            ),
            vec![named("a", kinds("Pod"))],
            Some("a"),
        ),
        (
            "a broken profile disables only itself",
            s1(),
            vec![
                named("a", json!({})),
                named("b", json!({"priority": 9, "static": {"factors": {"cpu": "2"}}})),
            ],
            Some("a"),
        ),
    ];
    for (rule, pod, manifests, expected) in rows {
        let answer = answer(&review(&pod, &json!({})), &manifests);
        assert_eq!(answer["response"]["auditAnnotations"]["profile"].as_str(), expected, "{rule}");
    }
}

#[test]
fn a_recommendation_is_found_by_the_topmost_owner() {
    let pod = merged(
        &app(&json!({"cpu": "2"}), &Value::Null),
        &json!({"metadata": {
        "labels": {"pod-template-hash": "5d4"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4", "controller": true}]}}),
    );
    let recommendation = |api: &str| {
        support::recommendation(
            &json!([support::figures("app", &json!({"cpu": "800m"}))]),
            &json!({"spec": {"targetRef": {"apiVersion": api, "kind": "Deployment", "name": "web"}}}),
        )
    };
    let spec = profile(&json!({"mode": "Dynamic"}));
    let body = review(&pod, &json!({}));
    assert_eq!(decision(&body, &[spec.clone(), recommendation("apps/v1")]), "applied");
    assert_eq!(
        decision(&body, &[spec, recommendation("example.com/v1")]),
        "unchanged",
        "another group's kind"
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

#[test]
fn applied_is_cut_where_it_would_be_long() {
    let containers: Vec<Value> = (0..60)
        .map(|index| container(&format!("container-{index}"), &json!({"cpu": "1"}), &Value::Null))
        .collect();
    let (patched, _) = support::after(
        "many",
        &pod(&json!({"containers": containers})),
        &objects(&[profile(&vector_spec())]),
    );
    let applied = patched["metadata"]["annotations"]["plimsoll.dev/applied"].as_str().unwrap();
    assert!(applied.len() < 1100 && applied.contains(" more"), "{applied}");
    assert_eq!(support::record(&patched)["containers"].as_object().unwrap().len(), 60, "the record is whole");
}
