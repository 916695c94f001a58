//! A review, and its answer.

use plimsoll_core::admission::{Context, Settings, Stage, mutate, read, write};
use plimsoll_core::objects::Objects;
use serde_json::{Value, json};

use crate::support::{NOW, app, merged, objects, settings};

pub(crate) fn review(object: &Value, over: &Value) -> Value {
    let base = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "requestKind": {"kind": "Pod"},
        "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "u"}, "object": object,
        "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions"}}});
    merged(&base, over)
}

pub(crate) fn s1() -> Value {
    app(&json!({"cpu": "1"}), &json!({"cpu": "2"}))
}

pub(crate) fn answer_with(body: &str, objects: &Objects, settings: &Settings) -> Value {
    let review = read(body.as_bytes(), Stage::Mutate).unwrap();
    let context = Context { objects, settings, namespace: None, now: NOW.parse().unwrap(), defaulted: None };
    serde_json::from_slice(&write(&review, &mutate(&review, &context).answer)).unwrap()
}

pub(crate) fn answer(body: &Value, manifests: &[Value]) -> Value {
    answer_with(&body.to_string(), &objects(manifests), &settings())
}

pub(crate) fn decision(body: &Value, manifests: &[Value]) -> String {
    answer(body, manifests)["response"]["auditAnnotations"]["decision"].as_str().unwrap().to_owned()
}

pub(crate) fn namespace(over: &Value) -> Value {
    merged(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        &json!({"metadata": over}),
    )
}

pub(crate) fn annotated(annotations: &Value) -> Value {
    merged(&s1(), &json!({"metadata": {"annotations": annotations}}))
}
