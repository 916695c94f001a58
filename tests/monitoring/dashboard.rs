//! The dashboard names what exists, and can be read by who has never seen it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::known::{OF_TARGETS, templated};
use crate::rules::known;
use crate::{COMPONENT, read};

/// Units of Grafana that are in use here.
const UNITS: [&str; 6] = ["none", "s", "bytes", "percentunit", "reqps", "ops"];

pub(crate) fn dashboard() -> Value {
    serde_json::from_str(&read(&format!("{COMPONENT}/dashboard.json"))).unwrap()
}

/// Every panel and row, also those in rows that are folded.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let top = dashboard["panels"].as_array().unwrap();
    top.iter()
        .flat_map(|panel| [panel].into_iter().chain(panel["panels"].as_array().into_iter().flatten()))
        .collect()
}

/// Every query, with where it stands.
pub(crate) fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let targets = panels(dashboard).into_iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (text(&panel["title"]), text(&target["expr"])))
    });
    let annotations = dashboard["annotations"]["list"].as_array().unwrap().iter();
    let annotations = annotations.filter(|annotation| annotation["expr"].is_string());
    targets
        .chain(annotations.map(|annotation| (text(&annotation["name"]), text(&annotation["expr"]))))
        .collect()
}

#[test]
fn queries_name_what_exists() {
    let (known, dashboard) = (known(), dashboard());
    for (place, query) in queries(&dashboard) {
        known.check(&place, &query);
        let of_ours = query.contains("alertname");
        assert!(
            of_ours || query.contains("namespace=\"$namespace\""),
            "{place}: of every installation: {query}"
        );
    }
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let labels = known.check("", target["expr"].as_str().unwrap());
            for label in templated(target["legendFormat"].as_str().unwrap()) {
                assert!(labels.contains(label), "{}: no label {label}: {labels:?}", panel["title"]);
            }
        }
    }
}

#[test]
fn panels_can_be_read() {
    let dashboard = dashboard();
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{title}: its id is not its own");
        if panel["type"] == "row" {
            continue;
        }
        count += 1;
        assert!(panel["description"].as_str().unwrap_or_default().len() > 30, "{title} has no description");
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or_default();
        assert!(UNITS.contains(&unit), "{title}: unit {unit:?}");
        let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks nothing");
        let mut letters = BTreeSet::new();
        for target in targets.iter().chain([panel]) {
            assert_eq!(target["datasource"], datasource, "{title}");
        }
        for target in targets {
            assert!(letters.insert(target["refId"].as_str().unwrap()), "{title}: {}", target["refId"]);
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn panels_do_not_lie_on_each_other() {
    let dashboard = dashboard();
    let top: Vec<&Value> = dashboard["panels"].as_array().unwrap().iter().collect();
    let folded = top.iter().map(|row| row["panels"].as_array().into_iter().flatten().collect::<Vec<_>>());
    for panels in folded.chain([top.clone()]) {
        let mut taken = BTreeSet::new();
        for panel in panels {
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{} is too wide", panel["title"]);
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{} lies on another", panel["title"]);
                }
            }
        }
    }
}

#[test]
fn variables_choose_what_is_shown() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "namespace", "pod"]);
    assert!(names[1..].iter().all(|name| OF_TARGETS.contains(name)));
    for variable in variables {
        assert!(variable["label"].as_str().is_some_and(|label| !label.is_empty()), "{variable}");
    }
    assert!(dashboard["style"].is_null(), "whoever looks at it chooses light or dark");
}
