//! Step by step: what is ours goes, what is not stays.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, Seen, hpa_path, status};
use crate::installed::{
    KINDS, LEASES, OURS, TOLD, api_service, calling, converted, installed, named, own, pod, taken_over, told,
    webhook, workload,
};
use crate::objects::utilization;
use crate::rights::{CLUSTER, OWN};

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
