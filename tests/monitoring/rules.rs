//! The rules name what exists; each alert has a section that says what to do, and a test that fires it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::known::{Known, templated};
use crate::{COMPONENT, read, yaml};

/// Every rule, with the name of the alert or of what is recorded.
pub(crate) fn rules() -> Vec<(String, Value)> {
    let rule = yaml(&format!("{COMPONENT}/prometheusrule.yaml"));
    let groups = rule["spec"]["groups"].as_array().unwrap().clone();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone());
    let name = |rule: &Value| rule["alert"].as_str().or(rule["record"].as_str()).unwrap().to_owned();
    rules.map(|rule| (name(&rule), rule)).collect()
}

fn alerts() -> Vec<(String, Value)> {
    let alerts: Vec<_> = rules().into_iter().filter(|(_, rule)| rule["alert"].is_string()).collect();
    assert!(alerts.len() > 30, "{}", alerts.len());
    alerts
}

/// What may be named, recorded series included.
pub(crate) fn known() -> Known {
    let mut known = Known::new();
    for (name, _) in rules().iter().filter(|(_, rule)| rule["record"].is_string()) {
        known.record(name);
    }
    known
}

#[test]
fn rules_name_what_exists() {
    let known = known();
    let mut names = BTreeSet::new();
    for (name, rule) in rules() {
        let labels = known.check(&name, rule["expr"].as_str().unwrap());
        for text in ["summary", "description"] {
            for word in rule["annotations"][text].as_str().map(templated).unwrap_or_default() {
                let Some(label) = word.strip_prefix("$labels.") else { continue };
                assert!(labels.contains(label), "{name}: its result has no label {label}: {labels:?}");
            }
        }
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn alerts_say_what_to_do() {
    let document = read("docs/alerts.md");
    let mut sections: BTreeSet<&str> =
        document.lines().filter_map(|line| line.strip_prefix("## Plimsoll")).collect();
    for (name, rule) in alerts() {
        let text = |key: &str| rule["annotations"][key].as_str().unwrap_or_default().to_owned();
        let (severity, wait) = (rule["labels"]["severity"].as_str(), rule["for"].as_str());
        let (severity, wait) = (severity.unwrap_or_default(), wait.unwrap_or_default());
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: severity {severity}");
        assert!(!wait.is_empty(), "{name} fires at once");
        assert!(text("summary").len() > 15 && text("summary").len() < 100, "{name}: {}", text("summary"));
        assert!(text("description").len() > 80, "{name}: {}", text("description"));
        let anchor = name.to_lowercase();
        let runbook = text("runbook_url");
        assert!(runbook.ends_with(&format!("/docs/alerts.md#{anchor}")), "{name}: {runbook}");
        let row = format!("| [{name}](#{anchor}) | {severity} | {wait} |");
        assert!(document.contains(&row), "docs/alerts.md has no row {row}");
        let section = document.split_once(&format!("\n## {name}\n"));
        let section = section.unwrap_or_else(|| panic!("docs/alerts.md has no section {name}")).1;
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains("\nLook at:\n\n- ") && section.contains("\nDo:\n\n- "), "{name}: {section}");
        assert!(sections.remove(name.strip_prefix("Plimsoll").unwrap()));
    }
    assert!(sections.is_empty(), "docs/alerts.md is about what is no alert: {sections:?}");
}

#[test]
fn what_is_recorded_is_in_the_document() {
    let document = read("docs/alerts.md");
    for (name, _) in rules().iter().filter(|(_, rule)| rule["record"].is_string()) {
        assert!(document.contains(&format!("| `{name}` | ")), "docs/alerts.md has no row {name}");
    }
}

/// promtool runs it, with the end-to-end tests.
#[test]
fn every_alert_has_a_test_that_fires_it() {
    let tests = read("tests/fixtures/monitoring/rules.test.yaml");
    for (name, _) in alerts() {
        let fires = format!(r#"'ALERTS{{alertname="{name}", alertstate="firing""#);
        assert!(tests.contains(&fires), "rules.test.yaml does not fire {name}");
    }
}
