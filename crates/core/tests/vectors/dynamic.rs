//! By recommendations.

use serde_json::{Value, json};

use crate::row::{CPU, CPU_1, MEMORY, POD_CPU, row};
use crate::support::{
    app, container, figures, judge, merged, objects, pod, profile, recommendation, vector_spec,
};

#[test]
fn dynamic_vectors() {
    let dynamic = json!({"mode": "Dynamic"});
    let both = json!({"mode": "StaticThenDynamic"});
    let two = || app(&json!({"cpu": "2"}), &Value::Null);
    let s1 = || app(&json!({"cpu": "1"}), &json!({"cpu": "2"}));
    let rec = |targets: Value| recommendation(&json!([figures("app", &targets)]), &json!({}));
    let young = || {
        let mut one = figures("app", &json!({"cpu": "300m"}));
        one["firstSample"] = json!("2026-03-10T00:00:00Z");
        recommendation(&json!([one]), &json!({}))
    };
    let old = || {
        let mut one = figures("app", &json!({"cpu": "300m"}));
        one["firstSample"] = json!("2026-02-20T00:00:00Z");
        one["lastSample"] = json!("2026-03-02T12:00:00Z");
        recommendation(&json!([one]), &json!({}))
    };
    for row in [
        row("D1 target times expansion", two(), &[(CPU, json!("920m"))]).spec(&dynamic).with(rec(json!({"cpu": "0.8"}))),
        row("D2 above the original: the original", two(), &[(CPU, json!("2"))])
            .spec(&dynamic)
            .with(rec(json!({"cpu": "1.9"}))),
        row(
            "D3 memory left out",
            app(&json!({"cpu": "2", "memory": "1Gi"}), &Value::Null),
            &[(CPU, json!("920m")), (MEMORY, json!("1Gi"))],
        )
        .spec(&json!({"mode": "Dynamic", "dynamic": {"resources": ["cpu"]}}))
        .with(rec(json!({"cpu": "0.8", "memory": "100Mi"}))),
        row("D4 no recommendation: static", s1(), &[(CPU, json!("500m"))]).spec(&both),
        row("D4 too young: static", s1(), &[(CPU, json!("500m"))]).spec(&both).with(young()),
        row("too old: static", s1(), &[(CPU, json!("500m"))]).spec(&both).with(old()),
        row("too young, Dynamic: the original", s1(), &[(CPU, json!("1"))]).spec(&dynamic).with(young()),
        row(
            "D5 one container has one, the other not",
            pod(&json!({"containers": [container("app", &json!({"cpu": "2"}), &Value::Null),
                container("new", &json!({"cpu": "1"}), &Value::Null)]})),
            &[(CPU, json!("920m")), (CPU_1, json!("500m"))],
        )
        .spec(&both)
        .with(recommendation(
            &json!([figures("app", &json!({"cpu": "800m"})), figures("side", &json!({"cpu": "1"}))]),
            &json!({}),
        )),
        row(
            "StaticThenDynamic: a resource that is not dynamic stays static",
            app(&json!({"cpu": "2", "memory": "1Gi"}), &Value::Null),
            &[(CPU, json!("920m")), (MEMORY, json!("717Mi"))],
        )
        .spec(&json!({"mode": "StaticThenDynamic", "dynamic": {"resources": ["cpu"]}}))
        .with(rec(json!({"cpu": "0.8", "memory": "100Mi"}))),
        row("D7 exact product", two(), &[(CPU, json!("1170m"))]).spec(&dynamic).with(rec(json!({"cpu": "1017m"}))),
        row("margin after expansion", two(), &[(CPU, json!("970m"))])
            .spec(&json!({"mode": "Dynamic", "dynamic": {"margin": {"cpu": "50m"}}}))
            .with(rec(json!({"cpu": "800m"}))),
        row("a given expansion map replaces the default", two(), &[(CPU, json!("800m"))])
            .spec(&json!({"mode": "Dynamic", "dynamic": {"expansion": {}}}))
            .with(rec(json!({"cpu": "800m"}))),
        row("an idle container keeps the minimum", two(), &[(CPU, json!("10m"))])
            .spec(&dynamic)
            .with(rec(json!({"cpu": "0"}))),
        row("made for another profile", two(), &[(CPU, json!("2"))]).spec(&dynamic).with(recommendation(
            &json!([figures("app", &json!({"cpu": "800m"}))]),
            &json!({"spec": {"profile": "other"}}),
        )),
        row("about the namespace", two(), &[(CPU, json!("920m"))]).spec(&dynamic).with(recommendation(
            &json!([figures("app", &json!({"cpu": "800m"}))]),
            &json!({"spec": {"targetRef": {"kind": "Namespace", "name": "shop"}}}),
        )),
        row("the workload's before the namespace's", two(), &[(CPU, json!("460m"))])
            .spec(&dynamic)
            .with(recommendation(
                &json!([figures("app", &json!({"cpu": "800m"}))]),
                &json!({"metadata": {"name": "a"}, "spec": {"targetRef": {"kind": "Namespace", "name": "shop"}}}),
            ))
            .with(rec(json!({"cpu": "400m"}))),
        row("the pod's own only at granularity Pod", two(), &[(CPU, json!("115m"))])
            .spec(&json!({"mode": "Dynamic", "dynamic": {"granularity": "Pod"}}))
            .with(rec(json!({"cpu": "400m"})))
            .with(recommendation(
                &json!([figures("app", &json!({"cpu": "100m"}))]),
                &json!({"metadata": {"name": "own"}, "spec": {"podName": "p"}}),
            )),
        row(
            "pod-level: the sum of what the containers need",
            pod(&json!({"resources": {"requests": {"cpu": "4"}}, "containers": [
                container("app", &json!({"cpu": "2"}), &Value::Null), {"name": "free"}]})),
            &[(CPU, json!("920m")), (POD_CPU, json!("1035m"))],
        )
        .spec(&dynamic)
        .with(recommendation(
            &json!([figures("app", &json!({"cpu": "800m"})), figures("free", &json!({"cpu": "100m"}))]),
            &json!({}),
        )),
        row(
            "pod-level: one container without a recommendation, Dynamic: the original",
            pod(&json!({"resources": {"requests": {"cpu": "4"}}, "containers": [
                container("app", &json!({"cpu": "2"}), &Value::Null), {"name": "free"}]})),
            &[(POD_CPU, json!("4"))],
        )
        .spec(&dynamic)
        .with(rec(json!({"cpu": "800m"}))),
        row(
            "pod-level: one container without a recommendation, StaticThenDynamic: static",
            pod(&json!({"resources": {"requests": {"cpu": "4"}}, "containers": [
                container("app", &json!({"cpu": "2"}), &Value::Null), {"name": "free"}]})),
            &[(POD_CPU, json!("2"))],
        )
        .spec(&both)
        .with(rec(json!({"cpu": "800m"}))),
    ] {
        row.check();
    }
}

#[test]
fn d2_has_no_annotation() {
    let dynamic = objects(&[
        profile(&merged(&vector_spec(), &json!({"mode": "Dynamic"}))),
        recommendation(&json!([figures("app", &json!({"cpu": "1.9"}))]), &json!({})),
    ]);
    assert_eq!(judge(&app(&json!({"cpu": "2"}), &Value::Null), &dynamic).answer.patch, vec![]);
}
