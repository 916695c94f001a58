//! `plimsoll top`, `profiles` and `quota tree`, of a cluster.

use serde_json::{Value, json};

use crate::api::Api;

fn pod(namespace: &str, name: &str, owner: &str, cpu: &str, original: Option<&str>) -> Value {
    let original = original.map(|from| {
        json!({"containers": {"app": {"requests": {"cpu": from}, "set": {"cpu": cpu}}}}).to_string()
    });
    json!({
        "metadata": {
            "namespace": namespace, "name": name,
            "annotations": {"plimsoll.dev/original-resources": original.unwrap_or_default()},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "r", "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        "status": {"phase": "Running"},
    })
}

fn shop() -> Vec<Value> {
    vec![
        pod("shop", "web-1", "web-abc", "500m", Some("2")),
        pod("shop", "web-2", "web-abc", "500m", Some("2")),
    ]
}

fn cluster() -> Api {
    let api = Api::start();
    let mut all = shop();
    all.push(pod("bank", "ledger-1", "ledger-abc", "1", None));
    api.list("/api/v1/pods", &all);
    api.list("/api/v1/namespaces/shop/pods", &shop());
    let replica_sets = [json!({
        "metadata": {
            "namespace": "shop", "name": "web-abc", "uid": "r", "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true},
            ],
        },
    })];
    api.list("/apis/apps/v1/replicasets", &replica_sets);
    api.list("/apis/apps/v1/namespaces/shop/replicasets", &replica_sets);
    api.list("/apis/batch/v1/jobs", &[]);
    api.list("/apis/batch/v1/namespaces/shop/jobs", &[]);
    let measured = [json!({
        "metadata": {"namespace": "shop", "name": "web-1"}, "timestamp": "2026-03-02T10:00:00Z", "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": "250m", "memory": "512Mi"}}],
    })];
    api.list("/apis/metrics.k8s.io/v1beta1/pods", &measured);
    api.list("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", &measured);
    api
}

#[test]
fn what_namespaces_save() {
    let api = cluster();
    for arguments in ["top", "top namespaces", "top ns"] {
        let run = api.run(arguments);
        if arguments == "top ns" {
            assert_eq!(run.code, 2, "{run:?}");
            continue;
        }
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(
            run.lines(),
            [
                vec![
                    "NAMESPACE",
                    "PODS",
                    "LOWERED",
                    "CPU BEFORE",
                    "NOW",
                    "USED",
                    "SAVED",
                    "MEMORY BEFORE",
                    "NOW",
                    "USED",
                    "SAVED"
                ],
                vec![
                    "shop",
                    "2",
                    "2",
                    "4",
                    "1",
                    "250m (50%)",
                    "3 (75%)",
                    "2Gi",
                    "2Gi",
                    "512Mi (50%)",
                    "0 (0%)"
                ],
                vec!["bank", "1", "0", "1", "1", "-", "0 (0%)", "1Gi", "1Gi", "-", "0 (0%)"],
                vec![
                    "TOTAL",
                    "3",
                    "2",
                    "5",
                    "2",
                    "250m (50%)",
                    "3 (60%)",
                    "3Gi",
                    "3Gi",
                    "512Mi (50%)",
                    "0 (0%)"
                ],
            ]
        );
        assert!(run.err.contains("2 of 3 pods were not measured"), "{run:?}");
    }
    let run = api.run("top --sort name");
    assert!(run.lines()[1][0] == "bank", "{run:?}");
}

#[test]
fn what_workloads_save() {
    let api = cluster();
    let run = api.run("top workloads");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.lines()[1][..3], ["shop", "Deployment/web", "2"], "the context's namespace: {run:?}");
    assert_eq!(run.lines().len(), 3);
    assert_eq!(api.run("top workloads -A").lines().len(), 4);
    let answer = api.run("top workloads -n shop -o json").json();
    assert_eq!(answer["items"][0]["name"], "web");
    assert_eq!(answer["total"]["pods"], 2);
    // Without the right to read owners or usage there is an answer all the same.
    api.forbid("/replicasets");
    api.forbid("metrics.k8s.io");
    let run = api.run("top workloads");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("you lack the right to list on replicasets.apps"), "{run:?}");
    assert!(run.out.contains(" - "), "no usage: {run:?}");
    api.forbid("/pods");
    let run = api.run("top workloads");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("you lack the right to list on pods"), "{run:?}");
    assert_eq!(api.run("top --usage none").code, 3);
}

