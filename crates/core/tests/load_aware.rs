//! Pods of namespaces that ask for it prefer nodes by their load class.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

mod support;

use plimsoll_core::admission::{Context, Decision, Outcome, Settings, decide};
use plimsoll_core::objects::Objects;
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};
use support::{app, apply, merged, objects, profile, settings, vector_spec};

const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

fn namespace(labels: &Value, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": labels, "annotations": annotations}})
}

fn wanted() -> Objects {
    objects(&[namespace(&json!({"plimsoll.dev/load-aware": "true"}), &json!({}))])
}

fn judge(pod: &Value, objects: &Objects, settings: &Settings) -> Decision {
    let now = support::NOW.parse().unwrap();
    let context = Context { objects, settings, namespace: None, now, defaulted: None };
    decide(&Pruned::of(pod), "shop", &context)
}

fn on() -> Settings {
    Settings { load_class: true, ..settings() }
}

fn ours() -> Vec<Value> {
    weighing(50)
}

fn weighing(weight: u8) -> Vec<Value> {
    let term = |operator: &str, class: &str| {
        json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": "plimsoll.dev/load-class", "operator": operator, "values": [class]}]}})
    };
    vec![term("In", "low"), term("NotIn", "high")]
}

fn plain() -> Value {
    app(&json!({"cpu": "1"}), &Value::Null)
}

#[test]
fn terms_are_added_behind_those_that_are_there() {
    let zone = json!({"weight": 100, "preference": {"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["a"]}]}});
    let required =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]});
    let spread = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]});
    for (rule, affinity, before) in [
        ("no affinity", Value::Null, vec![]),
        ("an empty one", json!({}), vec![]),
        ("of pods only", json!({"podAntiAffinity": spread}), vec![]),
        ("node affinity that is null", json!({"nodeAffinity": null}), vec![]),
        (
            "required",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
            vec![],
        ),
        (
            "an empty list",
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
            vec![],
        ),
        (
            "preferred, and more",
            json!({"podAntiAffinity": spread, "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": [zone],
            }}),
            vec![zone.clone()],
        ),
    ] {
        let mut pod = plain();
        pod["spec"]["affinity"] = affinity;
        let decision = judge(&pod, &wanted(), &on());
        assert_eq!((decision.self_check.clone(), decision.load_class), (None, true), "{rule}");
        assert_eq!(decision.answer.outcome, Outcome::Applied, "{rule}");
        assert_eq!(decision.answer.changed.as_deref(), Some("prefers nodes by their load"), "{rule}");
        let patched = apply(&pod, &decision);
        let expected: Vec<_> = before.into_iter().chain(ours()).collect();
        assert_eq!(patched.pointer(PREFERRED), Some(&Value::Array(expected)), "{rule}");
        // Nothing else has changed.
        let mut rest = patched.clone();
        let places = [
            ("/spec/affinity", "podAntiAffinity"),
            ("/spec/affinity/nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        ];
        for (place, key) in places {
            let of = |pod: &Value| pod.pointer(place).and_then(|at| at.get(key)).cloned();
            assert_eq!(of(&patched), of(&pod), "{rule}: {key}");
        }
        rest["spec"]["affinity"] = pod["spec"]["affinity"].clone();
        assert_eq!(rest, pod, "{rule}");
        let again = judge(&patched, &wanted(), &on());
        assert_eq!(again.answer.patch, vec![], "{rule}: not twice");
        assert!(!again.load_class, "{rule}");
    }
}

#[test]
fn what_the_author_prefers_comes_first() {
    for (rule, weights, ours) in [
        ("the greatest", &[100][..], 50),
        ("both together as much as it", &[40], 20),
        ("the heaviest counts", &[3, 61, 7], 30),
        ("at least 1", &[2], 1),
        ("at least 1, even so", &[1, 1], 1),
        ("no weight that there is", &[0], 50),
        ("nor that", &[1000], 50),
    ] {
        let mut pod = plain();
        let terms: Vec<Value> = weights
            .iter()
            .map(|weight| {
                json!({"weight": weight, "preference": {"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": [weight.to_string()]}]}})
            })
            .collect();
        pod["spec"]["affinity"] =
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}});
        let decision = judge(&pod, &wanted(), &on());
        assert_eq!((decision.self_check.clone(), decision.load_class), (None, true), "{rule}");
        let patched = apply(&pod, &decision);
        let expected: Vec<_> = terms.into_iter().chain(weighing(ours)).collect();
        assert_eq!(patched.pointer(PREFERRED), Some(&Value::Array(expected)), "{rule}");
        assert_eq!(judge(&patched, &wanted(), &on()).answer.patch, vec![], "{rule}: not twice");
    }
}

