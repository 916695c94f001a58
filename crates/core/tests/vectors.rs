//! The vectors of the specification, one row each, and rows of the same kind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table is long; a test that fails this way says where"
)]

mod support;

use serde_json::{Value, json};
use support::{
    after, app, apply, container, figures, judge, limit_range, merged, objects, pod, profile, recommendation,
    record, vector_spec,
};

struct Row {
    rule: &'static str,
    spec: Value,
    others: Vec<Value>,
    pod: Value,
    /// JSON pointer below `/spec` and the expected text there.
    expected: Vec<(&'static str, Value)>,
}

fn row(rule: &'static str, pod: Value, expected: &[(&'static str, Value)]) -> Row {
    Row { rule, spec: vector_spec(), others: vec![], pod, expected: expected.to_vec() }
}

impl Row {
    fn spec(mut self, over: &Value) -> Self {
        self.spec = merged(&self.spec, over);
        self
    }

    fn with(mut self, other: Value) -> Self {
        self.others.push(other);
        self
    }

    fn check(self) {
        let mut manifests = vec![profile(&self.spec)];
        manifests.extend(self.others);
        let (patched, _) = after(self.rule, &self.pod, &objects(&manifests));
        for (pointer, expected) in self.expected {
            let found = patched["spec"].pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, &expected, "{}: {pointer} in {patched:#}", self.rule);
        }
    }
}

const CPU: &str = "/containers/0/resources/requests/cpu";
const MEMORY: &str = "/containers/0/resources/requests/memory";
const CPU_1: &str = "/containers/1/resources/requests/cpu";
const INIT_CPU: &str = "/initContainers/0/resources/requests/cpu";
const POD_CPU: &str = "/resources/requests/cpu";
const POD_MEMORY: &str = "/resources/requests/memory";

fn cpu(request: &str) -> Value {
    app(&json!({"cpu": request}), &Value::Null)
}

fn memory(request: &str) -> Value {
    app(&json!({"memory": request}), &Value::Null)
}

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
fn s8_no_resources_no_patch() {
    let objects = objects(&[profile(&vector_spec())]);
    for bare in [
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "a", "resources": {}}]}),
        json!({"containers": []}),
        json!({}),
    ] {
        assert_eq!(judge(&pod(&bare), &objects).answer.patch, vec![], "{bare}");
    }
}

#[test]
fn s1_records_the_original() {
    let (patched, decision) =
        after("S1", &app(&json!({"cpu": "1"}), &json!({"cpu": "2"})), &objects(&[profile(&vector_spec())]));
    let annotations = &patched["metadata"]["annotations"];
    assert_eq!(
        annotations["plimsoll.dev/original-resources"],
        r#"{"basis":"request","containers":{"app":{"limits":{"cpu":"2"},"requests":{"cpu":"1"},"set":{"cpu":"500m"}}},"profile":"shared-pool"}"#
    );
    assert_eq!(annotations["plimsoll.dev/applied"], "static(shared-pool): app cpu 1 -> 500m");
    let paths: Vec<_> = decision.answer.patch.iter().map(plimsoll_core::admission::Operation::path).collect();
    assert_eq!(paths, ["/spec/containers/0/resources/requests/cpu", "/metadata/annotations"]);
}

