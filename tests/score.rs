//! `plimsoll score`, as a user runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const LOAD: &str = "examples/placement/load.yaml";
const WEIGHTS: &str = "examples/placement/weights.yaml";

/// Exit code, standard output and standard error.
fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args = args.iter().map(|arg| if arg.starts_with("examples/") { root.join(arg) } else { arg.into() });
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("score")
        .args(args)
        .current_dir(folder)
        .env_remove("PLIMSOLL_CONFIG")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn folder(files: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    folder
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": format!("{name}:1")}]}}}})
}

fn scored(folder: &Path, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.extend(["-o", "json"]);
    let (code, out, error) = run(folder, &all);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_vector_of_load() {
    let folder = folder(&[("web.json", deployment("web"))]);
    let answer = scored(folder.path(), &["-f", "web.json", "--load", LOAD]);
    assert_eq!(answer["policy"], "load");
    assert_eq!(answer.get("weightsFrom"), None);
    let nodes: Vec<_> = answer["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (node["name"].as_str().unwrap(), node["score"].as_f64().unwrap(), node["U"].as_f64().unwrap())
        })
        .collect();
    assert_eq!(
        nodes,
        [("n2", 70.8, 0.292), ("n4", 55.4, 0.446), ("n3", 46.0, 0.54), ("n1", 45.6, 0.544)],
        "the best first, without digits that are nobody's"
    );
    let best = &answer["nodes"][0];
    assert_eq!((&best["points"], &best["bindings"]), (&json!(10), &json!(3)));
    let why = best["why"].as_str().unwrap();
    for part in ["load 70.80", "cpu 0.330", "; 3 pods bound lately"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn the_vector_of_weights() {
    let folder = folder(&[("web.json", deployment("web")), ("new.json", deployment("new"))]);
    let answer =
        scored(folder.path(), &["-f", "web.json", "new.json", "--load", WEIGHTS, "--policy", "weights"]);
    let scores = |answer: &Value| {
        let nodes = answer["nodes"].as_array().unwrap();
        nodes.iter().map(|node| (node["name"].clone(), node["score"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(scores(&answer[0]), [(json!("node-2"), json!(0.49)), (json!("node-1"), json!(0.4))]);
    assert_eq!(answer[0]["weightsFrom"], "workload");
    assert_eq!(
        (&answer[1]["weightsFrom"], &answer[1]["nodes"][0]["name"]),
        (&json!("default"), &json!("node-1"))
    );
}

#[test]
fn nodes_and_pods_of_objects_count() {
    let node = |name: &str, cpu: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": cpu, "memory": "8Gi"}}});
    let running = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"nodeName": "small", "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "7"}}}]}});
    let mut pod = deployment("web");
    pod["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    let folder = folder(&[
        ("web.json", pod),
        (
            "cluster.json",
            json!({"apiVersion": "v1", "kind": "List", "items": [node("small", "4"), node("large", "64"), running]}),
        ),
    ]);
    let answer = scored(
        folder.path(),
        &["-f", "web.json", "--objects", "cluster.json", "--policy", "overcommit-risk"],
    );
    let [large, small] = &answer["nodes"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&large["name"], &large["score"]), (&json!("large"), &json!(100.0)));
    // Limits 8 on 4 cores, requests 2: 4 / 6.
    assert!((small["score"].as_f64().unwrap() - 100.0 / 3.0).abs() < 1e-6, "{small}");
    let (code, out, _) = run(folder.path(), &["-f", "web.json", "--objects", "cluster.json"]);
    assert!(code == 0 && out.contains("nothing fresh is known of it"), "{out}");
}

#[test]
fn bad_input_is_an_error_that_says_where() {
    let folder = folder(&[
        ("web.json", deployment("web")),
        ("config-map.json", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})),
        ("load.json", json!({"nodes": {"n1": {"cpu": {"5m": 0.5}, "memory": "half"}}})),
        ("node.json", json!({"apiVersion": "v1", "kind": "Node", "metadata": {}})),
    ]);
    for (rule, args, expected) in [
        ("no nodes", &["-f", "web.json"][..], &["there are no nodes"][..]),
        ("no pod", &["-f", "config-map.json", "--load", LOAD], &["config-map.json", "has no pod"]),
        ("no file", &["-f", "web.json", "--load", "nowhere.yaml"], &["nowhere.yaml"]),
        (
            "a broken load file",
            &["-f", "web.json", "--load", "load.json"],
            &["nodes.n1.cpu.5m: is no window", "nodes.n1.memory: "],
        ),
        (
            "a broken object",
            &["-f", "web.json", "--objects", "node.json", "--load", LOAD],
            &["metadata.name is missing"],
        ),
        ("standard input twice", &["-f", "-", "--load", "-"], &["-f -", "--load -"]),
        ("an unknown policy", &["-f", "web.json", "--load", LOAD, "--policy", "best"], &["overcommit-risk"]),
    ] {
        let (code, out, error) = run(folder.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{rule}: {error}");
        for part in expected {
            assert!(error.contains(part), "{rule}: {error}");
        }
    }
}
