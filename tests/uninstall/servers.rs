//! Servers are stopped when nobody asks them any more, and ledgers go when no server runs.

use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};

use crate::api::{hpa_path, status};
use crate::installed::{
    KINDS, LEDGER, OURS, api_service, calling, converted, installed, ledger, own, pod, taken_over, told,
    webhook,
};

/// Whatever stands that fails without a server: it is not taken away, and the server neither.
#[test]
fn the_servers_stay_while_something_needs_them() {
    let unlabelled = |policy| calling(json!({"metadata": {"name": "mine"}}), "plimsoll-system", policy);
    let mut no_record = taken_over();
    no_record["metadata"]["annotations"] = json!({});
    let metrics = api_service("v1beta1.metrics.k8s.io");
    let quota = webhook(KINDS[1], "plimsoll-quota");
    for (rule, path, object, refused, stays) in [
        ("one without our label", webhook(KINDS[1], "mine"), unlabelled("Fail"), "", true),
        ("one without our label that fails open", webhook(KINDS[1], "mine"), unlabelled("Ignore"), "", false),
        ("no right to delete it", quota.clone(), Value::Null, "DELETE", true),
        ("an APIService without a record", metrics.clone(), no_record, "", true),
        ("no right to read it", metrics.clone(), Value::Null, "GET", true),
        ("no right to write it", metrics, Value::Null, "PUT", true),
    ] {
        let api = installed();
        if !object.is_null() {
            api.put(&path, object);
        }
        for _ in 0..if refused.is_empty() { 0 } else { 40 } {
            let path = path.clone();
            api.meddle(move |_, seen| {
                (seen.method == refused && seen.path == path).then(|| status(403, "Forbidden", "no"))
            });
        }
        let run = api.run("uninstall -o json");
        let name = path.rsplit('/').next().unwrap();
        let servers = told(&run)["Deployment plimsoll-system/plimsoll"].clone();
        if stays {
            assert_eq!((run.code, &servers[0]), (3, &json!("failed")), "{rule}: {run:?}");
            assert!(servers[1].as_str().unwrap().ends_with(&format!(" {name}")), "{rule}: {servers}");
            assert_eq!(api.get(OURS)["spec"].get("replicas"), None, "{rule}");
        } else {
            assert_eq!((run.code, &servers[0]), (0, &json!("done")), "{rule}: {run:?}");
        }
    }
}

/// A server that is asked and finds no ledger refuses all that its quota is about.
#[test]
fn ledgers_stay_while_a_server_may_run() {
    let quota = webhook(KINDS[1], "plimsoll-quota");
    let stuck = || (pod("plimsoll-stuck"), own("plimsoll-stuck"));
    let unlabelled = calling(json!({"metadata": {"name": "mine"}}), "plimsoll-system", "Fail");
    for (rule, put, removed, refused, result, why) in [
        ("its webhook stands", None, "", ("DELETE", quota.as_str()), "left", "asked by ValidatingWebhook"),
        ("a pod does not end", Some(stuck()), "", ("", ""), "left", "since a server may still run"),
        ("it may not be stopped", None, "", ("PATCH", "/scale"), "left", "since a server may still run"),
        ("pods without the Deployment", Some(stuck()), OURS, ("", ""), "left", "a server may still run"),
        (
            "nothing runs, and something asks",
            Some((webhook(KINDS[1], "mine"), unlabelled)),
            OURS,
            ("", ""),
            "left",
            "asked by",
        ),
        ("it was gone before", None, OURS, ("", ""), "done", "deleted"),
    ] {
        let api = installed();
        if removed == OURS {
            api.remove(OURS);
            api.remove(&pod("plimsoll-1"));
        }
        if let Some((path, object)) = put {
            api.put(&path, object);
        }
        for _ in 0..if refused.0.is_empty() { 0 } else { 80 } {
            let (method, path) = (refused.0, refused.1.to_owned());
            api.meddle(move |_, seen| {
                (seen.method == method && seen.path.ends_with(&path)).then(|| status(403, "Forbidden", "no"))
            });
        }
        let run = api.run("uninstall --wait 0s -o json");
        let told = told(&run)["QuotaLedger plimsoll-system/kube-system.e2e"].clone();
        assert_eq!(told[0], result, "{rule}: {told}");
        assert!(told[1].as_str().unwrap().contains(why), "{rule}: {told}");
        let written = api.writes().iter().any(|seen| seen.path == LEDGER);
        assert_eq!(written, result == "done", "{rule}");
        if result == "left" {
            assert_eq!(
                api.get(LEDGER)["metadata"]["finalizers"],
                json!(["plimsoll.dev/quota-ledger"]),
                "{rule}"
            );
        }
    }
}

