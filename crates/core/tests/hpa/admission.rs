//! The review of an autoscaler.

use plimsoll_core::admission::{Context, Settings, Stage, read as read_review, write};
use plimsoll_core::hpa::mutate;
use plimsoll_core::objects::Objects;
use serde_json::{Value, json};

use crate::world::{
    ORIGINAL, SYNC, annotated, average, context, deployment, hpa, objects, record, settings, static_profile,
    utilization,
};

struct Answered {
    outcome: String,
    warnings: Vec<String>,
    changed: Option<String>,
    after: Value,
}

fn review(operation: &str, new: &Value, old: Option<&Value>, context: &Context<'_>) -> Answered {
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "object": new, "oldObject": old, "namespace": "shop", "name": "web", "operation": operation,
        "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
        "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
    }});
    let body = serde_json::to_vec(&body).unwrap();
    let review = read_review(&body, Stage::Mutate).unwrap();
    let decision = mutate(&review, context);
    assert!(decision.self_check.is_none(), "{:?}", decision.self_check);
    let answer: Value = serde_json::from_slice(&write(&review, &decision.answer)).unwrap();
    assert_eq!(answer["response"]["allowed"], true);
    let mut after = new.clone();
    if let Some(patch) = answer["response"]["patch"].as_str() {
        use base64::Engine as _;
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
    }
    Answered {
        outcome: decision.answer.outcome.word().to_owned(),
        warnings: decision.answer.warnings,
        changed: decision.answer.changed,
        after,
    }
}

fn target(hpa: &Value) -> String {
    let target = &hpa["spec"]["metrics"][0]["resource"]["target"];
    match target["averageValue"].as_str() {
        Some(value) => value.to_owned(),
        None => format!("{}%", target["averageUtilization"]),
    }
}

fn ours(
    objects: &Objects,
    settings: &Settings,
    operation: &str,
    new: &Value,
    old: Option<&Value>,
) -> Answered {
    review(operation, new, old, &context(objects, settings))
}

