//! A review in, an answer out: never a panic; the answer is an AdmissionReview with the same uid; its patch applies
//! to the object that was sent; what comes back after it needs nothing more.
#![no_main]

use std::sync::LazyLock;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use plimsoll_core::admission::{
    AbsentNamespace, Context, Settings, Stage, ValidateContext, mutate, patch_to_json, read, validate, write,
};
use plimsoll_core::objects::{Objects, read_manifest};
use serde_json::{Value, json};

static OBJECTS: LazyLock<Objects> = LazyLock::new(|| {
    let mut objects = Objects::default();
    for manifest in [
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "p"},
            "spec": {"mode": "StaticThenDynamic", "static": {"factors": {"cpu": "0.333", "memory": "0.7"}}}}),
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "min": {"cpu": "20m"}, "maxLimitRequestRatio": {"cpu": "4"}},
                {"type": "Pod", "min": {"cpu": "100m"}}]}}),
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
            "metadata": {"name": "r", "namespace": "shop"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "profile": "p"},
            "status": {"containers": [{"name": "app", "cpu": {"target": "100m"}, "memory": {"target": "50Mi"},
                "firstSample": "2026-01-01T00:00:00Z", "lastSample": "2026-01-05T00:00:00Z"}]}}),
    ] {
        objects.put(read_manifest(&manifest).unwrap().unwrap());
    }
    objects
});

fuzz_target!(|body: &[u8]| {
    let settings = Settings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        absent_namespace: AbsentNamespace::Exists,
        ..Settings::default()
    };
    if let Ok(review) = read(body, Stage::Validate) {
        let context = ValidateContext { objects: &OBJECTS, settings: &settings, usage: None };
        let answer: Value = serde_json::from_slice(&write(&review, &validate(&review, &context))).unwrap();
        assert!(answer["response"].get("patch").is_none(), "no patch at /validate");
    }
    let Ok(review) = read(body, Stage::Mutate) else { return };
    let now: Timestamp = "2026-01-05T00:01:00Z".parse().unwrap();
    let context = Context { objects: &OBJECTS, settings: &settings, namespace: None, now, defaulted: None };
    let decision = mutate(&review, &context);
    let answer: Value = serde_json::from_slice(&write(&review, &decision.answer)).unwrap();
    let uid: Value = serde_json::from_str(review.uid.get()).unwrap();
    assert_eq!(answer["response"]["uid"], uid);
    assert_eq!(answer["response"]["allowed"], true, "a pod is never refused at /mutate");
    assert_eq!(decision.self_check, None, "our patches are right");
    if decision.answer.patch.is_empty() {
        return;
    }
    // What a full parser refuses (numbers out of range, deep nesting) was skipped over by ours.
    let Ok(mut again) = serde_json::from_slice::<Value>(body) else { return };
    let patch: json_patch::Patch = serde_json::from_slice(&patch_to_json(&decision.answer.patch)).unwrap();
    json_patch::patch(&mut again["request"]["object"], &patch).unwrap();
    let again = again.to_string();
    let review = read(again.as_bytes(), Stage::Mutate).unwrap();
    assert!(mutate(&review, &context).answer.patch.is_empty(), "our own result needs nothing");
});
