//! `plimsoll status`.

use std::io::{BufRead as _, BufReader};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;

const OWN: &str = "/api/v1/namespaces/plimsoll-system";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/plimsoll";
const QUOTA: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll-quota",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/plimsoll-quota",
];
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

fn pod(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "plimsoll"}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn webhook(bundle: &str) -> Value {
    json!({
        "metadata": {"name": "plimsoll"},
        "webhooks": [{"name": "pods.plimsoll.dev", "clientConfig": {"caBundle": STANDARD.encode(bundle)}}],
    })
}

fn replica(name: &str, recommender: &str, why: &[&str]) -> Value {
    json!({
        "version": "0.1.0", "replica": name, "at": "2026-03-02T10:00:00Z", "ready": true, "state": recommender,
        "parts": [
            {"name": "admission", "state": "Healthy"},
            {"name": "certificates", "state": "Healthy", "notAfter": "2027-01-01T00:00:00Z"},
            {"name": "certificate-authority", "state": if recommender == "NotLeader" { "NotLeader" } else { "Healthy" }, "holder": "p-1_0a"},
            {"name": "recommender", "state": recommender, "holder": "p-1_0a", "why": why},
            {"name": "extender", "state": "Off"},
        ],
    })
}

/// Where a definition of ours is, and it.
fn definitions() -> Vec<(String, Value)> {
    let all = plimsoll::crd::definitions().unwrap();
    let path = |one: &Value| format!("{CRDS}/{}", one["metadata"]["name"].as_str().unwrap());
    all.into_iter().map(|one| (path(&one), one)).collect()
}

/// A cluster in which all is well.
fn healthy() -> Api {
    let api = Api::start();
    api.put(
        "/apis/apps/v1/namespaces/plimsoll-system/deployments/plimsoll",
        json!({"metadata": {"name": "plimsoll"}, "spec": {"replicas": 2}, "status": {"readyReplicas": 2}}),
    );
    api.list(&format!("{OWN}/pods"), &[pod("p-1", "True"), pod("p-2", "True")]);
    api.put(WEBHOOKS, webhook(CA));
    api.put(VALIDATING, webhook(CA));
    api.put(&format!("{OWN}/secrets/plimsoll-ca"), json!({"data": {"ca.crt": STANDARD.encode(CA)}}));
    for (path, definition) in definitions() {
        api.put(&path, definition);
    }
    let now = Timestamp::now().to_string();
    api.list(
        "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases",
        &[
            json!({
                "metadata": {"name": "plimsoll-recommender"},
                "spec": {"holderIdentity": "p-1_0a", "leaseDurationSeconds": 15, "renewTime": now},
            }),
            json!({"metadata": {"name": "plimsoll-quota"}, "spec": {"holderIdentity": ""}}),
        ],
    );
    api.list(
        "/apis/plimsoll.dev/v1alpha1/overcommitprofiles",
        &[json!({
            "metadata": {"name": "shared-pool"}, "spec": {"mode": "Static"},
            "status": {"conditions": [{"type": "Valid", "status": "True"}]},
        })],
    );
    api.list(
        "/apis/plimsoll.dev/v1alpha1/recommendations",
        &[json!({"metadata": {"name": "web"}, "status": {"containers": [{"name": "app", "lastSample": now}]}})],
    );
    api.list("/apis/apiregistration.k8s.io/v1/apiservices", &[]);
    api.list(
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        &[json!({"metadata": {"name": "web", "annotations": {"plimsoll.dev/hpa-original": "{}"}}})],
    );
    api.pod_says("p-1", &replica("p-1", "Healthy", &[]));
    api.pod_says("p-2", &replica("p-2", "NotLeader", &[]));
    api
}

