//! What an installation leaves in a cluster, as an API server has it.

use serde_json::{Value, json};

use crate::Run;
use crate::api::Api;
use crate::objects::{average_value, hpa, record};

pub(crate) const OURS: &str = "/apis/apps/v1/namespaces/plimsoll-system/deployments/plimsoll";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases";
pub(crate) const LEDGER: &str =
    "/apis/plimsoll.dev/v1alpha1/namespaces/plimsoll-system/quotaledgers/kube-system.e2e";
pub(crate) const KINDS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

pub(crate) fn webhook(kind: &str, name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}")
}

pub(crate) fn api_service(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

pub(crate) fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/plimsoll-system/pods/{name}")
}

pub(crate) fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"app.kubernetes.io/name": "plimsoll"}}})
}

pub(crate) fn own(name: &str) -> Value {
    let mut object = named(name);
    object["metadata"]["namespace"] = json!("plimsoll-system");
    object
}

pub(crate) fn ledger(finalizers: &[&str]) -> Value {
    let mut ledger = own("kube-system.e2e");
    ledger["metadata"]["finalizers"] = json!(finalizers);
    ledger
}

/// A webhook configuration with an entry that calls the Service of our name in a namespace.
pub(crate) fn calling(mut object: Value, namespace: &str, policy: &str) -> Value {
    let service = json!({"namespace": namespace, "name": "plimsoll"});
    object["webhooks"] = json!([{"clientConfig": {"service": service}, "failurePolicy": policy}]);
    object
}

/// What `plimsoll hpa apiservice install metrics` makes of metrics-server's.
pub(crate) fn taken_over() -> Value {
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
pub(crate) const TOLD: [(&str, &str, &str); 6] = [
    ("apis/apps/v1", "deployments", "Deployment"),
    ("api/v1", "replicationcontrollers", "ReplicationController"),
    ("apis/apps/v1", "daemonsets", "DaemonSet"),
    ("apis/apps/v1", "replicasets", "ReplicaSet"),
    ("apis/apps/v1", "statefulsets", "StatefulSet"),
    ("apis/batch/v1", "jobs", "Job"),
];

pub(crate) fn workload((group, plural, _): (&str, &str, &str)) -> String {
    format!("/{group}/namespaces/shop/{plural}/web")
}

/// Of 80 % of ten pods with 1000m each.
pub(crate) fn converted(name: &str) -> Value {
    hpa(name, &[average_value("800m")], Some(&record()))
}

/// A cluster with everything that the manifests, the commands and the server make.
pub(crate) fn installed() -> Api {
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
pub(crate) fn told(run: &Run) -> Value {
    let objects = run.json()["objects"].as_array().unwrap().clone();
    objects
        .iter()
        .map(|line| (line["object"].as_str().unwrap().to_owned(), json!([line["result"], line["message"]])))
        .collect()
}
