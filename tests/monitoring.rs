//! Alert rules, dashboard and what Prometheus is told to scrape: they name what exists, and say what to do.
//!
//! The plain tests read the files. Those that need promtool and kubectl run with the end-to-end tests:
//! `cargo test --features e2e --test monitoring`. `UPDATE=1` writes the chart's copies anew.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is a test; reading a JSON value that is not there gives null"
)]

#[path = "monitoring/dashboard.rs"]
mod dashboard;
#[path = "monitoring/known.rs"]
mod known;
#[path = "monitoring/promql.rs"]
mod promql;
#[path = "monitoring/rules.rs"]
mod rules;
#[cfg(feature = "e2e")]
#[path = "monitoring/tools.rs"]
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const COMPONENT: &str = "webhook-config/components/monitoring";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first document of a YAML file.
fn yaml(path: &str) -> Value {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    documents.into_iter().next().unwrap()
}

/// That a file of the chart has this text, or writes it.
fn copied(path: &str, text: &str) {
    let path: PathBuf = root().join(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let is = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == text, "{} is another; `UPDATE=1 cargo test --test monitoring` writes it", path.display());
}

#[test]
fn the_chart_has_copies() {
    copied("chart/files/dashboard.json", &read(&format!("{COMPONENT}/dashboard.json")));
    let rule = read(&format!("{COMPONENT}/prometheusrule.yaml"));
    let groups = rule.split_once("\nspec:\n").unwrap().1.lines();
    let groups: Vec<&str> = groups.map(|line| line.get(2..).unwrap_or_default()).collect();
    let groups = groups.join("\n") + "\n";
    assert!(groups.starts_with("groups:\n"), "{groups}");
    copied("chart/files/rules.yaml", &groups);
}

#[test]
fn prometheus_is_told_what_there_is() {
    let (service, monitor) =
        (yaml(&format!("{COMPONENT}/service.yaml")), yaml(&format!("{COMPONENT}/servicemonitor.yaml")));
    let deployment = yaml("webhook-config/base/deployment.yaml");
    let template = &deployment["spec"]["template"];
    let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == service["spec"]["ports"][0]["targetPort"]);
    for (rule, got, want) in [
        ("the job that alerts count on", &service["metadata"]["name"], json!("plimsoll-metrics")),
        ("each replica by itself", &service["spec"]["clusterIP"], json!("None")),
        ("also while it is not ready", &service["spec"]["publishNotReadyAddresses"], json!(true)),
        ("the servers", &service["spec"]["selector"], template["metadata"]["labels"].clone()),
        ("their port", &port.unwrap()["containerPort"], service["spec"]["ports"][0]["port"].clone()),
        (
            "that port of it",
            &monitor["spec"]["endpoints"][0]["port"],
            service["spec"]["ports"][0]["name"].clone(),
        ),
        ("the same namespace", &monitor["metadata"]["namespace"], service["metadata"]["namespace"].clone()),
    ] {
        assert_eq!(*got, want, "{rule}");
    }
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(service["metadata"]["labels"][label], *value, "{label}");
    }
    let webhook = yaml("webhook-config/base/service.yaml");
    let selects = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap()
        .iter()
        .all(|(label, value)| webhook["metadata"]["labels"][label] == *value);
    assert!(!selects, "the Service of the webhook must not be scraped too");
}
