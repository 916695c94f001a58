//! Flavors at `/mutate`, after the step that lowers requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use plimsoll_core::admission::{
    AbsentNamespace, Context, Decision, Outcome, Settings, Skip, Stage, decide, mutate, read, write,
};
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::pod::Pruned;
use plimsoll_core::quota::{StoredTree, Tree};
use serde_json::{Value, json};

use crate::support::{flavors, is_in, terms, terms_of, tree};

/// A cluster with the tree, its flavors and, if given, a profile of this spec.
fn objects(levels: [&str; 3], profile: Option<Value>, change: impl FnOnce(&mut Tree)) -> Objects {
    let mut objects = Objects::default();
    let (mut tree, _) = tree(levels);
    change(&mut tree);
    let stored = StoredTree {
        namespace: "kube-system".to_owned(),
        name: "t".to_owned(),
        tree: Arc::new(tree),
        ..StoredTree::default()
    };
    objects.put(Fact::QuotaTree(Arc::new(stored)));
    for flavor in flavors().into_values() {
        objects.put(Fact::Flavor(flavor));
    }
    if let Some(spec) = profile {
        let manifest = json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile",
            "metadata": {"name": "shared-pool"}, "spec": spec});
        objects.put(read_manifest(&manifest).unwrap().unwrap());
    }
    objects
}

fn half() -> Value {
    json!({"mode": "Static", "static": {"factors": {"cpu": "0.5"}}})
}

fn settings() -> Settings {
    Settings {
        excluded_namespaces: ["kube-system", "plimsoll", "excluded"].map(str::to_owned).into(),
        own_namespace: "plimsoll".to_owned(),
        absent_namespace: AbsentNamespace::Exists,
        ..Settings::default()
    }
}

fn app(annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "annotations": annotations},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn review(pod: &Value, namespace: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": namespace,
        "operation": "CREATE", "userInfo": {"username": "u", "groups": ["system:authenticated"]}, "object": pod}})
}

fn judge(review: &Value, objects: &Objects) -> (Decision, Value) {
    let text = review.to_string();
    let review = read(text.as_bytes(), Stage::Mutate).unwrap();
    let settings = settings();
    let now = "2026-03-10T12:00:00Z".parse().unwrap();
    let context = Context { objects, settings: &settings, namespace: None, now, defaulted: None };
    let decision = mutate(&review, &context);
    let answer: Value = serde_json::from_slice(&write(&review, &decision.answer)).unwrap();
    (decision, answer["response"].clone())
}

fn patched(pod: &Value, response: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
    }
    pod
}

const SPOT: [&str; 3] = ["spot", "", ""];

#[test]
fn pods_of_a_quota_get_its_flavors_whatever_becomes_of_their_requests() {
    let none = json!({});
    let off = json!({"mode": "Off"});
    let opted_out = json!({"plimsoll.dev/overcommit": "disabled"});
    let limits_that_are_none = json!([{"name": "app", "resources": 5}]);
    let mut malformed = app(&none);
    malformed["spec"]["containers"] = limits_that_are_none;
    for (rule, profile, pod, lowered, of_requests) in [
        ("lowered too", Some(half()), app(&none), "500m", None),
        ("opted out", Some(half()), app(&opted_out), "1", Some(Skip::PodOptOut)),
        ("no profile", None, app(&none), "1", Some(Skip::NoProfile)),
        ("profile off", Some(off), app(&none), "1", Some(Skip::ProfileOff)),
        ("requests that cannot be read", Some(half()), malformed, "", Some(Skip::Malformed)),
    ] {
        let request = review(&pod, "namespace1");
        let (alone, _) = judge(&request, &objects(["", "", ""], profile.clone(), |_| {}));
        if let Some(skip) = of_requests {
            assert_eq!(alone.answer.outcome, Outcome::Skipped(skip), "{rule}: without flavors");
        }
        assert_eq!(alone.flavors, None, "{rule}");

        let objects = objects(SPOT, profile, |_| {});
        let (decision, response) = judge(&request, &objects);
        assert_eq!((decision.answer.outcome, &decision.self_check), (Outcome::Applied, &None), "{rule}");
        let after = patched(&pod, &response);
        assert_eq!(*terms_of(&after), terms(&[&[is_in("instance-type", &["spot"])]]), "{rule}");
        if !lowered.is_empty() {
            assert_eq!(after["spec"]["containers"][0]["resources"]["requests"]["cpu"], lowered, "{rule}");
        }
        let changed = response["auditAnnotations"]["changed"].as_str().unwrap();
        assert!(changed.ends_with("nodes: instance-type In [spot] (root.a.a1: spot)"), "{rule}: {changed}");
        assert_eq!(changed.contains("cpu"), lowered == "500m", "{rule}: {changed}");

        let (again, response) = judge(&review(&after, "namespace1"), &objects);
        assert_eq!(again.answer.patch, [], "{rule}: our own result needs nothing");
        assert_eq!(response["allowed"], true, "{rule}");
        let step = again.flavors.unwrap();
        assert!(!step.changed && step.refusal.is_none() && step.placement.is_some(), "{rule}");
    }
}

