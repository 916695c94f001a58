//! Step by step: what is ours goes, what is not stays.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};

use crate::Run;
use crate::api::{Api, Seen, hpa_path, status};
use crate::objects::{average_value, hpa, record, utilization};
use crate::rights::{CLUSTER, OWN};

const OURS: &str = "/apis/apps/v1/namespaces/plimsoll-system/deployments/plimsoll";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases";
const LEDGER: &str = "/apis/plimsoll.dev/v1alpha1/namespaces/plimsoll-system/quotaledgers/kube-system.e2e";
const KINDS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

fn webhook(kind: &str, name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}")
}

fn api_service(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/plimsoll-system/pods/{name}")
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"app.kubernetes.io/name": "plimsoll"}}})
}

fn own(name: &str) -> Value {
    let mut object = named(name);
    object["metadata"]["namespace"] = json!("plimsoll-system");
    object
}

fn ledger(finalizers: &[&str]) -> Value {
    let mut ledger = own("kube-system.e2e");
    ledger["metadata"]["finalizers"] = json!(finalizers);
    ledger
}

/// A webhook configuration with an entry that calls the Service of our name in a namespace.
fn calling(mut object: Value, namespace: &str, policy: &str) -> Value {
    let service = json!({"namespace": namespace, "name": "plimsoll"});
    object["webhooks"] = json!([{"clientConfig": {"service": service}, "failurePolicy": policy}]);
    object
}

/// What `plimsoll hpa apiservice install metrics` makes of metrics-server's.
fn taken_over() -> Value {
    let spec = json!({"service": {"namespace": "kube-system", "name": "metrics-server", "port": 443}, "group": "metrics.k8s.io", "version": "v1beta1"});
    let mut object = json!({
        "metadata": {
            "name": "v1beta1.metrics.k8s.io", "uid": "m",
            "annotations": {"plimsoll.dev/apiservice-original": json!({"spec": spec}).to_string()},
        },
        "spec": spec,
    });
    object["spec"]["service"] = json!({"namespace": "plimsoll-system", "name": "plimsoll", "port": 8445});
    object
}

/// A workload that quota told to try again: group with version, kind in the plural, kind.
const TOLD: [(&str, &str, &str); 6] = [
    ("apis/apps/v1", "deployments", "Deployment"),
    ("api/v1", "replicationcontrollers", "ReplicationController"),
    ("apis/apps/v1", "daemonsets", "DaemonSet"),
    ("apis/apps/v1", "replicasets", "ReplicaSet"),
    ("apis/apps/v1", "statefulsets", "StatefulSet"),
    ("apis/batch/v1", "jobs", "Job"),
];

fn workload((group, plural, _): (&str, &str, &str)) -> String {
    format!("/{group}/namespaces/shop/{plural}/web")
}

/// Of 80 % of ten pods with 1000m each.
fn converted(name: &str) -> Value {
    hpa(name, &[average_value("800m")], Some(&record()))
}

/// A cluster with everything that the manifests, the commands and the server make.
fn installed() -> Api {
    let api = Api::start(false);
    for kind in KINDS {
        for name in ["plimsoll", "plimsoll-quota"] {
            api.put(&webhook(kind, name), calling(named(name), "plimsoll-system", "Fail"));
        }
    }
    api.put(&api_service("v1beta1.metrics.k8s.io"), taken_over());
    let mut made = taken_over();
    made["metadata"] = json!({"name": "v1beta1.external.metrics.k8s.io", "uid": "e"});
    api.put(&api_service("v1beta1.external.metrics.k8s.io"), made);
    api.put(OURS, own("plimsoll"));
    api.put(&pod("plimsoll-1"), own("plimsoll-1"));
    for name in ["plimsoll-hpa", "plimsoll-recommender-1", "plimsoll-scheduler"] {
        let mut lease = own(name);
        lease["spec"] = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 1});
        api.put(&format!("{LEASES}/{name}"), lease);
    }
    api.put(LEDGER, ledger(&["plimsoll.dev/quota-ledger"]));
    for (name, labels) in
        [("a", json!({"plimsoll.dev/load-class": "hot", "zone": "z"})), ("b", json!({"zone": "z"}))]
    {
        api.put(&format!("/api/v1/nodes/{name}"), json!({"metadata": {"name": name, "labels": labels}}));
    }
    let theirs = json!({"plimsoll.dev/overcommit": "disabled", "example.org/team": "a"});
    for kind in TOLD {
        let mut annotations = theirs.clone();
        annotations["plimsoll.dev/quota-retry"] = json!("7");
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "w", "annotations": annotations});
        let template = json!({"metadata": {"annotations": annotations}});
        api.put(&workload(kind), json!({"metadata": metadata, "spec": {"template": template}}));
        let untold = json!({"name": "db", "namespace": "shop", "uid": "d", "annotations": theirs});
        api.put(&workload(kind).replace("/web", "/db"), json!({"metadata": untold}));
    }
    api
}

