//! What is said about an autoscaler: of files, and of a cluster.

use serde_json::{Value, json};

use crate::api::{Api, hpa_path};
use crate::objects::{
    AS_WRITTEN, LOWERED, PodOf, average_value, cluster, deployment, hpa, namespace, pod, pod_metrics,
    profile, record, utilization,
};
use crate::{Run, plimsoll};

fn explain(objects: &[Value], arguments: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(folder.path().join("cluster.json"), list.to_string()).unwrap();
    plimsoll(folder.path(), &format!("hpa explain {arguments} --objects cluster.json"))
}

fn counts(run: &Run) -> [Value; 3] {
    let report = run.json();
    ["now", "untouched", "meant"].map(|view| report[view]["replicas"].clone())
}

#[test]
fn three_counts_of_ten_pods() {
    let mid_rollout = [[LOWERED; 5], [AS_WRITTEN; 5]].concat();
    let limit = json!({"basis": "Limit"});
    let of_limits = json!({"metrics": [{
        "type": "Resource", "resource": "cpu", "target": 80,
        "basis": "limit", "sum": "20", "pods": 10, "value": "1600m",
    }]});
    let plain = || hpa("web", &[utilization(80)], None);
    let converted = || hpa("web", &[average_value("800m")], Some(&record()));
    for (rule, pods, hpa, spec, expected) in [
        ("not lowered, not converted", vec![AS_WRITTEN; 10], plain(), json!({}), [7, 7, 7]),
        ("lowered, not converted", vec![LOWERED; 10], plain(), json!({}), [13, 13, 7]),
        ("Convert", vec![LOWERED; 10], converted(), json!({}), [7, 13, 7]),
        ("Convert, mid-rollout", mid_rollout, converted(), json!({}), [7, 9, 7]),
        (
            "Convert, basis Limit",
            vec![LOWERED; 10],
            hpa("web", &[average_value("1600m")], Some(&of_limits)),
            limit,
            [4, 13, 4],
        ),
        (
            "Shim, which this configuration does not serve",
            vec![LOWERED; 10],
            plain(),
            json!({"hpa": {"mode": "Shim"}}),
            [13, 13, 7],
        ),
        (
            "the author's own value",
            vec![LOWERED; 10],
            hpa("web", &[average_value("100m")], None),
            json!({}),
            [20; 3],
        ),
    ] {
        let run = explain(&cluster(&pods, hpa, profile(&spec)), "web -n shop -o json");
        assert_eq!(run.code, 0, "{rule}: {run:?}");
        assert_eq!(counts(&run), expected.map(Value::from), "{rule}: {}", run.out);
    }
}

#[test]
fn the_shim_scales_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let config = "hpa: {shim: {enabled: true}, api: {upstreamInsecureSkipVerify: true}}\n";
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    let value_beside = [utilization(80), average_value("600m")];
    for (rule, metrics, expected, told) in [
        ("a percentage", &[utilization(80)][..], [7, 13, 7], "is given usage times"),
        ("a value beside it: true usage", &value_beside, [13, 13, 9], "usage of cpu is told as it is"),
    ] {
        let objects =
            cluster(&[LOWERED; 10], hpa("web", metrics, None), profile(&json!({"hpa": {"mode": "Shim"}})));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(folder.path().join("cluster.json"), list.to_string()).unwrap();
        let arguments = "--config config.yaml hpa explain web -n shop --objects cluster.json -o json";
        let run = plimsoll(folder.path(), arguments);
        assert_eq!(run.code, 0, "{rule}: {run:?}");
        assert_eq!(counts(&run), expected.map(Value::from), "{rule}: {}", run.out);
        assert!(run.out.contains(told), "{rule}: {}", run.out);
    }
}

#[test]
fn several_percentages_of_one_metric_are_not_converted() {
    let metrics = [utilization(80), utilization(60)];
    let run =
        explain(&cluster(&[LOWERED; 2], hpa("web", &metrics, None), profile(&json!({}))), "web -n shop");
    assert_eq!(run.out.matches("there are several utilizations of it; keep one").count(), 2, "{run:?}");
}