/// A pod that is admitted between the patch and the deletion puts the finalizer back: then it is only marked.
#[test]
fn a_ledger_is_deleted_when_it_is_gone() {
    let ours = "plimsoll.dev/quota-ledger";
    for (rule, finalizers, put_back, result, why) in [
        ("once", vec![ours], 1_usize, "done", "deleted"),
        ("always", vec![ours], 80, "failed", "a server that still runs writes it again"),
        (
            "another's",
            vec![ours, "example.org/another"],
            0,
            "left",
            "its finalizer example.org/another there",
        ),
    ] {
        let api = installed();
        api.put(LEDGER, ledger(&finalizers));
        let left = Arc::new(Mutex::new(put_back));
        for _ in 0..120 {
            let left = Arc::clone(&left);
            api.meddle(move |objects, seen| {
                let mut left = left.lock().unwrap();
                if seen.method == Method::DELETE && seen.path == LEDGER && *left > 0 {
                    *left -= 1;
                    let mut object = objects.by_path.get(LEDGER).cloned().unwrap_or_else(|| ledger(&[]));
                    object["metadata"]["finalizers"] = json!([ours]);
                    objects.store(LEDGER, object);
                }
                None
            });
        }
        let run = api.run("uninstall -o json");
        let told = told(&run)["QuotaLedger plimsoll-system/kube-system.e2e"].clone();
        assert_eq!(told[0], result, "{rule}: {told}");
        assert!(told[1].as_str().unwrap().contains(why), "{rule}: {told}");
        assert_eq!(run.code, if result == "failed" { 3 } else { 0 }, "{rule}: {run:?}");
    }
}

/// On a node that is away nobody says that a pod ended.
#[test]
fn pods_of_a_node_that_is_away() {
    let api = installed();
    let mut away = own("plimsoll-stuck");
    away["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
    away["spec"] = json!({"nodeName": "worker-3"});
    away["status"] = json!({"phase": "Running"});
    api.put(&pod("plimsoll-stuck"), away);
    let run = api.run("uninstall --wait 0s -o json");
    assert_eq!(run.code, 3, "{run:?}");
    let servers = told(&run)["Deployment plimsoll-system/plimsoll"].clone();
    let why = servers[1].as_str().unwrap();
    for said in [
        "plimsoll-stuck on node worker-3",
        "kubectl delete node worker-3",
        "kubectl -n plimsoll-system delete pod plimsoll-stuck --force",
    ] {
        assert!(why.contains(said), "{said}: {why}");
    }
    assert!(!why.contains("scales it up"), "{why}");
    api.remove(&pod("plimsoll-stuck"));
    assert_eq!(api.run("uninstall -o json").code, 0);
}

/// Pods of somebody else's Deployment, or of none.
#[test]
fn pods_without_the_deployment() {
    let api = installed();
    api.remove(OURS);
    api.put(&hpa_path("web"), converted("web"));
    let run = api.run("uninstall --wait 0s -o json");
    assert_eq!(run.code, 0, "{run:?}");
    let told = told(&run);
    assert_eq!(told["Deployment plimsoll-system/plimsoll"][0], "left", "{told}");
    let lease = told["Lease plimsoll-system/plimsoll-hpa"].clone();
    assert!(lease[1].as_str().unwrap().contains("held by this command"), "{lease}");
}