#[test]
fn who_is_left_alone() {
    let labels = |value: &str| json!({"plimsoll.dev/load-aware": value});
    let yes = labels("true");
    let owner = |kind: &str| {
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]}})
    };
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let nothing = json!({});
    let own_terms = json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [
            {"key": "plimsoll.dev/load-class", "operator": "Exists"}]}}]}}}});
    let off = Settings { load_class: false, ..on() };
    let excluded = Settings { excluded_namespaces: ["shop".to_owned()].into(), ..on() };
    for (rule, settings, labels, annotations, pod, expected) in [
        ("wanted", on(), &yes, &nothing, nothing.clone(), true),
        ("not enabled", off, &yes, &nothing, nothing.clone(), false),
        ("excluded", excluded, &yes, &nothing, nothing.clone(), false),
        ("not asked for", on(), &nothing, &nothing, nothing.clone(), false),
        ("another value", on(), &labels("yes"), &nothing, nothing.clone(), false),
        ("an annotation is no label", on(), &nothing, &yes, nothing.clone(), false),
        (
            "namespace opts out",
            on(),
            &yes,
            &json!({"plimsoll.dev/overcommit": "off"}),
            nothing.clone(),
            false,
        ),
        ("pod opts out", on(), &yes, &nothing, annotated("plimsoll.dev/overcommit", "disabled"), false),
        ("pod opts out of this", on(), &yes, &nothing, annotated("plimsoll.dev/load-aware", "false"), false),
        (
            "by a label",
            on(),
            &yes,
            &nothing,
            json!({"metadata": {"labels": {"plimsoll.dev/load-aware": "false"}}}),
            false,
        ),
        (
            "a word that opts nobody out",
            on(),
            &yes,
            &nothing,
            annotated("plimsoll.dev/overcommit", "no"),
            true,
        ),
        ("of a daemon set", on(), &yes, &nothing, owner("DaemonSet"), false),
        ("of a stateful set", on(), &yes, &nothing, owner("StatefulSet"), true),
        ("it says so itself", on(), &yes, &nothing, own_terms, false),
        (
            "a static pod's copy",
            on(),
            &yes,
            &nothing,
            merged(
                &annotated("kubernetes.io/config.mirror", "x"),
                &json!({"metadata": {"ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}]}}),
            ),
            false,
        ),
    ] {
        let objects = objects(&[namespace(labels, annotations)]);
        let decision = judge(&merged(&plain(), &pod), &objects, &settings);
        assert_eq!(decision.load_class, expected, "{rule}");
        let touched =
            decision.answer.patch.iter().any(|operation| operation.path().starts_with("/spec/affinity"));
        assert_eq!(touched, expected, "{rule}");
    }
}

#[test]
fn requests_are_lowered_in_the_same_answer() {
    let labels = json!({"plimsoll.dev/load-aware": "true"});
    let objects = objects(&[namespace(&labels, &json!({})), profile(&vector_spec())]);
    let pod = plain();
    let decision = judge(&pod, &objects, &on());
    assert_eq!(decision.self_check, None);
    let patched = apply(&pod, &decision);
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
    assert_eq!(patched.pointer(PREFERRED), Some(&ours().into()));
    let changed = decision.answer.changed.as_deref().unwrap_or_default();
    assert!(changed.ends_with("; prefers nodes by their load"), "{changed}");
    assert_eq!(judge(&patched, &objects, &on()).answer.patch, vec![]);
}

#[test]
fn what_is_not_of_the_right_form_is_left_as_it_is() {
    for affinity in [
        json!(5),
        json!({"nodeAffinity": "x"}),
        json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": {}}}),
    ] {
        let mut pod = plain();
        pod["spec"]["affinity"] = affinity.clone();
        let decision = judge(&pod, &wanted(), &on());
        assert_eq!(decision.answer.patch, vec![], "{affinity}");
        assert!(decision.self_check.is_some() && !decision.load_class, "{affinity}");
        assert!(decision.answer.warnings[0].contains("no preference"), "{affinity}");
    }
    for spec in [Value::Null, json!(5), json!([])] {
        let mut pod = plain();
        pod["spec"] = spec.clone();
        assert_eq!(judge(&pod, &wanted(), &on()).answer.patch, vec![], "{spec}");
    }
}