#[test]
fn figures_and_record_are_an_interface() {
    let objects =
        cluster(&[LOWERED; 10], hpa("web", &[average_value("800m")], Some(&record())), profile(&json!({})));
    let report = explain(&objects, "web -n shop -o json").json();
    assert_eq!(report["hpa"], "shop/web");
    assert_eq!(report["target"], "Deployment shop/web");
    assert_eq!(report["replicas"], json!({"current": 10, "min": 1, "max": 30}));
    assert_eq!(report["pods"], json!({"found": 10, "counted": 10}));
    assert_eq!((&report["profile"], &report["mode"]), (&json!("shared-pool"), &json!("Convert")));
    let metric = &report["metrics"][0];
    assert_eq!(
        metric["record"],
        json!({"target": 80, "basis": "request", "sum": "10", "pods": 10, "value": "800m"})
    );
    assert_eq!(
        metric["now"],
        json!({
            "target": "800m", "usage": "500m", "divisor": "800m", "utilization": null, "ratio": 0.625,
            "replicas": 7, "measured": 10, "unready": 0, "missing": 0, "why": null,
        })
    );
    assert_eq!(
        metric["untouched"],
        json!({
            "target": "80 %", "usage": "500m", "divisor": "500m", "utilization": 100, "ratio": 1.25,
            "replicas": 13, "measured": 10, "unready": 0, "missing": 0, "why": null,
        })
    );
    assert_eq!((&metric["meant"]["divisor"], &metric["meant"]["utilization"]), (&json!("1"), &json!(50)));
    let yaml = explain(&objects, "web -n shop -o yaml");
    assert!(yaml.out.contains("hpa: shop/web"), "{yaml:?}");
}

#[test]
fn the_table_says_what_was_made_of_it() {
    let of = |pods: &[PodOf], hpa, spec: &Value| {
        let run = explain(&cluster(pods, hpa, profile(spec)), "web -n shop");
        assert!(run.err.is_empty(), "{run:?}");
        run
    };
    let converted = || hpa("web", &[average_value("800m")], Some(&record()));
    let two =
        |first: &str| PodOf { request: "500m", original: (first == "1").then_some("1"), usage: Some("400m") };
    let mut opted_out = hpa("web", &[utilization(80)], None);
    opted_out["metadata"]["annotations"] = json!({"plimsoll.dev/overcommit": "disabled"});
    let mut left_behind = converted();
    left_behind["metadata"]["annotations"]["plimsoll.dev/hpa-sync"] = json!("{}");
    for (rule, pods, hpa, spec, code, said) in [
        (
            "converted",
            vec![LOWERED; 10],
            converted(),
            json!({}),
            0,
            vec![
                "scales:  Deployment shop/web: 10 replicas, between 1 and 30",
                "mode:    Convert (profile shared-pool): its utilizations are kept as average values",
                "cpu: 80 % became 800m: by the mean original request of 10 pods, 10 together",
                "now:        7 replicas, by cpu",
                "untouched:  13 replicas, by cpu",
                "as meant:   7 replicas, by cpu",
            ],
        ),
        (
            "to be converted",
            vec![LOWERED; 10],
            hpa("web", &[utilization(80)], None),
            json!({}),
            0,
            vec![
                "cpu: not converted yet; to become 800m: by the mean original request of 10 pods, 10 together",
            ],
        ),
        (
            "out of date",
            vec![two("1"), two("500m")],
            converted(),
            json!({}),
            0,
            vec![
                "cpu: 80 % became 800m: by the mean original request of 10 pods, 10 together; to become 600m: by the mean original request of 2 pods, 1500m together",
            ],
        ),
        (
            "another mode",
            vec![LOWERED; 10],
            converted(),
            json!({"hpa": {"mode": "Off"}}),
            0,
            vec![
                "mode:    Off (profile shared-pool): its targets are as its author wrote them: its mode is Off",
                "; to be restored",
            ],
        ),
        (
            "the webhook was not called",
            vec![LOWERED; 10],
            left_behind,
            json!({}),
            0,
            vec!["note:    annotation plimsoll.dev/hpa-sync was not taken off"],
        ),
        ("opted out", vec![LOWERED; 10], opted_out, json!({}), 0, vec!["its annotation opts it out"]),
        (
            "the author's own value",
            vec![LOWERED; 10],
            hpa("web", &[average_value("100m")], None),
            json!({}),
            0,
            vec![
                "cpu: a value of its author's own; it is left alone",
                "it asks for 50, but more must not be added at once",
            ],
        ),
        (
            "a record that cannot be read",
            vec![LOWERED; 10],
            hpa("web", &[average_value("800m")], Some(&json!({"metrics": 3}))),
            json!({}),
            0,
            vec!["note:    annotation plimsoll.dev/hpa-original cannot be read"],
        ),
        (
            "pods that are not measured",
            vec![LOWERED, LOWERED, PodOf { usage: None, ..LOWERED }],
            converted(),
            json!({}),
            0,
            vec!["1 pod without metrics"],
        ),
        (
            "no metrics at all",
            vec![PodOf { usage: None, ..LOWERED }; 2],
            converted(),
            json!({}),
            1,
            vec![
                "now:        the controller cannot decide: cpu: there are no metrics of any pod",
                "note:    no metrics: the objects have no PodMetrics",
            ],
        ),
        (
            "no pods",
            vec![],
            hpa("web", &[utilization(80)], None),
            json!({}),
            0,
            vec!["now:        0 replicas, scaling is switched off, since the target has 0 replicas"],
        ),
    ] {
        let run = of(&pods, hpa, &spec);
        assert_eq!(run.code, code, "{rule}: {run:?}");
        for said in said {
            assert!(run.out.contains(said), "{rule}: {said:?} is not in:\n{}", run.out);
        }
    }
}

