//! What commands write of files in which names are hostile: nothing that does more on a terminal than be seen, and what
//! programs read means the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Begins a sequence (ESC and, as C1, CSI), turns what follows around, and is not seen at all.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{e0001}b";

/// The folder of the input, by the names that the commands below have for it.
fn input(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let quoted = HOSTILE.replace('"', "\"\"");
    let rows = "2024-03-01T00:00:00Z,0.1,1e8,2,1e9\n";
    let header = "series,timestamp,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes\n";
    write("usage.csv", &format!("{header}\"{quoted}\",{rows}"));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": HOSTILE, "namespace": "shop", "annotations": {"example.org/note": HOSTILE}},
        "spec": {"containers": [{"name": HOSTILE, "resources": {"requests": {"cpu": "2"}}}]},
    });
    write("pod.json", &pod.to_string());
    let profile = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": HOSTILE},
        "spec": {"mode": "Static", "match": {"namespaces": [HOSTILE]}, "static": {"factors": {"cpu": "0.5"}}},
    });
    write("profile.json", &profile.to_string());
    let good = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "half"},
        "spec": {"mode": "Static", "apply": true, "static": {"cpu": "0.5"}},
    });
    write("half.json", &good.to_string());
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [{
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": HOSTILE},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"}},
    }]});
    write("nodes.json", &nodes.to_string());
    write(&format!("{HOSTILE}.yaml"), "log: {level: debug}\n");
    let written = r"a\x1b[2J\u009b31m\u202e\u200b\U000e0001b";
    write("broken.yaml", &format!("admission: {{excludedNamespaces: [\"{written}\"]}}\n"));
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": HOSTILE, "operation": "CREATE", "namespace": "shop",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod,
        },
    });
    write("review.json", &review.to_string());
}

/// Whether a text is all that it looks like.
fn is_seen(text: &str) -> bool {
    !text.chars().any(|letter| {
        letter != '\n' && (letter.is_control() || HOSTILE[5..].contains(letter) && !letter.is_ascii())
    })
}

/// Whether the hostile name is somewhere in it, as a key or within a text.
fn has(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(HOSTILE),
        Value::Array(items) => items.iter().any(has),
        Value::Object(members) => members.iter().any(|(key, value)| key.contains(HOSTILE) || has(value)),
        _ => false,
    }
}

#[test]
fn hostile_names_are_only_seen() {
    let folder = tempfile::tempdir().unwrap();
    input(folder.path());
    let config = format!("--config {HOSTILE}.yaml config");
    for (command, form) in [
        ("recommend --usage usage.csv -o table", ""),
        ("recommend --usage usage.csv", "json"),
        ("recommend --usage usage.csv -o yaml", "yaml"),
        ("simulate --usage usage.csv", ""),
        ("mutate -f pod.json --objects half.json", "yaml"),
        ("mutate -f pod.json --objects half.json -o json", "json"),
        ("mutate -f pod.json --objects half.json -o explain", ""),
        ("mutate -f pod.json pod.json --objects half.json -o patch", "lines"),
        ("validate -f profile.json", ""),
        ("validate -f profile.json -o json", "json"),
        ("review -f review.json --stage mutate", "json"),
        ("score -f pod.json --objects nodes.json", ""),
        ("score -f pod.json --objects nodes.json -o json", "json"),
        ("top nodes --objects nodes.json", ""),
        (&format!("{config} print -o table"), ""),
        (&format!("{config} print -o json"), "json"),
        (&format!("{config} print"), "comments"),
        ("--config broken.yaml config check", ""),
        ("--config broken.yaml config check -o json", "quoted"),
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let output =
            run.args(command.split_whitespace()).env_clear().current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!text.is_empty(), "{command}: {error}");
        for written in [&text, &error] {
            assert!(is_seen(written), "{command}: {written:?}");
        }
        match form {
            "json" => assert!(has(&serde_json::from_str(&text).unwrap()), "{command}: {text}"),
            "yaml" => assert!(has(&serde_saphyr::from_str(&text).unwrap()), "{command}: {text}"),
            "lines" => {
                assert!(
                    text.lines().all(|line| has(&serde_json::from_str(line).unwrap())),
                    "{command}: {text}"
                );
            }
            // Messages name values in quotes, escaped.
            "quoted" => drop(serde_json::from_str::<Value>(&text).unwrap()),
            _ => {}
        }
    }
}
