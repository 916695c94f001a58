//! By factors, and within the bounds of namespaces.

use serde_json::{Value, json};

use crate::row::{CPU, CPU_1, INIT_CPU, MEMORY, POD_CPU, cpu, memory, row};
use crate::support::{app, container, limit_range, merged, pod};

#[test]
fn static_vectors() {
    let no_minimum = json!({"static": {"minimum": null, "roundingMemory": "1"}});
    let factor = |name: &str, factor: &str| json!({"static": {"factors": {name: factor}}});
    for row in [
        row("S1 half the request", app(&json!({"cpu": "1"}), &json!({"cpu": "2"})), &[(CPU, json!("500m"))]),
        row(
            "S2 cpu and memory, rounded up to 1Mi",
            app(&json!({"cpu": "1500m", "memory": "1Gi"}), &json!({"cpu": "1500m", "memory": "1Gi"})),
            &[(CPU, json!("750m")), (MEMORY, json!("717Mi"))],
        ),
        row("S3 below the minimum stays", cpu("3m"), &[(CPU, json!("3m"))]),
        row("S3 held at the minimum", cpu("15m"), &[(CPU, json!("10m"))]),
        row("S3 rounded up to milli", cpu("25m"), &[(CPU, json!("13m"))]),
        row("S4 no floating point", memory("100Gi"), &[(MEMORY, json!("29Gi"))])
            .spec(&factor("memory", "0.29"))
            .spec(&no_minimum),
        row("S5 a third", cpu("1"), &[(CPU, json!("333m"))]).spec(&factor("cpu", "0.333")),
        row("S5 a third, rounded up", cpu("1001m"), &[(CPU, json!("334m"))]).spec(&factor("cpu", "0.333")),
        row("S6 a decimal", cpu("0.1"), &[(CPU, json!("50m"))]),
        row("S6 a JSON number", app(&json!({"cpu": 1}), &Value::Null), &[(CPU, json!("500m"))]),
        row("S7 rounding would exceed it: text kept", memory("800Ki"), &[(MEMORY, json!("800Ki"))]),
        row("S9 limits only", app(&Value::Null, &json!({"cpu": "2"})), &[(CPU, json!("1"))]),
        row(
            "S10 extended resources and hugepages stay",
            app(&json!({"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "cpu": "1"}), &Value::Null),
            &[
                (CPU, json!("500m")),
                ("/containers/0/resources/requests/nvidia.com~1gpu", json!("1")),
                ("/containers/0/resources/requests/hugepages-2Mi", json!("4Mi")),
            ],
        ),
        row(
            "S21 a factor of 1 keeps a value near 2^63 milli",
            app(&json!({"memory": "92233720368547759"}), &json!({"memory": "92233720368547759"})),
            &[(MEMORY, json!("92233720368547759"))],
        )
        .spec(&factor("memory", "1")),
        row(
            "S21 half of it, rounded up to 1Mi",
            app(&json!({"memory": "92233720368547759"}), &json!({"memory": "92233720368547759"})),
            &[(MEMORY, json!("43980465112Mi"))],
        )
        .spec(&factor("memory", "0.5")),
        row("a request of 0 is none", cpu("0"), &[(CPU, json!("0"))]),
        row(
            "a value that stays keeps its text",
            app(&json!({"cpu": "0.5", "memory": "1.0Gi"}), &Value::Null),
            &[(MEMORY, json!("1.0Gi"))],
        )
        .spec(&factor("memory", "1")),
        row("finer than milli stays", cpu("100u"), &[(CPU, json!("100u"))]),
        row(
            "ephemeral-storage, up to whole bytes",
            app(&json!({"ephemeral-storage": "1001"}), &Value::Null),
            &[("/containers/0/resources/requests/ephemeral-storage", json!("501"))],
        )
        .spec(&factor("ephemeral-storage", "0.5")),
        row(
            "an unreadable request stays and does not disturb others",
            app(&json!({"cpu": "1x", "memory": "1Gi"}), &Value::Null),
            &[(CPU, json!("1x")), (MEMORY, json!("717Mi"))],
        ),
        row(
            "a request above its limit is the API server's to refuse",
            app(&json!({"cpu": "3"}), &json!({"cpu": "1"})),
            &[(CPU, json!("3"))],
        ),
        row(
            "null parents",
            pod(
                &json!({"containers": [{"name": "app", "resources": {"requests": null, "limits": {"cpu": "1"}}}]}),
            ),
            &[(CPU, json!("500m"))],
        ),
        row(
            "S22 a name of 63 characters",
            pod(&json!({"containers": [container(&"n".repeat(63), &json!({"cpu": "1"}), &Value::Null)]})),
            &[(CPU, json!("500m"))],
        ),
        row(
            "init containers and sidecars",
            pod(&json!({"containers": [container("app", &json!({"cpu": "1"}), &Value::Null)],
                "initContainers": [container("init", &json!({"cpu": "2"}), &Value::Null),
                    merged(&container("side", &json!({"cpu": "200m"}), &Value::Null), &json!({"restartPolicy": "Always"}))]})),
            &[
                (CPU, json!("500m")),
                (INIT_CPU, json!("1")),
                ("/initContainers/1/resources/requests/cpu", json!("100m")),
            ],
        ),
    ] {
        row.check();
    }
}

#[test]
fn limit_range_vectors() {
    let of_container = |name, item: Value| limit_range(name, &merged(&json!({"type": "Container"}), &item));
    let of_pod = |item: Value| limit_range("pods", &merged(&json!({"type": "Pod"}), &item));
    let quarter = json!({"static": {"factors": {"cpu": "0.25"}}});
    let two = |a: &str, b: &str| {
        pod(&json!({"containers": [container("a", &json!({"cpu": a}), &Value::Null),
            container("b", &json!({"cpu": b}), &Value::Null)]}))
    };
    for row in [
        row("S11 minimum", cpu("1"), &[(CPU, json!("600m"))])
            .with(of_container("a", json!({"min": {"cpu": "600m"}}))),
        row("S12 the highest of two minima", cpu("300m"), &[(CPU, json!("200m"))])
            .with(of_container("a", json!({"min": {"cpu": "100m"}})))
            .with(of_container("b", json!({"min": {"cpu": "200m"}}))),
        row("S13 ratio met", app(&json!({"cpu": "1"}), &json!({"cpu": "1"})), &[(CPU, json!("500m"))])
            .with(of_container("a", json!({"maxLimitRequestRatio": {"cpu": "2"}}))),
        row("S13 ratio holds", app(&json!({"cpu": "1"}), &json!({"cpu": "1"})), &[(CPU, json!("500m"))])
            .spec(&quarter)
            .with(of_container("a", json!({"maxLimitRequestRatio": {"cpu": "2"}}))),
        row(
            "a ratio that does not divide is rounded up to milli",
            app(&json!({"cpu": "1"}), &json!({"cpu": "1"})),
            &[(CPU, json!("334m"))],
        )
        .spec(&quarter)
        .with(of_container("a", json!({"maxLimitRequestRatio": {"cpu": "3"}}))),
        row("memory is not rounded to roundingMemory again", memory("100Mi"), &[(MEMORY, json!("84410369"))])
            .with(of_container("a", json!({"min": {"memory": "84410369"}}))),
        row("a minimum above the original: the resource stays", cpu("1"), &[(CPU, json!("1"))])
            .with(of_container("a", json!({"min": {"cpu": "2"}}))),
        row(
            "only that resource stays",
            app(&json!({"cpu": "1", "memory": "1Gi"}), &Value::Null),
            &[(CPU, json!("1")), (MEMORY, json!("717Mi"))],
        )
        .with(of_container("a", json!({"min": {"cpu": "2"}}))),
        row(
            "init containers too",
            pod(&json!({"containers": [{"name": "app"}],
                "initContainers": [container("init", &json!({"cpu": "1"}), &Value::Null)]})),
            &[(INIT_CPU, json!("600m"))],
        )
        .with(of_container("a", json!({"min": {"cpu": "600m"}}))),
        row(
            "a pod's minimum is given back by index",
            two("1", "1"),
            &[(CPU, json!("1")), (CPU_1, json!("700m"))],
        )
        .with(of_pod(json!({"min": {"cpu": "1700m"}}))),
        row("a pod's minimum that is met", two("1", "1"), &[(CPU, json!("500m")), (CPU_1, json!("500m"))])
            .with(of_pod(json!({"min": {"cpu": "1"}}))),
        row(
            "a pod's ratio",
            pod(&json!({"containers": [container("a", &json!({"cpu": "1"}), &json!({"cpu": "2"})),
                container("b", &json!({"cpu": "1"}), &json!({"cpu": "2"}))]})),
            &[(CPU, json!("800m")), (CPU_1, json!("500m"))],
        )
        .spec(&json!({}))
        .with(of_pod(json!({"maxLimitRequestRatio": {"cpu": "3.077"}}))),
        row(
            "app containers first, then sidecars",
            pod(&json!({"containers": [container("a", &json!({"cpu": "1"}), &Value::Null)],
                "initContainers": [merged(&container("side", &json!({"cpu": "1"}), &Value::Null),
                    &json!({"restartPolicy": "Always"}))]})),
            &[(CPU, json!("1")), (INIT_CPU, json!("600m"))],
        )
        .with(of_pod(json!({"min": {"cpu": "1600m"}}))),
        row(
            "a large init container already meets a pod's minimum",
            pod(&json!({"containers": [container("a", &json!({"cpu": "1"}), &Value::Null)],
                "initContainers": [container("init", &json!({"cpu": "4"}), &Value::Null)]})),
            &[(CPU, json!("500m")), (INIT_CPU, json!("2"))],
        )
        .with(of_pod(json!({"min": {"cpu": "2"}}))),
        row(
            "an init container that made the sum is raised where the others cannot reach it",
            pod(&json!({"containers": [container("a", &json!({"cpu": "1"}), &Value::Null)],
                "initContainers": [container("init", &json!({"cpu": "4"}), &Value::Null)]})),
            &[(CPU, json!("500m")), (INIT_CPU, json!("3"))],
        )
        .with(of_pod(json!({"min": {"cpu": "3"}}))),
        row(
            "a pod-level value replaces the sum",
            pod(&json!({"resources": {"requests": {"cpu": "2"}},
                "containers": [container("a", &json!({"cpu": "1"}), &Value::Null)]})),
            &[(CPU, json!("500m")), (POD_CPU, json!("1500m"))],
        )
        .with(of_pod(json!({"min": {"cpu": "1500m"}}))),
    ] {
        row.check();
    }
}