#[test]
fn a_missing_request_is_named() {
    let mut objects = cluster(&[LOWERED], hpa("web", &[utilization(80)], None), profile(&json!({})));
    let sidecar = json!({"name": "proxy", "resources": {}});
    for object in &mut objects {
        for pointer in ["/spec/containers", "/spec/template/spec/containers"] {
            if let Some(Value::Array(containers)) = object.pointer_mut(pointer) {
                containers.push(sidecar.clone());
            }
        }
    }
    let run = explain(&objects, "web -n shop");
    assert_eq!(run.code, 1, "{run:?}");
    for said in [
        "cpu: not converted: container proxy has no cpu request",
        "now:        the controller cannot decide: cpu: pod web-0: container proxy has no cpu request",
    ] {
        assert!(run.out.contains(said), "{said:?} is not in:\n{}", run.out);
    }
}

#[test]
fn other_metrics_are_not_looked_at() {
    let pods = json!({
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    });
    let of = |metrics: &[Value]| {
        explain(&cluster(&[LOWERED; 2], hpa("web", metrics, None), profile(&json!({}))), "web -n shop")
    };
    let run = of(&[pods.clone(), utilization(80)]);
    assert!(run.out.contains("note:    not looked at: spec.metrics[0] (Pods)"), "{run:?}");
    assert!(run.out.contains("now:        3 replicas, by cpu"), "{run:?}");
    let run = of(&[pods]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("the controller cannot decide: there is no cpu or memory metric"), "{run:?}");
}

#[test]
fn what_is_not_there_is_named() {
    let whole = || cluster(&[LOWERED; 2], hpa("web", &[utilization(80)], None), profile(&json!({})));
    let without = |kind: &str| {
        let mut objects = whole();
        objects.retain(|object| object["kind"] != kind);
        objects
    };
    let mut no_selector = whole();
    no_selector[2]["spec"]["selector"] = json!({});
    for (rule, objects, arguments, said) in [
        ("no such name", whole(), "api -n shop", "there is no HorizontalPodAutoscaler shop/api"),
        ("no such namespace", whole(), "web", "there is no HorizontalPodAutoscaler default/web"),
        (
            "no target",
            without("Deployment"),
            "web -n shop",
            "the controller cannot decide: its target Deployment shop/web is not among the objects",
        ),
        ("no selector", no_selector, "web -n shop", "its target Deployment shop/web has no selector"),
    ] {
        let run = explain(&objects, arguments);
        assert_eq!(run.code, 2, "{rule}: {run:?}");
        assert!(run.err.contains(said), "{rule}: {run:?}");
    }
    // A pod without status, and objects without a namespace, are as one writes them by hand.
    let mut by_hand =
        vec![namespace(), profile(&json!({})), deployment(1), hpa("web", &[utilization(80)], None)];
    by_hand.extend([pod(0, LOWERED), pod_metrics(0, "500m")]);
    for object in &mut by_hand {
        object.as_object_mut().unwrap().remove("status");
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    assert_eq!(counts(&explain(&by_hand, "web -n shop -o json")), [2, 2, 1].map(Value::from));
}

/// The same objects in an API server.
fn serve(objects: &[Value]) -> Api {
    let api = Api::start(true);
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = match object["kind"].as_str().unwrap() {
            "Namespace" => format!("/api/v1/namespaces/{name}"),
            "OvercommitProfile" => format!("/apis/plimsoll.dev/v1alpha1/overcommitprofiles/{name}"),
            "Deployment" => format!("/apis/apps/v1/namespaces/shop/deployments/{name}"),
            "Pod" => format!("/api/v1/namespaces/shop/pods/{name}"),
            "PodMetrics" => format!("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/{name}"),
            _ => hpa_path(name),
        };
        api.put(&path, object.clone());
    }
    let resources = json!([
        {"name": "deployments", "kind": "Deployment"},
        {"name": "deployments/scale", "kind": "Scale"},
    ]);
    api.put("/apis/apps/v1", json!({"kind": "APIResourceList", "resources": resources}));
    let scale = json!({"spec": {"replicas": 10}, "status": {"replicas": 10, "selector": "app=web"}});
    api.put("/apis/apps/v1/namespaces/shop/deployments/web/scale", scale);
    api
}