/// Result and message by object.
fn told(run: &Run) -> Value {
    let objects = run.json()["objects"].as_array().unwrap().clone();
    objects
        .iter()
        .map(|line| (line["object"].as_str().unwrap().to_owned(), json!([line["result"], line["message"]])))
        .collect()
}

#[test]
fn everything_of_ours_goes() {
    let api = installed();
    let run = api.run("uninstall");
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(
        lines,
        [
            "webhooks     ValidatingWebhookConfiguration plimsoll-quota: deleted",
            "webhooks     MutatingWebhookConfiguration plimsoll-quota: deleted",
            "webhooks     ValidatingWebhookConfiguration plimsoll: deleted",
            "webhooks     MutatingWebhookConfiguration plimsoll: deleted",
            "apiservices  APIService v1beta1.metrics.k8s.io: given back",
            "apiservices  APIService v1beta1.custom.metrics.k8s.io: not there",
            "apiservices  APIService v1beta2.custom.metrics.k8s.io: not there",
            "apiservices  APIService v1beta1.external.metrics.k8s.io: deleted",
            "servers      Deployment plimsoll-system/plimsoll: stopped",
            "autoscalers  HorizontalPodAutoscalers: none carries a record of ours",
            "nodes        Node a: freed of our labels and annotations",
            "workloads    Deployment shop/web: freed of our annotation",
            "workloads    ReplicationController shop/web: freed of our annotation",
            "workloads    DaemonSet shop/web: freed of our annotation",
            "workloads    ReplicaSet shop/web: freed of our annotation",
            "workloads    StatefulSet shop/web: freed of our annotation",
            "workloads    Job shop/web: freed of our annotation",
            "ledgers      QuotaLedger plimsoll-system/kube-system.e2e: deleted",
            "leases       Lease plimsoll-system/plimsoll-hpa: deleted",
            "leases       Lease plimsoll-system/plimsoll-recommender-1: deleted",
            "",
            "Uninstall: 17 done",
        ],
    );
    let back = api.get(&api_service("v1beta1.metrics.k8s.io"));
    assert_eq!(back["spec"]["service"]["name"], "metrics-server");
    assert_eq!(api.get(OURS)["spec"]["replicas"], 0);
    assert_eq!(api.get("/api/v1/nodes/a")["metadata"]["labels"], json!({"zone": "z"}));
    api.get(&format!("{LEASES}/plimsoll-scheduler"));
    let deletions: Vec<_> = api.writes().into_iter().filter(|write| write.method == Method::DELETE).collect();
    for deletion in &deletions {
        assert!(
            deletion.body["preconditions"]["uid"].is_string(),
            "what was looked at, and nothing else: {deletion:?}"
        );
    }
    let writes = api.writes().len();
    let again = api.run("uninstall");
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.ends_with("\nUninstall: 1 done\n"), "it is stopped again: {}", again.out);
    assert_eq!(api.writes().len(), writes + 1);
}

#[test]
fn a_dry_run_writes_nothing() {
    let api = installed();
    let before = api.get(OURS);
    let run = api.run("uninstall --dry-run -o json");
    assert_eq!(run.code, 0, "{run:?}");
    let summary = run.json()["summary"].clone();
    assert_eq!((&summary["wouldBeDone"], &summary["done"]), (&json!(17), &json!(0)), "{run:?}");
    let is_dry = |write: &Seen| write.query.contains_key("dryRun") || write.body["dryRun"] == json!(["All"]);
    assert!(api.writes().iter().all(is_dry), "{:?}", api.writes());
    assert_eq!(api.get(OURS), before);
}