#[test]
fn profiles_and_what_falls_under_them() {
    let api = cluster();
    api.list(
        "/api/v1/namespaces",
        &[
            json!({"metadata": {"name": "shop", "labels": {"plimsoll.dev/pool": "shared"}}}),
            json!({"metadata": {"name": "bank"}}),
        ],
    );
    let profile = |name: &str, priority: i32, spec: Value| {
        let mut spec = spec;
        spec["priority"] = json!(priority);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let path = "/apis/plimsoll.dev/v1alpha1/overcommitprofiles";
    let all = json!({"mode": "Off"});
    let pool =
        json!({"mode": "Static", "match": {"pools": ["shared"]}, "static": {"factors": {"cpu": "0.5"}}});
    api.list(path, &[profile("all", 1, all.clone()), profile("pool", 10, pool.clone())]);
    let run = api.run("profiles");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.lines(),
        [
            vec!["NAME", "PRIORITY", "MODE", "APPLY", "NAMESPACES", "PODS", "VALID"],
            vec!["pool", "10", "Static", "true", "1", "2", "true"],
            vec!["all", "1", "Off", "true", "1", "1", "true"],
        ]
    );
    api.list(path, &[profile("pool", 10, pool), profile("bad", 2, json!({"mode": "Sometimes"}))]);
    let run = api.run("profiles -o json");
    assert_eq!(run.code, 1, "{run:?}");
    let bad = &run.json()["profiles"][1];
    assert!(bad["valid"] == false && bad["problems"].to_string().contains("mode"), "{bad}");
    api.forbid("/api/v1/namespaces");
    let run = api.run("profiles");
    assert!(run.err.contains("you lack the right to list on namespaces"), "{run:?}");
    assert_eq!(run.lines()[1][4..6], ["-", "-"]);
    api.forbid(path);
    let run = api.run("profiles");
    assert_eq!((run.code, run.err.contains("overcommitprofiles.plimsoll.dev")), (3, true), "{run:?}");
}

#[test]
fn the_quota_tree_of_a_cluster() {
    let api = cluster();
    let path = "/apis/scheduling.sigs.k8s.io/v1beta1/elasticquotatrees";
    let run = api.run("quota tree");
    assert_eq!(run.code, 3, "{run:?}");
    api.list(path, &[json!({
        "metadata": {"namespace": "kube-system", "name": "root", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"root": {
            "name": "root", "min": {"cpu": "10"}, "max": {"cpu": "20"},
            "children": [{"name": "team", "namespaces": ["shop"], "min": {"cpu": "4"}, "max": {"cpu": "8"}}],
        }},
    })]);
    let run = api.run("quota tree");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("team") && run.out.contains("shop"), "{run:?}");
}

#[test]
fn names_of_others_are_only_shown() {
    let api = cluster();
    let odd = "web\x1b]0;owned\x07\nTOTAL\u{202e}\u{9b}2J";
    let mut pod = pod("shop", "odd", odd, "1", None);
    pod["metadata"]["ownerReferences"][0]["kind"] = json!("Odd\r\x1b[2J");
    api.list("/api/v1/pods", &[pod]);
    for arguments in [
        "top workloads -A",
        "top workloads -A --color always",
        "top workloads -A -o json",
        "top workloads -A -o yaml",
    ] {
        let run = api.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
        let text = format!("{}{}", run.out, run.err);
        for forbidden in ['\x1b', '\r', '\x07', '\u{202e}', '\u{9b}'] {
            assert!(!text.contains(forbidden), "{arguments}: {run:?}");
        }
        if arguments.contains("-o") {
            assert_eq!(run.json()["items"][0]["name"], odd, "{arguments}: JSON is YAML too");
        } else {
            assert_eq!(run.out.lines().count(), 3, "{run:?}");
            assert!(run.out.contains(r"web\u{1b}]0;owned\u{7}\u{a}TOTAL\u{202e}"), "{run:?}");
        }
    }
}

#[test]
fn each_resource_is_measured_on_its_own() {
    let api = cluster();
    let measured = [json!({
        "metadata": {"namespace": "shop", "name": "web-1"}, "timestamp": "2026-03-02T10:00:00Z", "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": "250m"}}],
    })];
    api.list("/apis/metrics.k8s.io/v1beta1/pods", &measured);
    let run = api.run("top -o json");
    let total = &run.json()["total"];
    assert_eq!(total["measured"], json!({"cpu": 1, "memory": 0}), "{run:?}");
    assert_eq!(total["used"], json!({"cpu": "250m", "memory": null}), "{run:?}");
    assert_eq!(total["requestedByMeasured"], json!({"cpu": "500m", "memory": null}), "{run:?}");
    assert_eq!(api.run("top").lines()[1][9], "-");
}

#[test]
fn what_may_not_be_listed_is_left_out_of_an_explanation() {
    let api = cluster();
    api.put("/api/v1/namespaces/shop", json!({"metadata": {"name": "shop"}}));
    let spec = json!({"mode": "Static", "static": {"factors": {"cpu": "0.25"}}});
    api.list(
        "/apis/plimsoll.dev/v1alpha1/overcommitprofiles",
        &[json!({"metadata": {"name": "all"}, "spec": spec})],
    );
    api.put("/api/v1/namespaces/shop/pods/web-1", shop()[0].clone());
    api.put(
        "/apis/apps/v1/namespaces/shop/deployments/web",
        json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {}, "spec": {
                    "containers": [{"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
                }},
            },
        }),
    );
    let run = api.run("explain pod web-1");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("Pod shop/web-1: applied (profile all)"), "the next one is lowered: {run:?}");
    for path in ["/limitranges", "/jobs", "/replicasets", "/recommendations", "shop/pods"] {
        api.forbid(path);
    }
    let run = api.run("explain workload deployment/web");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("applied (profile all)"), "{run:?}");
    for right in ["limitranges", "jobs.batch", "replicasets.apps", "recommendations.plimsoll.dev", "pods"] {
        assert!(run.out.contains(&format!("you lack the right to list on {right};")), "{right}: {run:?}");
    }
    let notes = api.run("explain workload deployment/web -o json").json()["notes"].as_array().unwrap().len();
    assert_eq!(notes, 5);
}