#[test]
fn a_cluster_says_the_same_as_files() {
    let objects =
        cluster(&[LOWERED; 10], hpa("web", &[average_value("800m")], Some(&record())), profile(&json!({})));
    let api = serve(&objects);
    let live = api.run("hpa explain web -o json");
    assert_eq!(live.code, 0, "{live:?}");
    assert_eq!(live.json(), explain(&objects, "web -n shop -o json").json());
    let pods = api.seen().into_iter().filter(|seen| seen.path.ends_with("/pods"));
    for seen in pods {
        assert_eq!(seen.query["labelSelector"], "app%3Dweb", "{seen:?}");
    }
    assert!(api.writes().is_empty());
}

#[test]
fn what_a_cluster_lacks_is_named() {
    let whole = cluster(&[LOWERED; 2], hpa("web", &[utilization(80)], None), profile(&json!({})));
    let of = |change: &dyn Fn(&Api), arguments: &str| {
        let api = serve(&whole);
        change(&api);
        api.run(&format!("hpa explain {arguments}"))
    };
    let target = |kind: &'static str, name: &'static str| {
        move |api: &Api| {
            let mut hpa = api.get(&hpa_path("web"));
            hpa["spec"]["scaleTargetRef"]["kind"] = json!(kind);
            hpa["spec"]["scaleTargetRef"]["name"] = json!(name);
            api.put(&hpa_path("web"), hpa);
        }
    };
    let scale = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
    for (rule, run, code, said) in [
        ("no such name", of(&|_| (), "api"), 2, "there is no HorizontalPodAutoscaler shop/api"),
        ("no such namespace", of(&|_| (), "web -n other"), 2, "there is no namespace other"),
        (
            "no target",
            of(&target("Deployment", "gone"), "web"),
            2,
            "the controller cannot decide: its target Deployment shop/gone is not there",
        ),
        (
            "no such kind",
            of(&target("Rollout", "web"), "web"),
            2,
            "the cluster has no kind Rollout of apps/v1",
        ),
        (
            "no scale",
            of(&|api| api.remove(scale), "web"),
            2,
            "its target Deployment shop/web has no scale subresource",
        ),
        (
            "no selector",
            of(&|api| api.put(scale, json!({"spec": {"replicas": 2}})), "web"),
            2,
            "the scale of its target Deployment shop/web has no status.selector",
        ),
        (
            "no metrics-server",
            of(
                &|api| {
                    for number in 0..2 {
                        api.remove(&format!(
                            "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-{number}"
                        ));
                    }
                },
                "web",
            ),
            1,
            "no metrics: metrics.k8s.io is not served; is metrics-server installed?",
        ),
    ] {
        assert_eq!(run.code, code, "{rule}: {run:?}");
        assert!(format!("{}{}", run.out, run.err).contains(said), "{rule}: {run:?}");
    }
}

#[test]
fn a_mode_that_the_configuration_does_not_serve_is_told() {
    let objects = cluster(&[LOWERED; 2], hpa("web", &[utilization(80)], None), profile(&json!({})));
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(folder.path().join("cluster.json"), list.to_string()).unwrap();
    std::fs::write(folder.path().join("config.yaml"), "hpa: {enabled: false}\n").unwrap();
    let run = plimsoll(folder.path(), "--config config.yaml hpa explain web -n shop --objects cluster.json");
    assert!(run.out.contains("note:    by this configuration mode Convert has no effect"), "{run:?}");
}