#[test]
fn what_is_not_ours_is_left() {
    let api = installed();
    let strange = json!({"metadata": {"name": "plimsoll", "labels": {"app.kubernetes.io/name": "other"}}});
    api.put(&webhook(KINDS[0], "plimsoll"), strange.clone());
    api.put(OURS, strange);
    let mut theirs = taken_over();
    theirs["spec"]["service"] = json!({"namespace": "kube-system", "name": "metrics-server"});
    theirs["metadata"] = json!({"name": "v1beta1.metrics.k8s.io"});
    api.put(&api_service("v1beta1.metrics.k8s.io"), theirs.clone());
    let run = api.run("uninstall -o json");
    assert_eq!(run.code, 0, "{run:?}");
    let told = told(&run);
    let left =
        json!(["left", "left, since it is not ours: it has no label app.kubernetes.io/name: plimsoll"]);
    assert_eq!(told["MutatingWebhookConfiguration plimsoll"], left);
    assert_eq!(told["Deployment plimsoll-system/plimsoll"], left);
    assert_eq!(told["APIService v1beta1.metrics.k8s.io"][0], "nothing", "{told}");
    assert_eq!(told["Lease plimsoll-system/plimsoll-hpa"][0], "left", "a server may still run: {told}");
    api.get(&webhook(KINDS[0], "plimsoll"));
    assert_eq!(api.get(&api_service("v1beta1.metrics.k8s.io"))["spec"], theirs["spec"]);
}

#[test]
fn a_step_that_fails_does_not_stop_the_others() {
    let api = installed();
    api.meddle(|_, _| Some(status(403, "Forbidden", "cannot get")));
    api.put(&pod("plimsoll-stuck"), own("plimsoll-stuck"));
    let run = api.run("uninstall --wait 0s -o json");
    assert_eq!(run.code, 3, "{run:?}");
    let told = told(&run);
    let refused = &told["ValidatingWebhookConfigurations"];
    assert_eq!(refused[0], "failed");
    let grant =
        "grant list on validatingwebhookconfigurations.admissionregistration.k8s.io to the service account";
    assert!(refused[1].as_str().unwrap().ends_with(grant), "{refused}");
    let servers = &told["Deployment plimsoll-system/plimsoll"];
    assert_eq!(servers[0], "failed");
    let why = "be refused: ValidatingWebhookConfigurations that could not be read";
    assert!(servers[1].as_str().unwrap().ends_with(why), "{servers}");
    assert_eq!(told["Node a"][0], "done");
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        assert_eq!(told[format!("{kind} plimsoll")][0], "done", "by its name: {told}");
    }
    assert_eq!(told["Lease plimsoll-system/plimsoll-hpa"][0], "left", "{told}");
    let stuck = api.run("uninstall --wait 0s -o json");
    assert_eq!(stuck.code, 3, "{stuck:?}");
    let servers = self::told(&stuck)["Deployment plimsoll-system/plimsoll"].clone();
    let why = "1 of its pods still run after 0ns (plimsoll-stuck): whoever scales it up again must be stopped first";
    assert_eq!(servers, json!(["failed", why]));
    api.remove(&pod("plimsoll-stuck"));
    let again = api.run("uninstall -o json");
    assert_eq!(again.code, 0, "{again:?}");
}

#[test]
fn autoscalers_get_back_their_targets() {
    let api = installed();
    api.put(&hpa_path("web"), converted("web"));
    let run = api.run("uninstall -o json");
    assert_eq!(
        (run.code, &told(&run)["HorizontalPodAutoscaler shop/web"]),
        (0, &json!(["done", "restored"])),
        "{run:?}"
    );
    let restored = api.get(&hpa_path("web"));
    assert_eq!(restored["spec"]["metrics"], json!([utilization(80)]));
    let lease = |seen: &&Seen| {
        seen.path.starts_with(LEASES) && seen.method != Method::GET && seen.method != Method::DELETE
    };
    assert_eq!(api.seen().iter().filter(lease).count(), 0, "no server runs that would have to stand still");
}

/// Nothing but the one annotation of the object itself: a change of a template would roll out.
#[test]
fn workloads_lose_only_our_annotation() {
    let api = installed();
    let before: Vec<_> = TOLD.map(|kind| api.get(&workload(kind))).into();
    let run = api.run("uninstall -o json");
    assert_eq!(run.code, 0, "{run:?}");
    for (kind, mut wanted) in TOLD.into_iter().zip(before) {
        let writes: Vec<_> = api.writes().into_iter().filter(|seen| seen.path == workload(kind)).collect();
        let patch = json!({"metadata": {"uid": "w", "annotations": {"plimsoll.dev/quota-retry": null}}});
        assert_eq!(writes.iter().map(|seen| &seen.body).collect::<Vec<_>>(), [&patch], "{kind:?}");
        assert!(!api.writes().iter().any(|seen| seen.path.ends_with("/db")), "{kind:?}");
        let mut found = api.get(&workload(kind));
        for object in [&mut wanted, &mut found] {
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        }
        wanted["metadata"]["annotations"].as_object_mut().unwrap().remove("plimsoll.dev/quota-retry");
        assert_eq!(found, wanted, "{kind:?}");
    }
    let again = api.run("uninstall");
    assert!(again.out.contains("workloads    Workloads: none carries anything of ours\n"), "{again:?}");
}

