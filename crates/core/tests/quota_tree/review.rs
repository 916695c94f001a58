//! Quota trees at `/validate`.

use plimsoll_core::admission::{
    AbsentNamespace, Settings, Stage, ValidateContext, needs_usage, read, validate, write,
};
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::quota::UsageByNamespace;
use serde_json::{Value, json};

use crate::{changed, tree_t};

fn body(operation: &str, object: &Value, old: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "scheduling.sigs.k8s.io", "version": "v1beta1", "kind": "ElasticQuotaTree"},
        "resource": {"group": "scheduling.sigs.k8s.io", "version": "v1beta1", "resource": "elasticquotatrees"},
        "name": "quota", "namespace": "kube-system", "operation": operation, "object": object, "oldObject": old}})
    .to_string()
}

fn settings() -> Settings {
    Settings {
        absent_namespace: AbsentNamespace::Unknown,
        own_namespace: "plimsoll-system".to_owned(),
        ..Settings::default()
    }
}

fn answer_to(body: &str, objects: &Objects, usage: Option<&UsageByNamespace>) -> Value {
    let review = read(body.as_bytes(), Stage::Validate).unwrap();
    let settings = settings();
    let context = ValidateContext { objects, settings: &settings, usage };
    serde_json::from_slice::<Value>(&write(&review, &validate(&review, &context))).unwrap()["response"]
        .clone()
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

#[test]
fn every_violation_at_once() {
    let bad = changed(&[
        ("/min/cpu", json!(39)),
        ("/children/0/children/0/min/cpu", json!(21)),
        ("/children/1/children/0/namespaces", json!(["namespace1", "plimsoll-system"])),
        ("/children/1/name", json!("a")),
        ("/children/1/weight", json!(1)),
    ]);
    for operation in ["CREATE", "UPDATE"] {
        let old = if operation == "UPDATE" { tree_t() } else { Value::Null };
        let refused = answer_to(&body(operation, &bad, &old), &Objects::default(), Some(&[].into()));
        assert_eq!((&refused["allowed"], &refused["status"]["code"]), (&json!(false), &json!(403)));
        for rule in ["[T1]", "[T2]", "[T3]", "[T5]", "[T7]", "[T11]", "[T12]"] {
            assert!(message(&refused).contains(rule), "{rule}: {}", message(&refused));
        }
    }
    let good = answer_to(&body("CREATE", &tree_t(), &Value::Null), &Objects::default(), None);
    assert_eq!((&good["allowed"], good.get("warnings")), (&json!(true), None));
}

#[test]
fn what_is_allowed_all_the_same() {
    let bad = changed(&[("/min/cpu", json!(39))]);
    let mut label = bad.clone();
    label["metadata"]["finalizers"] = json!([]);
    let allowed = answer_to(&body("UPDATE", &label, &bad), &Objects::default(), None);
    assert_eq!(allowed["allowed"], true, "metadata of a bad tree can be changed");
    assert!(allowed["warnings"][0].as_str().unwrap().contains("spec.root"), "{allowed}");
    let mended = answer_to(&body("UPDATE", &tree_t(), &bad), &Objects::default(), None);
    assert_eq!(mended["allowed"], true, "and it can be mended");
    let still =
        answer_to(&body("UPDATE", &changed(&[("/min/cpu", json!(38))]), &bad), &Objects::default(), None);
    assert_eq!(still["allowed"], false);
    for (rule, from, to) in [
        ("status", "\"name\":\"quota\"", "\"name\":\"quota\",\"subResource\":\"status\""),
        ("another group", "\"group\":\"scheduling.sigs.k8s.io\",\"kind\"", "\"group\":\"x\",\"kind\""),
        ("connect", "\"operation\":\"CREATE\"", "\"operation\":\"CONNECT\""),
    ] {
        let text = body("CREATE", &bad, &Value::Null).replacen(from, to, 3);
        assert!(text.contains(to), "{rule}");
        assert_eq!(answer_to(&text, &Objects::default(), None)["allowed"], true, "{rule}");
    }
}

#[test]
fn deletion_is_refused_while_pods_are_counted() {
    let mut objects = Objects::default();
    objects.put(read_manifest(&tree_t()).unwrap().unwrap());
    let used: UsageByNamespace =
        [("namespace1".into(), [("pods", 2_000_000_000_i128)].into_iter().collect())].into();
    let mut forced = tree_t();
    forced["metadata"]["annotations"] = json!({"plimsoll.dev/force": "true"});
    let delete = body("DELETE", &Value::Null, &tree_t());
    for (rule, body, usage, allowed) in [
        ("in use", &delete, Some(&used), false),
        ("not known", &delete, None, false),
        ("not in use", &delete, Some(&UsageByNamespace::new()), true),
        ("forced", &body("DELETE", &Value::Null, &forced), Some(&used), true),
        ("what is stored counts", &body("DELETE", &Value::Null, &Value::Null), Some(&used), false),
        (
            "elsewhere",
            &delete.replace("\"namespace\":\"kube-system\",\"o", "\"namespace\":\"team\",\"o"),
            Some(&used),
            true,
        ),
    ] {
        let answer = answer_to(body, &objects, usage);
        assert_eq!(answer["allowed"], allowed, "{rule}: {answer}");
        assert_eq!(message(&answer).contains("[T14]"), !allowed, "{rule}");
    }
    // The annotation must be on what is stored, not on what is written.
    let gone = changed(&[("/children/0/children/0/namespaces", json!([]))]);
    let mut gone_forced = gone.clone();
    gone_forced["metadata"]["annotations"] = json!({"plimsoll.dev/force": "true"});
    for (rule, new, old, allowed) in [
        ("not forced", &gone, &tree_t(), false),
        ("forced in the same write", &gone_forced, &tree_t(), false),
        ("forced before", &gone, &forced, true),
    ] {
        let answer = answer_to(&body("UPDATE", new, old), &objects, Some(&used));
        assert_eq!(answer["allowed"], allowed, "{rule}: {answer}");
    }
}

#[test]
fn usage_is_asked_for_when_it_matters() {
    let other = changed(&[("/min/cpu", json!(39))]);
    let elsewhere =
        |text: String| text.replace("\"namespace\":\"kube-system\",\"o", "\"namespace\":\"team\",\"o");
    for (rule, body, expected) in [
        ("create", body("CREATE", &other, &Value::Null), false),
        ("update", body("UPDATE", &other, &tree_t()), true),
        ("update of metadata", body("UPDATE", &tree_t(), &tree_t()), false),
        ("delete", body("DELETE", &Value::Null, &tree_t()), true),
        ("delete elsewhere", elsewhere(body("DELETE", &Value::Null, &tree_t())), false),
    ] {
        let review = read(body.as_bytes(), Stage::Validate).unwrap();
        assert_eq!(needs_usage(&review), expected, "{rule}");
    }
}

/// A tree of this depth as text: as a value it could not even be dropped.
fn deep(depth: usize) -> String {
    let open: String = (0..depth).map(|n| format!(r#"{{"name":"n{n}","children":["#)).collect();
    let tree = format!(r#"{open}{{"name":"leaf","namespaces":["deep"]}}{}"#, "]}".repeat(depth));
    let object = json!({"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree",
        "metadata": {"name": "quota", "namespace": "kube-system"}, "spec": {"root": "TREE"}});
    body("CREATE", &object, &Value::Null).replace("\"TREE\"", &tree)
}

#[test]
fn deep_trees() {
    for (depth, rule) in
        [(100, None), (200, None), (201, Some("[T11]")), (1_000, Some("[T11]")), (150_000, Some("[T11]"))]
    {
        let answer = answer_to(&deep(depth), &Objects::default(), None);
        assert_eq!(answer["allowed"], rule.is_none(), "{depth}: {answer}");
        assert!(rule.is_none_or(|rule| message(&answer).contains(rule)), "{depth}: {answer}");
    }
}

#[test]
fn brackets_take_no_stack_anywhere() {
    let bomb = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
    let good = body("CREATE", &tree_t(), &Value::Null);
    for place in [
        "\"request\":",
        "\"kind\":",
        "\"object\":",
        "\"spec\":",
        "\"name\":",
        "\"cpu\":",
        "\"metadata\":",
        "\"operation\":",
    ] {
        for bomb in [&bomb, "[".repeat(300_000).as_str()] {
            let text = good.replacen(place, &format!("{place}{bomb},\"other\":"), 1);
            for stage in [Stage::Mutate, Stage::Validate] {
                if let Ok(review) = read(text.as_bytes(), stage) {
                    let (objects, settings) = (Objects::default(), settings());
                    let context = ValidateContext { objects: &objects, settings: &settings, usage: None };
                    let _ = write(&review, &validate(&review, &context));
                }
            }
        }
    }
    let skipped = good.replacen("\"uid\":", &format!("\"userInfo\":{bomb},\"uid\":"), 1);
    assert_eq!(
        answer_to(&skipped, &Objects::default(), None)["allowed"],
        true,
        "what is not read does not matter"
    );
}