#[test]
fn all_is_well() {
    let run = healthy().run("status");
    assert_eq!(run.code, 0, "{run:?}");
    let lines = run.lines();
    assert_eq!(lines[0], ["PART", "STATE", "DETAILS"]);
    for expected in [
        vec!["installation", "Healthy", "2 of 2 replicas ready"],
        vec!["crds", "Healthy", "5 as this program has them"],
        vec!["quota tree", "Off", "not installed"],
        vec!["autoscalers", "Healthy", "1 of 1 converted"],
        vec!["replicas", "Healthy", "2 of 2 answer"],
        vec!["certificates", "Healthy", "until 2027-01-01T00:00:00Z"],
        vec!["recommender", "Healthy", "leader p-1"],
        vec!["extender", "Off"],
        vec!["Healthy"],
    ] {
        assert!(lines.contains(&expected), "{expected:?}: {}", run.out);
    }
    assert!(!run.out.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn what_is_wrong_is_told() {
    type Break = fn(&Api);
    let rows: [(&str, Break, &str, &str, &str); 21] = [
        (
            "not installed",
            |api| api.remove("/apis/apps/v1/namespaces/plimsoll-system/deployments/plimsoll"),
            "installation",
            "Failed",
            "no Deployment plimsoll",
        ),
        (
            "a pod is not ready",
            |api| api.list(&format!("{OWN}/pods"), &[pod("p-1", "True"), pod("p-2", "False")]),
            "installation",
            "Degraded",
            "pod p-2 is not ready",
        ),
        ("no webhook", |api| api.remove(WEBHOOKS), "mutating webhook", "Failed", "no pod is changed"),
        (
            "no caBundle",
            |api| api.put(WEBHOOKS, webhook("")),
            "mutating webhook",
            "Failed",
            "caBundle is empty",
        ),
        (
            "another authority",
            |api| {
                api.put(WEBHOOKS, webhook("-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"));
            },
            "mutating webhook",
            "Failed",
            "caBundle does not have ca.crt of the Secret plimsoll-ca",
        ),
        (
            "no validating webhook",
            |api| api.remove(VALIDATING),
            "validating webhook",
            "Degraded",
            "nobody checks profiles",
        ),
        (
            "an authority that was not made yet",
            |api| api.put(&format!("{OWN}/secrets/plimsoll-ca"), json!({"type": "Opaque"})),
            "mutating webhook",
            "Unknown",
            "has no certificate in ca.crt yet",
        ),
        (
            "no webhook of quotas, which are on",
            |api| {
                let mut replica = replica("p-1", "Healthy", &[]);
                let parts = replica["parts"].as_array_mut().unwrap();
                parts.push(json!({"name": "quota-ledger", "state": "Healthy"}));
                api.pod_says("p-1", &replica);
                api.put(QUOTA[0], webhook(CA));
            },
            "quota validating webhook",
            "Failed",
            "no pod is held to its quota",
        ),
        (
            "a CRD of an older version",
            |api| {
                let (path, mut crd) = definitions().remove(0);
                let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                schema["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("priority");
                api.put(&path, crd);
            },
            "crds",
            "Degraded",
            "where spec.priority is missing or different",
        ),
        (
            "another version of the API only",
            |api| {
                let (path, mut crd) = definitions().remove(0);
                crd["spec"]["versions"][0]["name"] = json!("v1alpha0");
                api.put(&path, crd);
            },
            "crds",
            "Degraded",
            "version v1alpha1 is missing in the cluster",
        ),
        (
            "a version that is not served any more",
            |api| {
                let (path, mut crd) = definitions().remove(0);
                crd["spec"]["versions"][0]["served"] = json!(false);
                api.put(&path, crd);
            },
            "crds",
            "Degraded",
            "version v1alpha1 is not served in the cluster",
        ),
        (
            "a column less",
            |api| {
                let (path, mut crd) = definitions().remove(0);
                crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array_mut().unwrap().pop();
                api.put(&path, crd);
            },
            "crds",
            "Degraded",
            "does not show the column Age",
        ),
        (
            "a CRD of an older release",
            |api| {
                let (path, mut crd) = definitions().remove(0);
                crd["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
                crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
                api.put(&path, crd);
            },
            "crds",
            "Degraded",
            "`helm upgrade` the release",
        ),
        (
            "a CRD that is missing",
            |api| api.remove(&definitions().remove(1).0),
            "crds",
            "Degraded",
            "recommendations.plimsoll.dev: it is not installed; `plimsoll manifests crds | kubectl apply --server-side --force-conflicts -f -`",
        ),
        (
            "a lease that is not renewed",
            |api| {
                api.list("/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases", &[json!({"metadata": {"name": "plimsoll-recommender"}, "spec": {"holderIdentity": "p-1_0a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}})]);
            },
            "leases",
            "Degraded",
            "plimsoll-recommender was not renewed by p-1_0a",
        ),
        (
            "a profile that is not used",
            |api| {
                api.list("/apis/plimsoll.dev/v1alpha1/overcommitprofiles", &[json!({"metadata": {"name": "bad"}, "status": {"conditions": [{"type": "Valid", "status": "False", "message": "spec.mode: no"}]}})]);
            },
            "profiles",
            "Degraded",
            "profile bad is not used: spec.mode: no",
        ),
        (
            "no CRD",
            |api| api.remove("/apis/plimsoll.dev/v1alpha1/overcommitprofiles"),
            "profiles",
            "Failed",
            "overcommitprofiles.plimsoll.dev is not served in version v1alpha1",
        ),
        (
            "a tree that is not ready",
            |api| {
                api.list("/apis/scheduling.sigs.k8s.io/v1beta1/elasticquotatrees", &[json!({"metadata": {"name": "root"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Counting", "message": "wait"}]}})]);
            },
            "quota tree",
            "Degraded",
            "root: Counting: wait",
        ),
        (
            "an APIService that is away",
            |api| {
                api.list("/apis/apiregistration.k8s.io/v1/apiservices", &[json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"service": {"namespace": "plimsoll-system", "name": "plimsoll"}}, "status": {"conditions": [{"type": "Available", "status": "False", "message": "no endpoints"}]}})]);
            },
            "apiservices",
            "Failed",
            "v1beta1.metrics.k8s.io is not available: no endpoints",
        ),
        (
            "a degraded part",
            |api| {
                api.pod_says(
                    "p-1",
                    &replica("p-1", "Degraded", &["grant create on recommendations.plimsoll.dev"]),
                );
            },
            "recommender",
            "Degraded",
            "grant create on recommendations.plimsoll.dev (p-1)",
        ),
        (
            "a replica that says nonsense",
            |api| api.pod_says("p-2", &json!([])),
            "replicas",
            "Unknown",
            "p-2 was not asked",
        ),
    ];
    for (rule, spoil, part, state, why) in rows {
        let api = healthy();
        spoil(&api);
        let run = api.run("status -o json");
        assert_eq!(run.code, 1, "{rule}: {run:?}");
        let answer = run.json();
        let row = answer["parts"].as_array().unwrap().iter().find(|row| row["part"] == part).unwrap();
        assert_eq!(row["state"], state, "{rule}: {row}");
        assert!(row["problems"].to_string().contains(why), "{rule}: {row}");
        assert_ne!(answer["state"], "Healthy", "{rule}");
        assert!(api.run("status").out.contains(why), "{rule}");
    }
}

#[test]
fn what_may_not_be_read_is_unknown_with_the_right() {
    let api = healthy();
    for (path, part, right) in [
        ("/deployments/", "installation", "get on deployments.apps"),
        (
            "/mutatingwebhookconfigurations/",
            "mutating webhook",
            "get on mutatingwebhookconfigurations.admissionregistration.k8s.io",
        ),
        ("/customresourcedefinitions/", "crds", "get on customresourcedefinitions.apiextensions.k8s.io"),
        ("/secrets/", "mutating webhook", "get on secrets"),
        ("/secrets/", "validating webhook", "get on secrets"),
        (
            "/validatingwebhookconfigurations/plimsoll",
            "validating webhook",
            "get on validatingwebhookconfigurations",
        ),
        ("/leases", "leases", "list on leases.coordination.k8s.io"),
        ("/overcommitprofiles", "profiles", "list on overcommitprofiles.plimsoll.dev"),
        ("/elasticquotatrees", "quota tree", "list on elasticquotatrees.scheduling.sigs.k8s.io"),
        ("/apiservices", "apiservices", "list on apiservices.apiregistration.k8s.io"),
        ("/horizontalpodautoscalers", "autoscalers", "list on horizontalpodautoscalers.autoscaling"),
        ("/recommendations", "recommendations", "list on recommendations.plimsoll.dev"),
        ("/portforward", "replicas", "create on pods/portforward"),
        ("plimsoll-system/pods", "replicas", "list on pods"),
    ] {
        api.allow_all();
        api.forbid(path);
        let run = api.run("status -o json");
        assert_eq!(run.code, 1, "{path}: {run:?}");
        let answer = run.json();
        let row = answer["parts"].as_array().unwrap().iter().find(|row| row["part"] == part).unwrap();
        assert_eq!(row["state"], "Unknown", "{path}: {row}");
        assert!(row["problems"].to_string().contains(right), "{path}: {row}");
    }
    api.allow_all();
    assert_eq!(api.run("status").code, 0, "with all rights");
}

#[test]
fn waits_until_all_is_well() {
    let api = healthy();
    api.put(WEBHOOKS, webhook(""));
    assert_eq!(api.run("status --wait=1s").code, 1, "not within a second");
    let mut waiting = api.command("status --wait=9000000000000d -o json").spawn().unwrap();
    // How far it is: on standard error, and nowhere else.
    let mut told = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = told.next().unwrap();
    assert!(first.starts_with("progress: waiting until everything is healthy ("), "{first}");
    api.put(WEBHOOKS, webhook(CA));
    let ended = waiting.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(answer["state"], "Healthy", "the answer is all there is on standard output");
    assert!(told.all(|line| line.starts_with("progress: ")));
}

/// Whose clock is a minute ahead of the cluster's, or years, sees what there is all the same.
#[test]
fn leases_are_judged_by_the_clock_of_the_cluster() {
    for (rule, renewed, code) in [
        ("renewed 5 s ago", "2026-03-01T09:59:55.000000Z", 0),
        ("ahead of the API server by a little", "2026-03-01T10:00:01.000000Z", 0),
        ("renewed 50 s ago", "2026-03-01T09:59:10.000000Z", 1),
    ] {
        let api = healthy();
        api.says_it_is("Sun, 01 Mar 2026 10:00:00 GMT");
        let lease = json!({
            "metadata": {"name": "plimsoll-recommender"},
            "spec": {"holderIdentity": "p-1_0a", "leaseDurationSeconds": 15, "renewTime": renewed},
        });
        api.list("/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases", &[lease]);
        let run = api.run("status");
        assert_eq!(run.code, code, "{rule}: {run:?}");
    }
}

#[test]
fn a_cluster_that_does_not_answer() {
    let api = healthy();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = api.run(&format!("status --server http://{free}"));
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("cannot be asked"), "{run:?}");
    assert_eq!(api.run("status --server nonsense").code, 2);
}

#[test]
fn credentials_that_are_not_accepted() {
    let api = healthy();
    api.expire();
    let run = api.run("status");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("the credentials are not accepted") && !run.err.contains("grant"), "{run:?}");
    assert!(!run.err.contains("right"), "{run:?}");
}

#[test]
fn colours_when_they_are_wanted() {
    let api = healthy();
    let run = api.run("status --color always");
    assert!(run.out.contains("\x1b[38;5;10m") || run.out.contains("\x1b[32m"), "{:?}", run.out);
    assert!(!api.run("status --color never").out.contains('\x1b'));
}

#[test]
fn nodes_through_a_port_forward() {
    let api = healthy();
    api.pod_says("p-1", &json!({"nodes": []}));
    let run = api.run("top nodes");
    assert!(run.code == 0 || run.err.contains("cannot be understood"), "{run:?}");
    api.list(&format!("{OWN}/pods"), &[pod("p-1", "False")]);
    let run = api.run("top nodes");
    assert_eq!(run.code, 3);
    assert!(run.err.contains("no pod with app.kubernetes.io/name=plimsoll is ready"), "{run:?}");
}
