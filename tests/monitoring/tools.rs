//! What promtool and kubectl say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::dashboard::{dashboard, queries};
use crate::{COMPONENT, read, root, yaml};

/// A program of the control plane, else the one in PATH.
fn program(name: &str) -> PathBuf {
    let script = root().join("tests/e2e/controlplane/build.sh");
    let output = Command::new("bash").arg(script).arg("--dir").output().unwrap();
    let built = Path::new(String::from_utf8(output.stdout).unwrap().trim()).join(name);
    if built.exists() { built } else { name.into() }
}

fn run(name: &str, arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(program(name));
    let output = command.args(arguments).current_dir(folder).output().unwrap_or_else(|error| {
        panic!("{name}: {error}; build it with tests/e2e/controlplane/build.sh prometheus, or install it")
    });
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&said));
    output
}

#[test]
fn rules_hold_what_they_promise() {
    let folder = tempfile::tempdir().unwrap();
    let rule = yaml(&format!("{COMPONENT}/prometheusrule.yaml"));
    fs::write(folder.path().join("rules.yaml"), rule["spec"].to_string()).unwrap();
    fs::write(folder.path().join("rules.test.yaml"), read("tests/fixtures/monitoring/rules.test.yaml"))
        .unwrap();
    run("promtool", &["check", "rules", "rules.yaml"], folder.path());
    run("promtool", &["test", "rules", "rules.test.yaml"], folder.path());
}

#[test]
fn queries_of_the_dashboard_are_promql() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&dashboard());
    let rules: Vec<Value> = queries
        .iter()
        .enumerate()
        .map(|(index, (_, query))| {
            // What Grafana puts in.
            let query = query.replace("$__rate_interval", "4m").replace("$__range", "6h");
            json!({"record": format!("dashboard:{index}"), "expr": query})
        })
        .collect();
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(folder.path().join("queries.yaml"), groups.to_string()).unwrap();
    run("promtool", &["check", "rules", "queries.yaml"], folder.path());
}

#[test]
fn the_component_renders() {
    let output = run("kubectl", &["kustomize", "tests/fixtures/kustomize/monitoring"], root());
    let rendered = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).unwrap();
    let find = |kind: &str, name: &str| {
        let found =
            objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let configuration = find("ConfigMap", "plimsoll-dashboard");
    assert_eq!(configuration["metadata"]["namespace"], "plimsoll-system");
    assert_eq!(configuration["metadata"]["labels"]["grafana_dashboard"], "1");
    let rendered: Value =
        serde_json::from_str(configuration["data"]["plimsoll.json"].as_str().unwrap()).unwrap();
    assert_eq!(rendered, dashboard());
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert_eq!(find(kind, "plimsoll")["metadata"]["namespace"], "plimsoll-system", "{kind}");
    }
    find("Service", "plimsoll-metrics");
}
