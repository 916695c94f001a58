//! An `APIService` comes to point at us, and back.

use plimsoll_core::hpa::{Holder, MetricsGroup, ServiceRef, Step, Wanted, holder, install, remove};
use serde_json::{Value, json};

const RECORD: &str = "plimsoll.dev/apiservice-original";
const INJECT: &str = "cert-manager.io/inject-ca-from";

fn service(namespace: &str, name: &str) -> ServiceRef {
    ServiceRef { namespace: namespace.to_owned(), name: name.to_owned(), port: 443 }
}

fn wanted() -> Wanted {
    Wanted {
        service: ServiceRef { port: 8445, ..service("plimsoll-system", "plimsoll") },
        upstream: service("kube-system", "metrics-server"),
        ca_bundle: "b3Vycw==".to_owned(),
        inject_ca_from: None,
    }
}

/// As metrics-server's manifests have it, and as the API server returns it.
fn metrics_server() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io", "resourceVersion": "7", "uid": "u",
            "labels": {"k8s-app": "metrics-server"}},
        "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443}},
        "status": {"conditions": [{"type": "Available", "status": "True", "message": "all checks passed"}]},
    })
}

fn of(namespace: &str, name: &str) -> Value {
    let mut other = metrics_server();
    other["spec"]["service"] = json!({"namespace": namespace, "name": name});
    other
}

fn replaced(step: Step) -> Value {
    let Step::Replace(object) = step else { panic!("{step:?}") };
    object
}

#[test]
fn there_and_back() {
    let group = MetricsGroup::Metrics;
    let ours = replaced(install(group, "v1beta1", Some(&metrics_server()), &wanted()).unwrap());
    assert_eq!(
        ours["spec"],
        json!({"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "caBundle": "b3Vycw==",
            "service": {"namespace": "plimsoll-system", "name": "plimsoll", "port": 8445}})
    );
    assert_eq!(ours["metadata"]["resourceVersion"], "7", "only if it has not changed");
    assert_eq!(ours["metadata"]["labels"], metrics_server()["metadata"]["labels"]);
    assert_eq!(install(group, "v1beta1", Some(&ours), &wanted()), Ok(Step::Nothing), "again");
    let back = replaced(remove(group, "v1beta1", Some(&ours), &wanted().service).unwrap());
    assert_eq!(back, metrics_server());

    let renewed = Wanted { ca_bundle: "bmV3".to_owned(), ..wanted() };
    let again = replaced(install(group, "v1beta1", Some(&ours), &renewed).unwrap());
    assert_eq!(again["spec"]["caBundle"], "bmV3");
    assert_eq!(
        replaced(remove(group, "v1beta1", Some(&again), &wanted().service).unwrap()),
        metrics_server()
    );
}

#[test]
fn one_that_was_made_is_deleted() {
    for (group, version, priority) in [
        (MetricsGroup::Metrics, "v1beta1", 100),
        (MetricsGroup::Custom, "v1beta1", 100),
        (MetricsGroup::Custom, "v1beta2", 200),
        (MetricsGroup::External, "v1beta1", 100),
    ] {
        let made = install(group, version, None, &wanted()).unwrap();
        let Step::Create(made) = made else { panic!("{made:?}") };
        assert_eq!(made["metadata"]["name"], format!("{version}.{}", group.name()));
        assert_eq!(made["spec"]["versionPriority"], priority);
        assert_eq!(made["spec"]["caBundle"], "b3Vycw==");
        assert_eq!(install(group, version, Some(&made), &wanted()), Ok(Step::Nothing));
        assert_eq!(remove(group, version, Some(&made), &wanted().service), Ok(Step::Delete));
        assert_eq!(remove(group, version, None, &wanted().service), Ok(Step::Nothing));
    }
}

#[test]
fn what_is_not_known_is_left_alone() {
    let mut local = metrics_server();
    local["spec"]["service"] = Value::Null;
    let mut no_record = of("plimsoll-system", "plimsoll");
    let rows = [
        (
            "another's",
            of("monitoring", "prometheus-adapter"),
            "Service monitoring/prometheus-adapter, not to Service kube-system/metrics-server",
        ),
        ("of the same name elsewhere", of("shop", "metrics-server"), "Service shop/metrics-server"),
        ("the API server's own", local, "belongs to the API server itself"),
    ];
    for (rule, found, said) in rows {
        let error =
            install(MetricsGroup::Metrics, "v1beta1", Some(&found), &wanted()).unwrap_err().to_string();
        assert!(error.contains(said), "{rule}: {error}");
        let error = remove(MetricsGroup::Metrics, "v1beta1", Some(&found), &wanted().service).unwrap_err();
        assert!(error.to_string().contains("not ours to remove"), "{rule}: {error}");
    }
    let found = of("monitoring", "prometheus-adapter");
    for group in [MetricsGroup::Custom, MetricsGroup::External] {
        let error = install(group, "v1beta1", Some(&found), &wanted()).unwrap_err().to_string();
        assert!(error.contains("leave that one out"), "{error}");
    }
    let gone = |found: &Value| {
        remove(MetricsGroup::Metrics, "v1beta1", Some(found), &wanted().service).unwrap_err().to_string()
    };
    assert!(
        gone(&no_record)
            .contains("is gone; delete it (kubectl delete apiservice v1beta1.metrics.k8s.io) and apply"),
        "{}",
        gone(&no_record)
    );
    for (text, said) in [("{", "is no JSON"), ("{}", "has no spec"), ("{\"spec\": {}}", "has no spec")] {
        no_record["metadata"]["annotations"] = json!({RECORD: text});
        assert!(gone(&no_record).contains(said), "{}", gone(&no_record));
    }
}

