//! Usage in percent of what it is meant against.

use serde_json::{Value, json};

use crate::server::{Asked, Reply};
use crate::support::{Running, lowered, pod_metrics, profile};

const CUSTOM: &str = "/apis/custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";

/// Pods `a` and `b` of Deployment `web`, `c` of `db`, and one that is not known.
async fn start() -> Running {
    let running = Running::with(|asked: &Asked| {
        let all = [
            ("a", &[("app", "900m", "512Mi")][..]),
            ("b", &[("app", "100m", "512Mi")]),
            ("c", &[("app", "1", "1Gi")]),
            ("gone", &[("app", "5", "1Gi")]),
        ];
        let name = asked.path.rsplit('/').next().unwrap();
        match (asked.get("labelSelector"), name) {
            ("app=web", _) => Reply::ok(pod_metrics(&all[..2]).to_string()),
            ("app=none", _) => Reply::ok(pod_metrics(&[]).to_string()),
            (_, "pods") => Reply::ok(pod_metrics(&all).to_string()),
            _ => match all.iter().find(|(pod, _)| *pod == name) {
                Some((pod, containers)) => Reply::ok(crate::support::one_pod(pod, containers).to_string()),
                None => Reply::status(404, "{\"kind\":\"Status\",\"code\":404}"),
            },
        }
    })
    .await;
    running.put(&[profile("External")]);
    running.put_pods(&[
        lowered("web", "a", "1", "500m"),
        lowered("web", "b", "2", "500m"),
        lowered("db", "c", "4", "500m"),
    ]);
    running
}

#[tokio::test]
async fn metrics_of_pods() {
    let running = start().await;
    let path = |version: &str, pod: &str| {
        format!("{CUSTOM}/{version}/namespaces/shop/pods/{pod}/plimsoll_cpu_percent?labelSelector=app%3Dweb")
    };
    let answer = running.get("hpa", &path("v1beta2", "*")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let item = |name: &str, value: &str| {
        json!({"describedObject": {"kind": "Pod", "namespace": "shop", "name": name, "apiVersion": "/v1"},
            "metric": {"name": "plimsoll_cpu_percent", "selector": null}, "timestamp": "2026-11-30T12:00:00Z",
            "windowSeconds": 15, "value": value})
    };
    // 100 * 900m * 2 / 3 and 100 * 100m * 2 / 3: the mean is the 33 % of the ratio of sums.
    assert_eq!(
        answer.json(),
        json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {},
            "items": [item("a", "60"), item("b", "6667m")]})
    );
    let older = running.get("hpa", &path("v1beta1", "%2A")).await.json();
    assert_eq!(older["apiVersion"], "custom.metrics.k8s.io/v1beta1");
    let first = &older["items"][0];
    assert_eq!(
        (&first["metricName"], &first["window"], &first["value"], &first["selector"]),
        (&json!("plimsoll_cpu_percent"), &json!(15), &json!("60"), &Value::Null)
    );
    assert_eq!(first["metric"], Value::Null);
    let one = running.get("hpa", &path("v1beta2", "a")).await.json();
    assert_eq!(one["items"][0]["value"], "90", "900m of 1");
    let memory =
        format!("{CUSTOM}/v1beta2/namespaces/shop/pods/*/plimsoll_memory_percent?labelSelector=app%3Dweb");
    assert_eq!(running.get("hpa", &memory).await.json()["items"][1]["value"], "50");
    running.stop().await;
}

#[tokio::test]
async fn metrics_of_workloads() {
    let running = start().await;
    let answer =
        running.get("hpa", &format!("{EXTERNAL}/plimsoll_cpu_percent?labelSelector=workload%3Dweb")).await;
    assert_eq!(
        answer.json(),
        json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{"metricName": "plimsoll_cpu_percent",
                "metricLabels": {"workload": "web", "kind": "Deployment"},
                "timestamp": "2026-11-30T12:00:00Z", "window": 15, "value": "33334m"}]})
    );
    let path = format!("{EXTERNAL}/plimsoll_cpu_percent?labelSelector=workload%3Ddb,kind%3DDeployment");
    assert_eq!(running.get("hpa", &path).await.json()["items"][0]["value"], "25");
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_never_0() {
    let running = start().await;
    let pods = format!("{CUSTOM}/v1beta2/namespaces/shop/pods");
    for (rule, path, status, said) in [
        (
            "no pods",
            format!("{pods}/*/plimsoll_cpu_percent?labelSelector=app%3Dnone"),
            404,
            "no usage of cpu is known",
        ),
        (
            "a pod that is not known",
            format!("{pods}/gone/plimsoll_cpu_percent"),
            404,
            "no usage of cpu is known",
        ),
        (
            "another metric",
            format!("{pods}/*/requests_per_second"),
            404,
            "plimsoll_cpu_percent and plimsoll_memory_percent",
        ),
        (
            "labels of a metric",
            format!("{pods}/*/plimsoll_cpu_percent?metricLabelSelector=a%3Db"),
            400,
            "has no labels",
        ),
        (
            "no such workload",
            format!("{EXTERNAL}/plimsoll_cpu_percent?labelSelector=workload%3Dx"),
            404,
            "no usage of cpu",
        ),
        (
            "another kind",
            format!("{EXTERNAL}/plimsoll_cpu_percent?labelSelector=workload%3Dweb,kind%3DJob"),
            404,
            "no usage",
        ),
        ("no workload", format!("{EXTERNAL}/plimsoll_cpu_percent"), 400, "workload=NAME"),
        (
            "another metric",
            format!("{EXTERNAL}/requests?labelSelector=workload%3Dweb"),
            404,
            "there is no metric",
        ),
    ] {
        let answer = running.get("hpa", &path).await;
        assert_eq!(answer.status, status, "{rule}: {answer:?}");
        assert!(answer.refusal().contains(said), "{rule}: {answer:?}");
    }
    let answer = running.get("hpa", &format!("{pods}/other/plimsoll_cpu_percent")).await;
    assert_eq!(answer.status, 404, "as metrics-server says");
    running.pods.0.lock().unwrap().incomplete = true;
    for path in [
        format!("{pods}/*/plimsoll_cpu_percent?labelSelector=app%3Dweb"),
        format!("{EXTERNAL}/plimsoll_cpu_percent?labelSelector=workload%3Dweb"),
    ] {
        assert_eq!(running.get("hpa", &path).await.status, 503);
    }
    running.stop().await;
}

#[tokio::test]
async fn one_pod_without_a_base_is_said() {
    let running = start().await;
    let mut broken = lowered("web", "b", "2", "500m");
    broken["spec"]["containers"][0]["resources"]["requests"] = json!({});
    running.put_pods(&[broken]);
    let path =
        format!("{CUSTOM}/v1beta2/namespaces/shop/pods/*/plimsoll_cpu_percent?labelSelector=app%3Dweb");
    let answer = running.get("hpa", &path).await;
    assert_eq!(answer.status, 404);
    assert!(answer.refusal().contains("pod b: container app has no cpu request"), "{answer:?}");
    running.stop().await;
}
