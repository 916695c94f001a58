//! A review of an autoscaler in, an answer out: never a panic, never a refusal; its patch applies; the annotation of the
//! keeper is gone after it; what comes back needs nothing more; and told to restore, no value of ours stays.
#![no_main]

use std::sync::LazyLock;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use plimsoll_core::admission::{AbsentNamespace, Context, Settings, Stage, patch_to_json, read, write};
use plimsoll_core::hpa::{Hpa, Note, Verdict, Why, apply_to, convert, is_hpa, mutate};
use plimsoll_core::objects::{Objects, read_manifest};
use serde_json::{Value, json};

static OBJECTS: LazyLock<Objects> = LazyLock::new(|| {
    let mut objects = Objects::default();
    for manifest in [
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "p"},
            "spec": {"mode": "Static", "static": {"factors": {"cpu": "0.5"}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}}}),
    ] {
        objects.put(read_manifest(&manifest).unwrap().unwrap());
    }
    objects
});

fuzz_target!(|body: &[u8]| {
    let Ok(review) = read(body, Stage::Mutate) else { return };
    if !is_hpa(&review) {
        return;
    }
    let settings = Settings { absent_namespace: AbsentNamespace::Exists, ..Settings::default() };
    let now = Timestamp::UNIX_EPOCH;
    let context = Context { objects: &OBJECTS, settings: &settings, namespace: None, now, defaulted: None };
    let decision = mutate(&review, &context);
    let answer: Value = serde_json::from_slice(&write(&review, &decision.answer)).unwrap();
    assert_eq!(answer["response"]["allowed"], true, "an autoscaler is never refused");
    assert!(decision.self_check.is_none_or(|error| error.to_string().contains("262144")));
    // What a full parser refuses (numbers out of range, deep nesting) was skipped over by ours.
    let Ok(sent) = serde_json::from_slice::<Value>(body) else { return };
    let mut after = sent["request"]["object"].clone();
    let patch: json_patch::Patch = serde_json::from_slice(&patch_to_json(&decision.answer.patch)).unwrap();
    json_patch::patch(&mut after, &patch).unwrap();
    // What was restored because it was asked for is a utilization again, which the next change converts.
    let restored = decision.conversion.notes.iter().any(|note| matches!(note, Note::Restored { .. }));
    if decision.answer.patch.is_empty() || restored {
        return;
    }
    let again = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "UPDATE", "namespace": &*review.namespace, "object": after, "oldObject": after,
        "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"}}})
    .to_string();
    let review = read(again.as_bytes(), Stage::Mutate).unwrap();
    let second = mutate(&review, &context);
    assert!(second.answer.patch.is_empty(), "our own result needs nothing: {:?}", second.answer.patch);
    if let Ok(hpa) = Hpa::read(&after) {
        let conversion = convert(&hpa, None, &Verdict::Restore(Why::Asked));
        let restored = apply_to(&after, &conversion);
        let annotations = restored.pointer("/metadata/annotations");
        if conversion.record.is_some() {
            assert!(annotations.is_none_or(|map| map.get("plimsoll.dev/hpa-original").is_none()));
        }
    }
});
