//! `plimsoll balance plan`.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const LOAD: &str = "examples/placement/load.yaml";

fn run(folder: &Path, environment: &[(&str, &str)], args: &[&str]) -> (i32, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args = args.iter().map(|arg| if arg.starts_with("examples/") { root.join(arg) } else { arg.into() });
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["balance", "plan"])
        .args(args)
        .current_dir(folder)
        .env_remove("PLIMSOLL_CONFIG")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const LOWER: [(&str, &str); 1] = [("PLIMSOLL_PLACEMENT__BALANCE__THRESHOLD", "0.08")];

fn folder(objects: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(folder.path().join("objects.json"), list.to_string()).unwrap();
    folder
}

/// The four nodes of the documents, and a deployment with a pod on n1 and one on n3.
fn cluster() -> Vec<Value> {
    let mut objects: Vec<Value> = ["n1", "n2", "n3", "n4"]
        .iter()
        .map(|name| {
            let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"capacity": amounts, "allocatable": amounts}})
        })
        .collect();
    objects.extend([pod("web-1", "n1"), pod("web-2", "n3")]);
    objects
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "250m"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn metrics(pod: &str, cpu: &str) -> Value {
    json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": {"name": pod, "namespace": "shop"},
        "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": "64Mi"}}]})
}

fn planned(objects: &[Value], args: &[&str]) -> Value {
    let folder = folder(objects);
    let all = [&["--objects", "objects.json", "--load", LOAD, "-o", "json"], args].concat();
    let (code, out, error) = run(folder.path(), &LOWER, &all);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_vector_of_balance() {
    let mut objects = cluster();
    objects.push(metrics("web-1", "400m"));
    let answer = planned(&objects, &[]);
    let rounds = answer["rounds"].as_array().unwrap();
    let verdicts: Vec<_> = rounds.iter().map(|round| round["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["waiting", "waiting", "evict"]);
    let last = &rounds[2];
    assert_eq!((&last["mean"], &last["source"]["name"]), (&json!(0.4555), &json!("n1")));
    assert_eq!(last["source"]["deviation"], json!(0.0885));
    let nodes: Vec<_> = last["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (
                node["name"].as_str().unwrap(),
                node["deviation"].as_f64().unwrap(),
                node["target"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        nodes,
        [("n1", 0.0885, false), ("n3", 0.0845, false), ("n4", -0.0095, false), ("n2", -0.1635, true)]
    );
    let goes = &last["candidates"][0];
    assert_eq!(
        (&goes["name"], &goes["target"], &goes["outcome"]),
        (&json!("web-1"), &json!("n2"), &json!("wouldBeEvicted"))
    );
    assert_eq!((&goes["cpu"], &goes["workload"]), (&json!(0.4), &json!("ReplicaSet/web")));

    let answer = planned(&objects, &["--rounds", "4"]);
    assert_eq!(answer["rounds"][3]["verdict"], "no_candidate", "it is on n2 now");
    assert!(answer["rounds"][3]["source"]["usage"].as_f64().unwrap() < 0.544);
}

#[test]
fn usage_of_the_load_file() {
    let folder = folder(&cluster());
    let mut load: Value = {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LOAD)).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    };
    load["usage"] = json!({"shop/ReplicaSet/web": [{"node": "n1", "local": {"cpu": 0.05, "memory": 0.01}}]});
    std::fs::write(folder.path().join("load.json"), load.to_string()).unwrap();
    let (code, out, error) =
        run(folder.path(), &LOWER, &["--objects", "objects.json", "--load", "load.json", "-o", "yaml"]);
    assert_eq!(code, 0, "{error}");
    let answer: Value = serde_saphyr::from_str(&out).unwrap();
    assert_eq!(answer["rounds"][2]["candidates"][0]["cpu"], json!(0.4), "{out}");
}

#[test]
fn a_table_says_why_everybody_stays() {
    let mut objects = cluster();
    let mut alone = pod("alone", "n1");
    alone["metadata"]["ownerReferences"] = json!([]);
    objects.extend([alone, metrics("web-1", "400m")]);
    let folder = folder(&objects);
    let (code, out, error) = run(folder.path(), &LOWER, &["--objects", "objects.json", "--load", LOAD]);
    assert_eq!(code, 0, "{error}");
    for part in [
        "round 1: node n1 is too busy, in round 1 of the 3 in a row that it takes",
        "round 3: node n1 is too busy, and a pod of it goes; n1 is used by 0.5440, and nodes by 0.4555 on average",
        "shop/web-1 would be evicted; n2 has room",
        "mean 0.4555",
        "shop/alone",
        "it has no controller that would make it again",
    ] {
        assert!(out.contains(part), "{part}:\n{out}");
    }
    let (_, out, _) = run(folder.path(), &[], &["--objects", "objects.json", "--load", LOAD]);
    assert!(out.starts_with("round 1: no node is too busy\n"), "with the threshold that ships: {out}");
}

#[test]
fn claims_among_the_objects() {
    let claim = |name: &str, volume: Option<&str>| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"}, "spec": {"volumeName": volume}})
    };
    let volume = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec});
    for (rule, objects, expected) in [
        ("absent", vec![], Some("it is not among the objects")),
        ("unbound", vec![claim("data", None)], Some("it is not bound to a volume")),
        ("no volume", vec![claim("data", Some("v"))], Some("its volume v is not among the objects")),
        (
            "local",
            vec![claim("data", Some("v")), volume("v", json!({"local": {"path": "/d"}}))],
            Some("is on this node only"),
        ),
        ("everywhere", vec![claim("data", Some("v")), volume("v", json!({"csi": {}}))], None),
    ] {
        let mut all = cluster();
        all.push(metrics("web-1", "400m"));
        for pod in all.iter_mut().filter(|object| object["kind"] == "Pod") {
            pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        }
        all.extend(objects);
        let last = planned(&all, &[])["rounds"][2].clone();
        let why = last["spared"][0]["why"].as_str().map(str::to_owned);
        match expected {
            None => assert_eq!(last["verdict"], "evict", "{rule}: {last}"),
            Some(part) => assert!(why.as_deref().unwrap_or_default().contains(part), "{rule}: {last}"),
        }
    }
}

#[test]
fn input_that_cannot_be_used() {
    let full = folder(&cluster());
    let empty = folder(&[pod("web-1", "n1")]);
    let mut broken = cluster();
    broken.push(metrics("web-1", "a lot"));
    let broken = folder(&broken);
    for (rule, folder, args, part) in [
        (
            "no nodes",
            &empty,
            &["--objects", "objects.json", "--load", LOAD][..],
            "there are no nodes among the objects",
        ),
        ("no load", &full, &["--objects", "objects.json"], "--load"),
        ("no such file", &full, &["--objects", "objects.json", "--load", "nowhere.yaml"], "nowhere.yaml"),
        (
            "no rounds",
            &full,
            &["--objects", "objects.json", "--load", LOAD, "--rounds", "0"],
            "0 is not in 1..=1000",
        ),
        (
            "usage that is none",
            &broken,
            &["--objects", "objects.json", "--load", LOAD],
            "containers[0].usage.cpu: \"a lot\" is not a quantity",
        ),
        (
            "standard input twice",
            &full,
            &["--objects", "-", "--load", "-"],
            "standard input is named 2 times",
        ),
        (
            "an object as load",
            &full,
            &["--objects", "objects.json", "--load", "objects.json"],
            "objects.json",
        ),
    ] {
        let (code, _, error) = run(folder.path(), &[], args);
        assert_eq!(code, 2, "{rule}: {error}");
        assert!(error.contains(part), "{rule}: {error}");
    }
}
