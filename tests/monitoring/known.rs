//! What may be named: the metrics of docs/metrics.md (which a test of the server holds to what is exposed), and a few of others.

use std::collections::{BTreeMap, BTreeSet};

use crate::promql::{Named, named};
use crate::read;

/// Labels that Prometheus puts on everything that it scrapes.
pub(crate) const OF_TARGETS: [&str; 4] = ["namespace", "pod", "job", "instance"];

/// Metrics with their labels, and the text of the values that labels have.
pub(crate) struct Known {
    metrics: BTreeMap<String, BTreeSet<String>>,
    values: String,
}

impl Known {
    pub(crate) fn new() -> Self {
        let document = read("docs/metrics.md");
        let mut metrics = BTreeMap::new();
        let mut add = |name: String, labels: &[&str]| {
            metrics.insert(name, labels.iter().map(|&label| label.to_owned()).collect());
        };
        for line in document.lines().filter(|line| line.starts_with("| `") && line.contains('_')) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, _] = cells[..] else { continue };
            let name = name.trim_matches('`');
            let labels: Vec<&str> = labels.split(',').map(|label| label.trim().trim_matches('`')).collect();
            let labels: Vec<&str> = labels.into_iter().filter(|label| !label.is_empty()).collect();
            if kind == "histogram" {
                add(format!("{name}_sum"), &labels);
                add(format!("{name}_count"), &labels);
                add(format!("{name}_bucket"), &[&labels[..], &["le"]].concat());
            } else {
                add(name.to_owned(), &labels);
            }
        }
        assert!(metrics.len() > 100, "{}", metrics.len());
        let mut add = |name: &str, labels: &[&str]| {
            metrics.insert(name.to_owned(), labels.iter().map(|&label| label.to_owned()).collect());
        };
        add("up", &[]);
        add("ALERTS", &["alertname", "alertstate"]);
        // Of the API server.
        add("apiserver_admission_webhook_fail_open_count", &["name", "type"]);
        add("apiserver_admission_webhook_admission_duration_seconds_bucket", &["name", "type", "le"]);
        let values = document.split_once("## Label values").unwrap().1.to_owned();
        Self { metrics, values }
    }

    /// A series that a rule records.
    pub(crate) fn record(&mut self, name: &str) {
        self.metrics.insert(name.to_owned(), BTreeSet::new());
    }

    /// That everything an expression names is there; gives the labels that its result may have.
    pub(crate) fn check(&self, place: &str, expression: &str) -> BTreeSet<String> {
        let Named { selectors, grouping, made } = named(expression);
        assert!(!selectors.is_empty(), "{place}: {expression} names no metric");
        let mut all: BTreeSet<String> = OF_TARGETS.iter().map(|&label| label.to_owned()).collect();
        for selector in &selectors {
            let metric = &selector.metric;
            let labels = self.metrics.get(metric);
            let labels =
                labels.unwrap_or_else(|| panic!("{place}: {metric} is not in docs/metrics.md: {expression}"));
            for (label, value) in &selector.matchers {
                let of_target = OF_TARGETS.contains(&label.as_str());
                assert!(of_target || labels.contains(label), "{place}: {metric} has no label {label}");
                // Of ours; what others have is not in our documents.
                if !of_target && metric.starts_with("plimsoll_") && label != "le" {
                    let known = self.values.contains(&format!("`{value}`"));
                    assert!(known, "{place}: {metric}: docs/metrics.md has no value {value} of {label}");
                }
            }
            all.extend(labels.iter().cloned());
        }
        for label in &grouping {
            assert!(all.contains(label), "{place}: nothing in {expression} has a label {label}");
        }
        if !grouping.is_empty() {
            all = grouping;
        }
        all.extend(made);
        all
    }
}

/// The words that `{{...}}` in a template name, such as `$labels.pod` or `pod`.
pub(crate) fn templated(text: &str) -> Vec<&str> {
    text.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0.trim()).collect()
}
