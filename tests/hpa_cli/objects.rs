//! The cluster of the examples: ten pods of a Deployment, each using 500m, that requested 1000m with a limit of 2000m.

use serde_json::{Value, json};

/// What a pod requests, and what it did before it was lowered.
#[derive(Clone, Copy)]
pub(crate) struct PodOf {
    pub(crate) request: &'static str,
    pub(crate) original: Option<&'static str>,
    pub(crate) usage: Option<&'static str>,
}

pub(crate) const LOWERED: PodOf = PodOf { request: "500m", original: Some("1"), usage: Some("500m") };
pub(crate) const AS_WRITTEN: PodOf = PodOf { request: "1", original: None, usage: Some("500m") };

pub(crate) fn profile(spec: &Value) -> Value {
    let mut all = json!({
        "match": {"pools": ["shared"]},
        "mode": "Static",
        "static": {"factors": {"cpu": "0.5"}},
    });
    json_patch::merge(&mut all, spec);
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile",
        "metadata": {"name": "shared-pool"}, "spec": all,
    })
}

pub(crate) fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"plimsoll.dev/pool": "shared"}},
    })
}

pub(crate) fn deployment(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
                ]},
            },
        },
    })
}

fn pod_name(number: usize) -> String {
    format!("web-{number}")
}

pub(crate) fn pod(number: usize, of: PodOf) -> Value {
    let annotations = of.original.map(|original| {
        let record = json!({
            "basis": "request", "profile": "shared-pool",
            "containers": {"app": {"requests": {"cpu": original}, "set": {"cpu": of.request}}},
        });
        json!({"plimsoll.dev/original-resources": record.to_string()})
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(number), "namespace": "shop", "labels": {"app": "web"}, "annotations": annotations,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f", "controller": true},
            ],
        },
        "spec": {"containers": [
            {"name": "app", "resources": {"requests": {"cpu": of.request}, "limits": {"cpu": "2"}}},
        ]},
        "status": {
            "phase": "Running", "startTime": "2026-03-01T10:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:30Z"}],
        },
    })
}

pub(crate) fn pod_metrics(number: usize, usage: &str) -> Value {
    json!({
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": pod_name(number), "namespace": "shop", "labels": {"app": "web"}},
        "timestamp": "2026-03-01T12:00:00Z", "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": usage, "memory": "100Mi"}}],
    })
}

pub(crate) fn utilization(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

pub(crate) fn average_value(value: &str) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": value}},
    })
}

pub(crate) fn hpa(name: &str, metrics: &[Value], record: Option<&Value>) -> Value {
    let annotations = record.map(|record| json!({"plimsoll.dev/hpa-original": record.to_string()}));
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 30, "metrics": metrics,
        },
    })
}

/// The record of 80 % of ten pods with 1000m each.
pub(crate) fn record() -> Value {
    json!({"metrics": [{
        "type": "Resource", "resource": "cpu", "target": 80,
        "basis": "request", "sum": "10", "pods": 10, "value": "800m",
    }]})
}

/// The whole cluster, as the objects of files.
pub(crate) fn cluster(pods: &[PodOf], hpa: Value, profile: Value) -> Vec<Value> {
    let mut all = vec![namespace(), profile, deployment(pods.len()), hpa];
    for (number, of) in pods.iter().enumerate() {
        all.push(pod(number, *of));
        all.extend(of.usage.map(|usage| pod_metrics(number, usage)));
    }
    all
}