/// A workload that changed in the meantime, or that others do not let anybody write, keeps nobody from uninstalling.
#[test]
fn a_workload_that_cannot_be_freed() {
    for (rule, code, result, exit) in [
        ("there is another one of that name by now", 409, "nothing", 0),
        ("it is gone", 404, "nothing", 0),
        ("somebody's rules refuse it", 422, "left", 0),
        ("no right to write it", 403, "failed", 3),
    ] {
        let api = installed();
        for _ in 0..80 {
            api.meddle(move |_, seen| {
                let patched = seen.method == Method::PATCH && seen.path == workload(TOLD[5]);
                patched.then(|| status(code, "", "no"))
            });
        }
        let run = api.run("uninstall -o json");
        let told = told(&run);
        assert_eq!((run.code, &told["Job shop/web"][0]), (exit, &json!(result)), "{rule}: {run:?}");
        assert_eq!(told["StatefulSet shop/web"][0], "done", "{rule}");
    }
}

/// One sentence, not one for each step; tests/plugin/exits.rs has it of all commands.
#[test]
fn a_cluster_that_cannot_be_asked() {
    let api = installed();
    for _ in 0..40 {
        api.fail(401, "Unauthorized", "Unauthorized");
    }
    for form in ["table", "json"] {
        let run = api.run(&format!("uninstall -o {form}"));
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
        assert!(run.err.starts_with("error: the cluster cannot be asked: "), "{run:?}");
    }
    assert_eq!(api.writes().len(), 0);
    let refused = installed();
    refused.fail(403, "Forbidden", "no");
    assert_ne!(refused.run("uninstall").out, "", "a missing right is told by the step that lacks it");
}

/// What cannot be put back is told, and is no success.
#[test]
fn an_autoscaler_whose_record_is_not_readable() {
    let api = installed();
    let mut broken = converted("web");
    broken["metadata"]["annotations"]["plimsoll.dev/hpa-original"] = json!("?");
    api.put(&hpa_path("web"), broken);
    let run = api.run("uninstall -o json");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(told(&run)["HorizontalPodAutoscaler shop/web"][0], "notRestored");
    let hook = api.run("uninstall --keep-going -o json");
    assert_eq!(hook.code, 0, "a tenant cannot keep an installation from going: {hook:?}");
    assert_eq!(told(&hook)["HorizontalPodAutoscaler shop/web"][0], "notRestored");
}

/// Nor what the API server does not take, by the webhook's way or directly.
#[test]
fn an_autoscaler_that_is_refused() {
    for (rule, refused) in [("any", Value::is_object as fn(&Value) -> bool), ("directly", Value::is_array)] {
        let api = installed();
        api.put(&hpa_path("web"), converted("web"));
        for _ in 0..60 {
            api.meddle(move |_, seen| {
                let patched = seen.method == Method::PATCH && seen.path == hpa_path("web");
                (patched && refused(&seen.body)).then(|| status(422, "Invalid", "spec.metrics: no"))
            });
        }
        let hook = api.run("uninstall --keep-going -o json");
        let web = &told(&hook)["HorizontalPodAutoscaler shop/web"][0];
        assert_eq!((hook.code, web), (0, &json!("notRestored")), "{rule}: {hook:?}");
    }
}

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

/// `quota.webhookName` of the server is not known to whoever runs this.
#[test]
fn webhooks_by_other_names() {
    let api = installed();
    api.put(&webhook(KINDS[1], "renamed"), calling(named("renamed"), "plimsoll-system", "Fail"));
    api.put(&webhook(KINDS[0], "other"), calling(named("other"), "elsewhere", "Fail"));
    api.put(&webhook(KINDS[0], "theirs"), json!({"metadata": {"name": "theirs"}}));
    let run = api.run("uninstall -o json");
    assert_eq!(run.code, 0, "{run:?}");
    let told = told(&run);
    assert_eq!(told["ValidatingWebhookConfiguration renamed"][0], "done");
    assert_eq!(
        told["MutatingWebhookConfiguration other"],
        json!(["left", "left, since it calls a Service of namespace elsewhere"])
    );
    assert_eq!(told.get("MutatingWebhookConfiguration theirs"), None);
}