#[test]
fn operations_stand_in_order() {
    let (decision, _) = judge(&review(&app(&json!({})), "namespace1"), &objects(SPOT, Some(half()), |_| {}));
    let paths: Vec<_> = decision.answer.patch.iter().map(|operation| operation.path().to_owned()).collect();
    assert_eq!(paths[..2], ["/spec/containers/0/resources/requests/cpu", "/spec/affinity"]);
    assert!(paths[2..].iter().all(|path| path.starts_with("/metadata/annotations")), "{paths:?}");
}

type Change = Box<dyn FnOnce(&mut Tree)>;

#[test]
fn pods_that_are_not_of_a_quota_are_left_alone() {
    let mirror = || app(&json!({"kubernetes.io/config.mirror": "x"}));
    let of_node = |mut request: Value| {
        request["request"]["userInfo"]["groups"] = json!(["system:nodes", "system:authenticated"]);
        request
    };
    let operation = |name: &str| {
        let mut request = review(&app(&json!({})), "namespace1");
        request["request"]["operation"] = json!(name);
        request
    };
    let sub_resource = || {
        let mut request = review(&app(&json!({})), "namespace1");
        request["request"]["subResource"] = json!("resize");
        request
    };
    let bind = |namespace: &'static str| {
        move |tree: &mut Tree| {
            let mut nodes = tree.nodes().to_vec();
            nodes[2].namespaces.push(namespace.into());
            *tree = Tree::new("t", "", 0, nodes);
        }
    };
    let block = |tree: &mut Tree| {
        tree.blocked = BTreeMap::from([("namespace1".into(), "in two leaves".to_owned())]);
    };
    let as_is = || -> Change { Box::new(|_: &mut Tree| {}) };
    for (rule, request, change, placed) in [
        ("a pod of the quota", review(&app(&json!({})), "namespace1"), as_is(), true),
        ("another namespace", review(&app(&json!({})), "other"), as_is(), false),
        ("UPDATE", operation("UPDATE"), as_is(), false),
        ("a subresource", sub_resource(), as_is(), false),
        ("a mirror pod", of_node(review(&mirror(), "namespace1")), as_is(), false),
        ("a pod that says it is one", review(&mirror(), "namespace1"), as_is(), true),
        ("a pod that a node creates", of_node(review(&app(&json!({})), "namespace1")), as_is(), true),
        ("kube-system", review(&app(&json!({})), "kube-system"), Box::new(bind("kube-system")), false),
        ("our own namespace", review(&app(&json!({})), "plimsoll"), Box::new(bind("plimsoll")), false),
        (
            "a namespace whose requests are left alone",
            review(&app(&json!({})), "excluded"),
            Box::new(bind("excluded")),
            true,
        ),
        (
            "blocked: refused at the other stage",
            review(&app(&json!({})), "namespace1"),
            Box::new(block),
            false,
        ),
    ] {
        let (decision, response) = judge(&request, &objects(SPOT, None, change));
        assert_eq!(response["allowed"], true, "{rule}");
        assert_eq!(decision.flavors.is_some(), placed, "{rule}");
        assert_eq!(response.get("patch").is_some(), placed, "{rule}");
    }
}

#[test]
fn a_refusal_is_a_denial() {
    for (rule, levels, selector, word) in [
        ("missing flavor", ["ghost", "", ""], Value::Null, "ghost"),
        ("missing above", ["spot", "", "ghost"], Value::Null, "ghost"),
        ("node selector", ["spot", "", ""], json!({"instance-type": "ondemand"}), "ondemand"),
        ("contradiction", ["spot", "od", ""], Value::Null, "contradict"),
    ] {
        let mut pod = app(&json!({}));
        pod["spec"]["nodeSelector"] = selector;
        let (decision, response) = judge(&review(&pod, "namespace1"), &objects(levels, Some(half()), |_| {}));
        assert_eq!(decision.answer.outcome, Outcome::Denied, "{rule}");
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(false), None), "{rule}");
        assert_eq!(response["status"]["code"], 403, "{rule}");
        assert_eq!(response["auditAnnotations"]["decision"], "denied", "{rule}");
        assert_eq!(response["auditAnnotations"].get("changed"), None, "{rule}");
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("plimsoll: pod refused: ") && message.contains(word),
            "{rule}: {message}"
        );
        assert!(!message.contains("exceeded quota"), "{rule}: waiting does not help");
        assert!(decision.flavors.unwrap().refusal.is_some(), "{rule}");
    }
}

#[test]
fn offline_a_mirror_pod_is_known_by_its_node() {
    let objects = objects(SPOT, None, |_| {});
    let settings = settings();
    let now = "2026-03-10T12:00:00Z".parse().unwrap();
    let context = Context { objects: &objects, settings: &settings, namespace: None, now, defaulted: None };
    for (rule, references, placed) in [
        ("no owner", json!(null), true),
        ("a node", json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "controller": true}]), false),
        ("not its controller", json!([{"apiVersion": "v1", "kind": "Node", "name": "n"}]), true),
        (
            "another group",
            json!([{"apiVersion": "x/v1", "kind": "Node", "name": "n", "controller": true}]),
            true,
        ),
    ] {
        let mut pod = app(&json!({"kubernetes.io/config.mirror": "x"}));
        pod["metadata"]["ownerReferences"] = references;
        let decision = decide(&Pruned::of(&pod), "namespace1", &context);
        assert_eq!(decision.flavors.is_some(), placed, "{rule}");
    }
}