#[test]
fn s14_annotations_of_others_are_kept() {
    let mut before = app(&json!({"cpu": "1"}), &Value::Null);
    before["metadata"]["annotations"] = json!({"a/b~c": "kept"});
    let (patched, decision) = after("S14", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(patched["metadata"]["annotations"]["a/b~c"], "kept");
    let paths: Vec<_> = decision.answer.patch.iter().map(plimsoll_core::admission::Operation::path).collect();
    assert_eq!(
        paths,
        [
            "/spec/containers/0/resources/requests/cpu",
            "/metadata/annotations/plimsoll.dev~1applied",
            "/metadata/annotations/plimsoll.dev~1original-resources"
        ]
    );
    before["metadata"]["annotations"] = Value::Null;
    let (patched, _) = after("S14 null", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(record(&patched)["containers"]["app"]["requests"]["cpu"], "1");
}

#[test]
fn what_comes_back_after_us() {
    let objects = objects(&[profile(&vector_spec())]);
    let s1 = app(&json!({"cpu": "1"}), &json!({"cpu": "4"}));
    let lowered = apply(&s1, &judge(&s1, &objects));
    let changed = |edit: &dyn Fn(&mut Value)| {
        let mut pod = lowered.clone();
        edit(&mut pod);
        after("comes back", &pod, &objects).0
    };

    let with_sidecar = changed(&|pod| {
        let side = container("side", &json!({"cpu": "200m"}), &Value::Null);
        pod["spec"]["containers"].as_array_mut().unwrap().insert(0, side);
    });
    assert_eq!(with_sidecar["spec"]["containers"][0]["resources"]["requests"]["cpu"], "100m", "S16 lowered");
    assert_eq!(
        with_sidecar["spec"]["containers"][1]["resources"]["requests"]["cpu"], "500m",
        "S16 untouched"
    );
    assert_eq!(record(&with_sidecar)["containers"]["side"]["requests"]["cpu"], "200m", "S16 recorded");
    assert_eq!(record(&with_sidecar)["containers"]["app"]["requests"]["cpu"], "1", "S16 still recorded");

    let vpa = changed(&|pod| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("700m");
        pod["metadata"]["annotations"]["vpaUpdates"] =
            json!("Pod resources updated by v: container 0: cpu request");
    });
    assert_eq!(vpa["spec"]["containers"][0]["resources"]["requests"]["cpu"], "700m", "S23");
    assert_eq!(
        vpa["metadata"]["annotations"],
        json!({"vpaUpdates": "Pod resources updated by v: container 0: cpu request"}),
        "S23 our annotations are removed"
    );

    let edited = changed(&|pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3"));
    assert_eq!(
        edited["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1500m",
        "S24 a new original"
    );
    assert_eq!(record(&edited)["containers"]["app"]["requests"]["cpu"], "3", "S24");

    let limit = changed(&|pod| pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("8"));
    assert_eq!(limit["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m", "S25");
    assert_eq!(record(&limit)["containers"]["app"]["requests"]["cpu"], "1", "S25");

    let capped = changed(&|pod| pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("600m"));
    assert_eq!(
        capped["spec"]["containers"][0]["resources"]["requests"]["cpu"], "300m",
        "the original is capped by a later, lower limit"
    );
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

#[test]
fn where_nobody_may_opt_out_a_sum_that_moved_is_no_forgery() {
    let spec = merged(&vector_spec(), &json!({"optOut": "None"}));
    let range = limit_range("pods", &json!({"type": "Pod", "min": {"cpu": "1500m"}}));
    let objects = objects(&[profile(&spec), range]);
    let (mut lowered, _) = after("first", &app(&json!({"cpu": "2"}), &Value::Null), &objects);
    assert_eq!(lowered["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1500m");
    let side = container("side", &json!({"cpu": "1"}), &Value::Null);
    lowered["spec"]["containers"].as_array_mut().unwrap().insert(0, side);
    let (patched, _) = after("with a sidecar", &lowered, &objects);
    assert_eq!(record(&patched)["containers"]["app"]["requests"]["cpu"], "2", "the original is kept");
    assert_eq!(patched["spec"]["containers"][1]["resources"]["requests"]["cpu"], "1");
}

#[test]
fn a_number_that_a_parser_rounded_is_not_a_request() {
    let text = r#"{"metadata": {}, "spec": {"containers": [{"name": "a",
        "resources": {"requests": {"memory": 36893488147419103233, "cpu": "\t1"}}}]}}"#;
    let before: Value = serde_json::from_str(text).unwrap();
    let (patched, decision) = after("rounded", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(decision.answer.patch, vec![], "{patched}");
}

#[test]
fn a_pod_of_many_containers_is_judged() {
    let containers: Vec<Value> = (0..20_000)
        .map(|index| container(&format!("c{index}"), &json!({"cpu": "1"}), &Value::Null))
        .collect();
    let before = pod(&json!({"resources": {"limits": {"cpu": "40k"}}, "containers": containers}));
    let decision = judge(&before, &objects(&[profile(&vector_spec())]));
    assert_eq!(decision.plan.lines.len(), 20_001);
    assert!(decision.answer.patch.is_empty(), "there is no room to record so many originals");
}

#[test]
fn d6_a_copy_of_a_lowered_pod_is_computed_from_its_original() {
    let s1 = app(&json!({"cpu": "1"}), &json!({"cpu": "2"}));
    let lowered = apply(&s1, &judge(&s1, &objects(&[profile(&vector_spec())])));
    let dynamic = objects(&[
        profile(&merged(&vector_spec(), &json!({"mode": "Dynamic"}))),
        recommendation(&json!([figures("app", &json!({"cpu": "0.3"}))]), &json!({})),
    ]);
    let (patched, _) = after("D6", &lowered, &dynamic);
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "345m");
    assert_eq!(record(&patched)["containers"]["app"]["requests"]["cpu"], "1");
}

#[test]
fn d2_has_no_annotation() {
    let dynamic = objects(&[
        profile(&merged(&vector_spec(), &json!({"mode": "Dynamic"}))),
        recommendation(&json!([figures("app", &json!({"cpu": "1.9"}))]), &json!({})),
    ]);
    assert_eq!(judge(&app(&json!({"cpu": "2"}), &Value::Null), &dynamic).answer.patch, vec![]);
}

#[test]
fn s18_unknown_fields_and_claims_survive() {
    let mut before = app(&json!({"cpu": "1"}), &Value::Null);
    before["spec"]["futureField"] = json!({"a": 1});
    before["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    let (patched, _) = after("S18", &before, &objects(&[profile(&vector_spec())]));
    assert_eq!(patched["spec"]["futureField"], json!({"a": 1}));
    assert_eq!(patched["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]));
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
}

#[test]
fn forged_or_broken_records_never_lift_a_request() {
    let objects = objects(&[profile(&vector_spec())]);
    let forged = |text: &str| {
        let mut pod = app(&json!({"cpu": "500m"}), &json!({"cpu": "1"}));
        pod["metadata"]["annotations"] = json!({"plimsoll.dev/original-resources": text});
        after(text, &pod, &objects).0["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone()
    };
    for (rule, text, expected) in [
        ("not JSON", "{", "250m"),
        ("another shape", "[1]", "250m"),
        ("a record of numbers", r#"{"containers":{"app":{"requests":{"cpu":1},"set":{"cpu":0.5}}}}"#, "250m"),
        (
            "set is not the request",
            r#"{"containers":{"app":{"requests":{"cpu":"1"},"set":{"cpu":"400m"}}}}"#,
            "250m",
        ),
        (
            "recorded below set",
            r#"{"containers":{"app":{"requests":{"cpu":"400m"},"set":{"cpu":"500m"}}}}"#,
            "250m",
        ),
        (
            "recorded above the limit is capped by it",
            r#"{"containers":{"app":{"requests":{"cpu":"100"},"set":{"cpu":"500m"}}}}"#,
            "500m",
        ),
        ("negative", r#"{"containers":{"app":{"requests":{"cpu":"-1"},"set":{"cpu":"500m"}}}}"#, "250m"),
        ("not a quantity", r#"{"containers":{"app":{"requests":{"cpu":"x"},"set":{"cpu":"500m"}}}}"#, "250m"),
    ] {
        assert_eq!(forged(text), expected, "{rule}");
    }
}

#[test]
fn where_nobody_may_opt_out_only_our_own_result_is_believed() {
    let objects = objects(&[profile(&merged(&vector_spec(), &json!({"optOut": "None"})))]);
    let s1 = app(&json!({"cpu": "1"}), &json!({"cpu": "2"}));
    // Our own result needs nothing: `after` sends it in again.
    let (lowered, _) = after("our own result", &s1, &objects);
    assert_eq!(lowered["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");

    let mut forged = s1.clone();
    forged["metadata"]["annotations"] = json!({"plimsoll.dev/original-resources":
        r#"{"containers":{"app":{"requests":{"cpu":"1"},"set":{"cpu":"1"}}}}"#});
    let (patched, _) = after("a record that would escape", &forged, &objects);
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");

    let mut vpa = s1;
    vpa["metadata"]["annotations"] =
        json!({"vpaUpdates": "Pod resources updated by v: container 0: cpu request"});
    let (patched, _) = after("vpaUpdates", &vpa, &objects);
    assert_eq!(patched["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
}
