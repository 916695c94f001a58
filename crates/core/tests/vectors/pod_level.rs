//! Requests at the level of the pod.

use serde_json::{Value, json};

use crate::row::{CPU, CPU_1, MEMORY, POD_CPU, POD_MEMORY, row};
use crate::support::{after, container, limit_range, merged, objects, pod, profile, record, vector_spec};

#[test]
fn pod_level_vectors() {
    let factor = |factor: &str| json!({"static": {"factors": {"cpu": factor}}});
    let containers = |a: &str, b: &str| {
        json!([
            container("a", &json!({"cpu": a}), &Value::Null),
            container("b", &json!({"cpu": b}), &Value::Null)
        ])
    };
    for row in [
        row(
            "S20 containers down, pod up",
            pod(&json!({"resources": {"requests": {"cpu": "1"}}, "containers": containers("500m", "300m")})),
            &[(CPU, json!("166m")), (CPU_1, json!("99m")), (POD_CPU, json!("333m"))],
        )
        .spec(&factor("0.333")),
        row(
            "S26 a missing pod-level request beside pod-level limits is written",
            pod(&json!({"resources": {"limits": {"cpu": "2"}}, "containers": containers("500m", "300m")})),
            &[(CPU, json!("250m")), (CPU_1, json!("150m")), (POD_CPU, json!("400m"))],
        ),
        row(
            "S27 containers at the minimum hold the pod",
            pod(&json!({"resources": {"requests": {"cpu": "20m"}}, "containers": containers("10m", "10m")})),
            &[(CPU, json!("10m")), (CPU_1, json!("10m")), (POD_CPU, json!("20m"))],
        ),
        row(
            "no container requests: the pod-level limit counts",
            pod(&json!({"resources": {"limits": {"cpu": "2"}}, "containers": [{"name": "a"}]})),
            &[(POD_CPU, json!("1"))],
        ),
        row(
            "another resource's pod-level limit is enough",
            pod(&json!({"resources": {"limits": {"memory": "4Gi"}}, "containers": containers("500m", "300m")})),
            &[(CPU, json!("250m")), (POD_CPU, json!("400m")), (POD_MEMORY, json!("2868Mi"))],
        ),
        row(
            "pod-level memory, containers down to 1Mi",
            pod(&json!({"resources": {"requests": {"memory": "2Gi"}},
                "containers": [container("a", &json!({"memory": "1Gi"}), &Value::Null)]})),
            &[(MEMORY, json!("716Mi")), (POD_MEMORY, json!("1434Mi"))],
        ),
        row(
            "a pod-level request that the API server will set to 0 is not raised",
            pod(&json!({"resources": {"limits": {"cpu": "4"}},
                "containers": [container("a", &json!({"cpu": "0"}), &Value::Null)]})),
            &[(POD_CPU, Value::Null)],
        ),
        row(
            "a figure that is not lowered is left to the API server, with its containers",
            pod(&json!({"resources": {"limits": {"cpu": "4"}}, "containers": containers("500m", "300m")})),
            &[(CPU, json!("500m")), (POD_CPU, Value::Null)],
        )
        .with(limit_range("pods", &json!({"type": "Pod", "min": {"cpu": "800m"}}))),
        row(
            "a pod whose containers exceed it is the API server's to refuse",
            pod(&json!({"resources": {"requests": {"cpu": "100m"}}, "containers": containers("500m", "300m")})),
            &[(CPU, json!("500m")), (POD_CPU, json!("100m"))],
        )
        .spec(&factor("0.9")),
    ] {
        row.check();
    }
}

#[test]
fn a_sidecar_that_is_injected_after_us_fits_the_pod_level_request() {
    for opt_out in ["Pod", "None"] {
        let objects = objects(&[profile(&merged(&vector_spec(), &json!({"optOut": opt_out})))]);
        let before = pod(&json!({"resources": {"limits": {"cpu": "4"}},
            "containers": [container("app", &json!({"cpu": "100m"}), &Value::Null)]}));
        let (mut lowered, _) = after("first", &before, &objects);
        assert_eq!(lowered["spec"]["resources"]["requests"]["cpu"], "50m");
        let proxy = container("proxy", &json!({"cpu": "500m"}), &json!({"cpu": "2"}));
        lowered["spec"]["containers"].as_array_mut().unwrap().insert(0, proxy);
        let (patched, _) = after("with a sidecar", &lowered, &objects);
        assert_eq!(patched["spec"]["resources"]["requests"]["cpu"], "300m", "{opt_out}");
        assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "250m", "{opt_out}");
        assert_eq!(patched["spec"]["containers"][1]["resources"]["requests"]["cpu"], "50m", "{opt_out}");
        assert_eq!(record(&patched)["pod"]["requests"]["cpu"], "600m", "{opt_out}");
    }
}