/// Whoever does not say where the server is must not lose what is recorded.
#[test]
fn another_namespace() {
    let api = installed();
    let run = api.run("uninstall -n shop");
    assert_eq!((run.code, api.writes().len()), (2, 0), "{run:?}");
    assert!(run.err.contains("say --namespace plimsoll-system"), "{run:?}");
    for kind in KINDS {
        for name in ["plimsoll", "plimsoll-quota"] {
            api.remove(&webhook(kind, name));
        }
    }
    let run = api.run("uninstall -n shop -o json");
    assert_eq!(run.code, 3, "{run:?}");
    let metrics = &told(&run)["APIService v1beta1.metrics.k8s.io"];
    assert!(metrics[1].as_str().unwrap().ends_with("say --namespace plimsoll-system"), "{metrics}");
    let record = &api.get(&api_service("v1beta1.metrics.k8s.io"))["metadata"]["annotations"];
    assert!(record["plimsoll.dev/apiservice-original"].is_string(), "{record}");
}

/// Where the Deployment is gone already, or the namespace with all that was in it, nobody has to stand still.
#[test]
fn after_everything_else_is_gone() {
    for (rule, holder) in
        [("no lease", None), ("ours", Some("plimsoll-hpa-restore")), ("another's", Some("a"))]
    {
        let api = Api::start(false);
        api.put(&hpa_path("web"), converted("web"));
        let lease = format!("{LEASES}/plimsoll-hpa");
        if let Some(holder) = holder {
            let mut held = own("plimsoll-hpa");
            held["spec"] = json!({"holderIdentity": holder, "leaseDurationSeconds": 600});
            api.put(&lease, held);
        }
        let run = api.run("uninstall -o json");
        assert_eq!(run.code, 0, "{rule}: {run:?}");
        let told = told(&run);
        assert_eq!(told["HorizontalPodAutoscaler shop/web"][0], "done", "{rule}: {told}");
        let at = |seen: &Seen| seen.path.starts_with(LEASES) && seen.method != Method::GET;
        let writes: Vec<_> = api.writes().into_iter().filter(at).collect();
        assert_eq!(writes.len(), usize::from(holder.is_some()), "{rule}: only the deletion: {writes:?}");
        assert!(api.run("uninstall -o json").out.contains("none is ours"), "{rule}");
    }
}

/// What takes long says so on standard error, and the answer stays one that programs read.
#[test]
fn how_far_it_is() {
    let api = installed();
    api.put(&pod("plimsoll-stuck"), own("plimsoll-stuck"));
    let run = api.run("uninstall --wait 7s -o json");
    assert_eq!((run.code, &told(&run)["Deployment plimsoll-system/plimsoll"][0]), (3, &json!("failed")));
    let lines: Vec<_> = run.err.lines().collect();
    let is_told = |line: &&str| line.starts_with("progress: waiting for the servers to end (1 pods run): ");
    assert!(!lines.is_empty() && lines.iter().all(is_told), "{lines:?}");
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

/// Its role in the chart grants what it calls, and nothing else.
#[test]
fn it_calls_what_it_may() {
    let mut called = BTreeSet::new();
    let api = installed();
    api.put(&hpa_path("web"), converted("web"));
    // With servers that stop; with servers that cannot be found, whose lease is taken; and where there is no lease to take.
    let everything = || {
        api.put(&hpa_path("web"), converted("web"));
        api.run("uninstall --wait 0s");
    };
    everything();
    api.remove(OURS);
    api.put(&pod("plimsoll-stuck"), own("plimsoll-stuck"));
    everything();
    everything();
    called.extend(api.seen().iter().map(call));
    let granted: BTreeSet<_> = CLUSTER
        .iter()
        .chain(OWN)
        .flat_map(|(group, resource, verbs, _)| {
            verbs.iter().map(move |verb| format!("{verb} {group}/{resource}"))
        })
        .collect();
    let too_much: Vec<_> = called.difference(&granted).collect();
    assert!(too_much.is_empty(), "it may not: {too_much:?}");
    let in_vain: Vec<_> = granted.difference(&called).collect();
    assert!(in_vain.is_empty(), "never called: {in_vain:?}");
}

/// A request as RBAC sees it: verb, group, resource and subresource.
fn call(seen: &Seen) -> String {
    let path: Vec<_> = seen.path.trim_start_matches('/').split('/').collect();
    let (group, rest) = if path[0] == "api" { ("", &path[2..]) } else { (path[1], &path[3..]) };
    let rest = if rest[0] == "namespaces" { &rest[2..] } else { rest };
    let resource = match rest {
        [resource, _, sub] => format!("{resource}/{sub}"),
        _ => rest[0].to_owned(),
    };
    let verb = match (seen.method.as_str(), rest.len()) {
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        _ => "delete",
    };
    format!("{verb} {group}/{resource}")
}