#[test]
fn somebody_put_theirs_back() {
    let group = MetricsGroup::Metrics;
    let ours = replaced(install(group, "v1beta1", Some(&metrics_server()), &wanted()).unwrap());
    // `kubectl apply` of metrics-server's manifest leaves our annotation.
    let mut applied = metrics_server();
    applied["metadata"]["annotations"] = ours["metadata"]["annotations"].clone();
    applied["spec"]["groupPriorityMinimum"] = json!(200);
    let removed = replaced(remove(group, "v1beta1", Some(&applied), &wanted().service).unwrap());
    assert_eq!(removed["metadata"].get("annotations"), None);
    assert_eq!(removed["spec"], applied["spec"]);
    let again = replaced(install(group, "v1beta1", Some(&applied), &wanted()).unwrap());
    let back = replaced(remove(group, "v1beta1", Some(&again), &wanted().service).unwrap());
    assert_eq!(back["spec"]["groupPriorityMinimum"], 200, "the newest is what is put back");
}

#[test]
fn the_record_stays_unless_its_service_is_back() {
    let group = MetricsGroup::Metrics;
    let elsewhere = Wanted { service: service("shop", "plimsoll"), ..wanted() };
    let taken = replaced(install(group, "v1beta1", Some(&metrics_server()), &elsewhere).unwrap());
    let mut others = taken.clone();
    others["spec"]["service"] = json!({"namespace": "monitoring", "name": "prometheus-adapter"});
    let Step::Create(made) = install(group, "v1beta1", None, &elsewhere).unwrap() else { panic!() };
    for (rule, found, whose) in [
        ("ours in another namespace", &taken, "Service shop/plimsoll"),
        ("made by ours in another namespace", &made, "Service shop/plimsoll"),
        ("somebody else's", &others, "Service monitoring/prometheus-adapter"),
    ] {
        let error = remove(group, "v1beta1", Some(found), &wanted().service).unwrap_err();
        assert!(error.to_string().contains(whose), "{rule}: {error}");
    }
    let back = replaced(remove(group, "v1beta1", Some(&taken), &elsewhere.service).unwrap());
    assert_eq!(back, metrics_server());
}

#[test]
fn cert_manager_writes_for_one_only() {
    let group = MetricsGroup::Metrics;
    let mut theirs = metrics_server();
    theirs["metadata"]["annotations"] = json!({INJECT: "kube-system/metrics-server", "note": "kept"});
    theirs["spec"]["caBundle"] = json!("dGhlaXJz");
    theirs["spec"].as_object_mut().unwrap().remove("insecureSkipTLSVerify");
    let plain = replaced(install(group, "v1beta1", Some(&theirs), &wanted()).unwrap());
    assert_eq!(plain["metadata"]["annotations"].get(INJECT), None, "it would overwrite our bundle");
    let kept = Wanted { inject_ca_from: Some("plimsoll-system/plimsoll".to_owned()), ..wanted() };
    let ours = replaced(install(group, "v1beta1", Some(&theirs), &kept).unwrap());
    assert_eq!(ours["metadata"]["annotations"][INJECT], "plimsoll-system/plimsoll");
    let mut rotated = ours.clone();
    rotated["spec"]["caBundle"] = json!("cm90YXRlZA==");
    assert_eq!(install(group, "v1beta1", Some(&rotated), &kept), Ok(Step::Nothing), "it knows better");
    for ours in [plain, rotated] {
        assert_eq!(replaced(remove(group, "v1beta1", Some(&ours), &wanted().service).unwrap()), theirs);
    }
}

#[test]
fn whose_it_is() {
    let ours = wanted().service;
    let taken =
        replaced(install(MetricsGroup::Metrics, "v1beta1", Some(&metrics_server()), &wanted()).unwrap());
    let theirs = service("kube-system", "metrics-server");
    assert_eq!(holder(None, &ours), (Holder::Nobody, None));
    let available = Some((true, "all checks passed".to_owned()));
    assert_eq!(holder(Some(&taken), &ours), (Holder::Ours(Some(theirs.clone())), available.clone()));
    assert_eq!(holder(Some(&metrics_server()), &ours), (Holder::Other(Some(theirs)), available));
}
