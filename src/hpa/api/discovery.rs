//! Which resources the groups have.

use serde_json::{Value, json};

use super::percent_metric::PercentMetric;
use super::route::{CUSTOM, CustomVersion, EXTERNAL, METRICS};

pub(super) fn metrics() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    list(METRICS, "v1beta1", &[resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)])
}

pub(super) fn custom(version: CustomVersion) -> Value {
    let resources = PercentMetric::ALL.map(|metric| {
        let name = format!("pods/{}", metric.name());
        json!({"name": name, "singularName": "", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]})
    });
    list(CUSTOM, version.name(), &resources)
}

pub(super) fn external() -> Value {
    let resources = PercentMetric::ALL.map(|metric| {
        let name = metric.name();
        json!({"name": name, "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"]})
    });
    list(EXTERNAL, "v1beta1", &resources)
}

fn list(group: &str, version: &str, resources: &[Value]) -> Value {
    let group_version = format!("{group}/{version}");
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}