#[test]
fn reviews() {
    let plain = hpa(&json!([utilization("cpu", 80)]));
    let stored = annotated(hpa(&json!([average("cpu", "750m")])), ORIGINAL, &record(50, "750m", "15", 10));
    let edited = annotated(hpa(&json!([utilization("cpu", 60)])), ORIGINAL, &record(50, "750m", "15", 10));
    let sync = |hpa: &Value, text: &str| annotated(hpa.clone(), SYNC, text);
    let told = r#"{"bases":[{"type":"Resource","resource":"cpu","basis":"request","sum":"20","pods":10}]}"#;
    let ours_profile = static_profile(&json!({}));
    let with = objects(&ours_profile, &[deployment("1", "2")]);
    let without_workload = objects(&ours_profile, &[]);
    let without_profile = objects(&Value::Null, &[deployment("1", "2")]);
    let empty = objects(&Value::Null, &[]);
    for (rule, objects, operation, new, old, expected, recorded) in [
        ("created, and its workload is known", &with, "CREATE", plain.clone(), None, "800m", true),
        (
            "created before its workload: annotated",
            &without_workload,
            "CREATE",
            plain.clone(),
            None,
            "80%",
            true,
        ),
        ("no profile anywhere: nothing is remembered", &empty, "CREATE", plain.clone(), None, "80%", false),
        ("no profile matches", &without_profile, "CREATE", plain.clone(), None, "80%", false),
        (
            "an edit: by what the keeper saw last",
            &with,
            "UPDATE",
            edited.clone(),
            Some(&stored),
            "900m",
            true,
        ),
        (
            "an edit, the workload is not known",
            &without_workload,
            "UPDATE",
            edited.clone(),
            Some(&stored),
            "900m",
            true,
        ),
        (
            "an edit, and the profile is gone: its pods may be lowered still",
            &without_profile,
            "UPDATE",
            edited,
            Some(&stored),
            "900m",
            true,
        ),
        (
            "a change of something else",
            &without_profile,
            "UPDATE",
            stored.clone(),
            Some(&stored),
            "750m",
            true,
        ),
        ("told by the keeper", &with, "UPDATE", sync(&stored, told), Some(&stored), "1", true),
        (
            "told by the keeper, never converted before",
            &with,
            "UPDATE",
            sync(&plain, told),
            Some(&plain),
            "1600m",
            true,
        ),
        (
            "told to restore",
            &with,
            "UPDATE",
            sync(&stored, r#"{"restore":true}"#),
            Some(&stored),
            "50%",
            false,
        ),
        ("told nonsense", &with, "UPDATE", sync(&stored, "{"), Some(&stored), "750m", true),
        (
            "the author applies the percentage again",
            &with,
            "UPDATE",
            plain.clone(),
            Some(&stored),
            "1200m",
            true,
        ),
    ] {
        let answered = ours(objects, &settings(), operation, &new, old);
        assert_eq!(target(&answered.after), expected, "{rule}");
        let annotations = &answered.after["metadata"]["annotations"];
        assert_eq!(annotations.get(ORIGINAL).is_some(), recorded, "{rule}: {annotations}");
        assert!(annotations.get(SYNC).is_none(), "{rule}");
        let changes = answered.after != new;
        assert_eq!(answered.outcome, if changes { "applied" } else { "unchanged" }, "{rule}");
        assert_eq!(answered.warnings.is_empty(), rule != "told nonsense", "{rule}: {:?}", answered.warnings);
        assert_eq!(answered.changed.is_some(), target(&new) != target(&answered.after), "{rule}");
    }
}

#[test]
fn opting_out_takes_effect_at_once() {
    let objects = objects(&static_profile(&json!({})), &[deployment("1", "2")]);
    let stored = annotated(hpa(&json!([average("cpu", "750m")])), ORIGINAL, &record(50, "750m", "15", 10));
    let out = annotated(stored.clone(), "plimsoll.dev/overcommit", "disabled");
    let answered = ours(&objects, &settings(), "UPDATE", &out, Some(&stored));
    assert_eq!(target(&answered.after), "50%");
    assert_eq!(answered.after["metadata"]["annotations"], json!({"plimsoll.dev/overcommit": "disabled"}));
}

/// Who copies an autoscaler copies its record too.
#[test]
fn the_base_of_a_record_that_came_along_does_not_count() {
    let objects = objects(&static_profile(&json!({})), &[deployment("1", "2")]);
    let copied = annotated(hpa(&json!([utilization("cpu", 70)])), ORIGINAL, &record(80, "4", "50", 10));
    assert_eq!(target(&ours(&objects, &settings(), "CREATE", &copied, None).after), "700m");
    let mut elsewhere = annotated(hpa(&json!([average("cpu", "4")])), ORIGINAL, &record(80, "4", "50", 10));
    elsewhere["spec"]["scaleTargetRef"]["name"] = json!("other");
    let retargeted = annotated(hpa(&json!([utilization("cpu", 80)])), ORIGINAL, &record(80, "4", "50", 10));
    assert_eq!(target(&ours(&objects, &settings(), "UPDATE", &retargeted, Some(&elsewhere)).after), "800m");
}

#[test]
fn another_basis_in_the_template_does_not_fight_the_keeper() {
    let objects = objects(&static_profile(&json!({"basis": "Limit"})), &[deployment("1", "2")]);
    let stored = annotated(hpa(&json!([average("cpu", "750m")])), ORIGINAL, &record(50, "750m", "15", 10));
    let answered = ours(&objects, &settings(), "UPDATE", &stored, Some(&stored));
    assert_eq!(answered.after, stored);
}

#[test]
fn what_is_not_looked_at() {
    let objects = objects(&static_profile(&json!({})), &[deployment("1", "2")]);
    let mut v1 = hpa(&json!([]));
    v1["apiVersion"] = json!("autoscaling/v1");
    let mut excluded = settings();
    excluded.excluded_namespaces.insert("shop".to_owned());
    let plain = hpa(&json!([utilization("cpu", 80)]));
    let mut targetless = plain.clone();
    targetless["spec"]["scaleTargetRef"] = json!(null);
    for (rule, settings, operation, object, outcome, warns) in [
        ("a deletion", settings(), "DELETE", plain.clone(), "skipped_operation", false),
        ("a namespace that is excluded", excluded, "CREATE", plain, "skipped_excluded_namespace", false),
        (
            "a version that the API server should have converted",
            settings(),
            "CREATE",
            v1,
            "skipped_kind",
            true,
        ),
        ("no target", settings(), "CREATE", targetless, "skipped_malformed", true),
        ("no object", settings(), "CREATE", json!(null), "skipped_kind", true),
    ] {
        let answered = ours(&objects, &settings, operation, &object, None);
        assert_eq!((answered.outcome.as_str(), !answered.warnings.is_empty()), (outcome, warns), "{rule}");
        assert_eq!(answered.after, object, "{rule}");
    }
}

#[test]
fn a_record_beyond_what_annotations_may_hold_is_not_sent() {
    let objects = objects(&static_profile(&json!({})), &[deployment("1", "2")]);
    let large = annotated(hpa(&json!([utilization("cpu", 80)])), "note", &"x".repeat(262_100));
    let settings = settings();
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "object": large, "namespace": "shop", "name": "web", "operation": "CREATE",
        "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
    }});
    let body = serde_json::to_vec(&body).unwrap();
    let review = read_review(&body, Stage::Mutate).unwrap();
    let decision = mutate(&review, &context(&objects, &settings));
    assert!(decision.self_check.is_some() && decision.answer.patch.is_empty());
    assert!(decision.answer.warnings[0].contains("262144"), "{:?}", decision.answer.warnings);
}
