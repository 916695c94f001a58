//! The envelope: versions, identities, and bodies that are no reviews.

use base64::Engine as _;
use plimsoll_core::admission::{Answer, EnvelopeError, Outcome, Stage, read, write};
use serde_json::json;

use crate::review::{answer, answer_with, decision, review, s1};
use crate::support::{objects, pod, profile, settings, vector_spec};

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
