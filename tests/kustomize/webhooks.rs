//! What the API server asks us, and what becomes of pods when we do not answer.

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll::quota::webhooks;
use serde_json::{Value, json};

use crate::support::{base, component, webhook};

#[test]
fn webhooks_are_as_specified() {
    let mutating = webhook("MutatingWebhookConfiguration");
    let autoscalers = &base("MutatingWebhookConfiguration")[0]["webhooks"][1];
    let validating = webhook("ValidatingWebhookConfiguration");
    for (rule, got, want) in [
        ("pods start without us", &mutating["failurePolicy"], json!("Ignore")),
        ("a slow answer costs at most 3 s", &mutating["timeoutSeconds"], json!(3)),
        ("other versions are converted", &mutating["matchPolicy"], json!("Equivalent")),
        ("injected sidecars come again", &mutating["reinvocationPolicy"], json!("IfNeeded")),
        ("dry runs are allowed", &mutating["sideEffects"], json!("None")),
        ("pods only", &mutating["rules"][0]["resources"], json!(["pods"])),
        ("creation only", &mutating["rules"][0]["operations"], json!(["CREATE"])),
        ("one rule", &mutating["rules"][1], Value::Null),
        ("the CA is not in the repository", &mutating["clientConfig"]["caBundle"], Value::Null),
        ("by its name it is taken away", &autoscalers["name"], json!("hpas.plimsoll.dev")),
        ("autoscalers are stored without us", &autoscalers["failurePolicy"], json!("Ignore")),
        ("v1 is converted", &autoscalers["matchPolicy"], json!("Equivalent")),
        ("from the version that has everything", &autoscalers["rules"][0]["apiVersions"], json!(["v2"])),
        ("dry runs are allowed", &autoscalers["sideEffects"], json!("None")),
        (
            "not their status, which is written all the time",
            &autoscalers["rules"][0]["resources"],
            json!(["horizontalpodautoscalers"]),
        ),
        ("whenever they change", &autoscalers["rules"][0]["operations"], json!(["CREATE", "UPDATE"])),
        ("one rule", &autoscalers["rules"][1], Value::Null),
        ("all that match", &autoscalers["matchConditions"], Value::Null),
        (
            "also where pods opt out: what was converted is restored",
            &autoscalers["namespaceSelector"]["matchExpressions"],
            json!([{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "plimsoll-system"],
            }]),
        ),
        ("the CA is not in the repository", &autoscalers["clientConfig"]["caBundle"], Value::Null),
        ("profiles can be stored without us", &validating["failurePolicy"], json!("Ignore")),
        ("a slow answer costs at most 3 s", &validating["timeoutSeconds"], json!(3)),
        ("dry runs are allowed", &validating["sideEffects"], json!("None")),
        ("profiles only", &validating["rules"][0]["resources"], json!(["overcommitprofiles"])),
        ("whenever they change", &validating["rules"][0]["operations"], json!(["CREATE", "UPDATE"])),
        ("the CA is not in the repository", &validating["clientConfig"]["caBundle"], Value::Null),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
}

#[test]
fn our_own_pods_start_without_us() {
    let namespace = base("Namespace")[0]["metadata"]["name"].clone();
    let selector = webhook("MutatingWebhookConfiguration")["namespaceSelector"]["matchExpressions"].clone();
    let by_name = json!({
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", namespace],
    });
    assert!(selector.as_array().unwrap().contains(&by_name), "{selector}");
}

#[test]
fn opt_out_has_the_three_documented_values() {
    let webhook = webhook("MutatingWebhookConfiguration");
    let labels = json!({
        "key": "plimsoll.dev/overcommit", "operator": "NotIn", "values": ["disabled", "false", "off"],
    });
    let selector = &webhook["namespaceSelector"]["matchExpressions"];
    assert!(selector.as_array().unwrap().contains(&labels), "{selector}");
    let condition =
        webhook["matchConditions"].as_array().unwrap().iter().find(|c| c["name"] == "not-opted-out");
    let expression = condition.unwrap()["expression"].as_str().unwrap();
    let words = "object.metadata.annotations['plimsoll.dev/overcommit'] in ['disabled', 'false', 'off']";
    assert!(expression.contains(words), "{expression}");
}

#[test]
fn quota_webhooks_are_as_specified() {
    let validating = component("quota", "ValidatingWebhookConfiguration")[0].clone();
    let mutating = component("quota", "MutatingWebhookConfiguration")[0].clone();
    let names = |object: &Value| -> Vec<String> {
        let webhooks = object["webhooks"].as_array().unwrap();
        webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
    };
    let trees = ["trees.quota.plimsoll.dev", "stray-trees.quota.plimsoll.dev"].map(str::to_owned);
    assert_eq!(names(&validating), [&[webhooks::PODS_WEBHOOK.to_owned()], &trees[..]].concat());
    assert_eq!(names(&mutating), [webhooks::FLAVORS_WEBHOOK]);
    let (pods, tree, stray) =
        (&validating["webhooks"][0], &validating["webhooks"][1], &validating["webhooks"][2]);
    let flavors = &mutating["webhooks"][0];
    let nothing = webhooks::namespace_selector(&BTreeSet::new());
    let config = plimsoll::config::check_tree(Path::new("none"), serde_json::Map::new()).unwrap().config;
    for (rule, got, want) in [
        ("the name that is looked up", &validating["metadata"]["name"], json!(config.quota.webhook_name)),
        ("the name that is looked up", &mutating["metadata"]["name"], json!(config.quota.webhook_name)),
        ("a bound that holds", &pods["failurePolicy"], json!("Fail")),
        ("as configured", &pods["timeoutSeconds"], json!(config.quota.webhook_timeout.as_secs())),
        ("dry runs reserve nothing", &pods["sideEffects"], json!("NoneOnDryRun")),
        ("creation", &pods["rules"][0]["operations"], json!(["CREATE"])),
        ("of pods", &pods["rules"][0]["resources"], json!(["pods"])),
        ("and resizes", &pods["rules"][1]["resources"], json!(["pods/resize"])),
        ("nothing else: a label must always go", &pods["rules"][2], Value::Null),
        ("nothing is bound yet", &pods["namespaceSelector"], nothing.clone()),
        ("nothing is bound yet", &flavors["namespaceSelector"], nothing),
        ("pods start, or are refused by name", &flavors["failurePolicy"], json!("Ignore")),
        ("injected affinity comes again", &flavors["reinvocationPolicy"], json!("IfNeeded")),
        ("the tree that counts", &tree["failurePolicy"], json!("Fail")),
        ("not its status", &tree["rules"][0]["resources"], json!(["elasticquotatrees"])),
        ("nor without us", &tree["rules"][0]["operations"], json!(["CREATE", "UPDATE", "DELETE"])),
        (
            "in its namespace",
            &tree["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["kube-system"]),
        ),
        ("others are only warned about", &stray["failurePolicy"], json!("Ignore")),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
}
