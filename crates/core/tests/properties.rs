//! What must hold for every pod, profile, `LimitRange` and recommendation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

mod support;

use plimsoll_core::objects::Objects;
use plimsoll_core::overcommit::Target;
use plimsoll_core::pod::{Part, aggregate, default_requests};
use plimsoll_quantity::Quantity;
use proptest::collection::vec;
use proptest::option::{self, of, weighted};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use support::{apply, judge, limit_range, objects, profile, recommendation};

const CPU: [&str; 12] = ["0", "1m", "3m", "10m", "0.1", "250m", "333m", "1", "1.5", "2e-1", "4", "+8"];
const MEMORY: [&str; 9] = ["1", "800Ki", "16Mi", "100M", "0.3Gi", "1Gi", "1.5Gi", "128974848000m", "8Gi"];

fn amounts() -> impl Strategy<Value = Value> {
    (weighted(0.7, select(&CPU[..])), weighted(0.6, select(&MEMORY[..]))).prop_map(|(cpu, memory)| {
        let mut list = json!({});
        for (name, amount) in [("cpu", cpu), ("memory", memory)] {
            if let Some(amount) = amount {
                list[name] = json!(amount);
            }
        }
        list
    })
}

fn resources() -> impl Strategy<Value = Value> {
    (of(amounts()), of(amounts())).prop_map(|(requests, limits)| {
        let mut resources = json!({"claims": [{"name": "gpu"}]});
        if let Some(requests) = requests {
            resources["requests"] = requests;
        }
        if let Some(limits) = limits {
            resources["limits"] = limits;
        }
        resources
    })
}

fn containers(prefix: &'static str, up_to: usize) -> impl Strategy<Value = Value> {
    vec((resources(), any::<bool>()), 0..=up_to).prop_map(move |all| {
        all.into_iter()
            .enumerate()
            .map(|(index, (resources, sidecar))| {
                let mut container =
                    json!({"name": format!("{prefix}{index}"), "image": "i", "resources": resources});
                if sidecar && prefix == "init" {
                    container["restartPolicy"] = json!("Always");
                }
                container
            })
            .collect()
    })
}

fn record() -> impl Strategy<Value = Value> {
    (amounts(), amounts(), select(&["app0", "init0", "x"][..])).prop_map(|(requests, set, name)| {
        json!({"containers": {name: {"requests": requests, "set": set}},
            "initContainers": {name: {"requests": requests, "set": set}},
            "pod": {"requests": requests, "set": set}})
    })
}

fn pods() -> impl Strategy<Value = Value> {
    (
        containers("app", 3),
        containers("init", 3),
        weighted(0.3, resources()),
        weighted(0.3, record()),
        weighted(0.1, select(&["cpu request", "memory request", "cpu request, memory request"][..])),
    )
        .prop_map(|(app, init, pod_level, record, vpa)| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"},
                "spec": {"containers": app, "initContainers": init, "nodeName": "n"}});
            if let Some(resources) = pod_level {
                pod["spec"]["resources"] = resources;
            }
            let mut annotations = json!({"other/key": "kept"});
            if let Some(record) = record {
                annotations["plimsoll.dev/original-resources"] = json!(record.to_string());
            }
            if let Some(vpa) = vpa {
                annotations["vpaUpdates"] = json!(format!("Pod resources updated by v: container 0: {vpa}"));
            }
            pod["metadata"]["annotations"] = annotations;
            pod
        })
}

fn specs() -> impl Strategy<Value = Value> {
    let factor = || select(&["0.001", "0.1", "0.333", "0.5", "0.9", "1", "1.0"][..]);
    (
        select(&["Static", "Dynamic", "StaticThenDynamic"][..]),
        of(factor()),
        of(factor()),
        option::of(select(&["1", "1Mi", "3Mi", "1000000"][..])),
        of(Just(json!({}))),
        select(&["Pod", "Namespace", "None"][..]),
        select(&["Pod", "Workload"][..]),
    )
        .prop_map(|(mode, cpu, memory, rounding, minimum, opt_out, granularity)| {
            let mut fixed = json!({"factors": {}});
            for (name, factor) in [("cpu", cpu), ("memory", memory)] {
                if let Some(factor) = factor {
                    fixed["factors"][name] = json!(factor);
                }
            }
            if let Some(rounding) = rounding {
                fixed["roundingMemory"] = json!(rounding);
            }
            if let Some(minimum) = minimum {
                fixed["minimum"] = minimum;
            }
            json!({"mode": mode, "static": fixed, "optOut": opt_out, "dynamic": {"granularity": granularity}})
        })
}

fn ranges() -> impl Strategy<Value = Vec<Value>> {
    let ratio = || {
        weighted(0.4, select(&["1", "1.5", "2", "3.3", "10"][..]))
            .prop_map(|ratio| ratio.map_or(json!({}), |ratio| json!({"cpu": ratio, "memory": ratio})))
    };
    vec((select(&["Container", "Pod"][..]), weighted(0.5, amounts()), ratio()), 0..3).prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(index, (kind, min, ratio))| {
                let item =
                    json!({"type": kind, "min": min.unwrap_or_default(), "maxLimitRequestRatio": ratio});
                limit_range(&format!("r{index}"), &item)
            })
            .collect()
    })
}

fn recommendations() -> impl Strategy<Value = Vec<Value>> {
    vec((select(&["app0", "app1", "init0"][..]), amounts()), 0..3).prop_map(|all| {
        let containers: Vec<Value> =
            all.iter().map(|(name, targets)| support::figures(name, targets)).collect();
        vec![recommendation(&json!(containers), &json!({}))]
    })
}

fn clusters() -> impl Strategy<Value = (Objects, Value, Vec<Value>)> {
    (specs(), ranges(), recommendations()).prop_map(|(spec, ranges, recommendations)| {
        let all: Vec<Value> =
            [profile(&spec)].into_iter().chain(ranges.clone()).chain(recommendations).collect();
        (objects(&all), spec, ranges)
    })
}

fn amount(list: &Value, name: &str) -> Option<i128> {
    list.get(name).map(|value| serde_json::from_value::<Quantity>(value.clone()).unwrap().nanos())
}

/// The pod's containers and their parts.
fn parts(pod: &Value) -> Vec<(Part, &Value)> {
    let init = pod["spec"]["initContainers"].as_array().unwrap().iter().map(|container| {
        let sidecar = container["restartPolicy"] == "Always";
        (if sidecar { Part::Sidecar } else { Part::Init }, &container["resources"])
    });
    let app = pod["spec"]["containers"].as_array().unwrap();
    app.iter().map(|container| (Part::App, &container["resources"])).chain(init).collect()
}

/// The pod as the API server completes it.
fn completed(pod: &Value) -> Value {
    let mut pod = pod.clone();
    default_requests(&mut pod);
    let limits = pod["spec"]["resources"]["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return pod;
    }
    for name in ["cpu", "memory"] {
        if amount(&pod["spec"]["resources"]["requests"], name).is_some() {
            continue;
        }
        let requests: Vec<_> = parts(&pod)
            .iter()
            .filter_map(|(part, resources)| Some((*part, amount(&resources["requests"], name)?)))
            .collect();
        let value = if requests.is_empty() {
            limits.get(name).cloned()
        } else {
            let sum = aggregate(requests).unwrap();
            Some(json!(Quantity::from_nanos(sum, plimsoll_quantity::Format::DecimalSi).to_string()))
        };
        if let Some(value) = value {
            pod["spec"]["resources"]["requests"][name] = value;
        }
    }
    pod
}

/// Whether the API server would accept the resources of a completed pod, as far as requests matter.
fn acceptable(pod: &Value, ranges: &[Value]) -> bool {
    ["cpu", "memory"].into_iter().all(|name| {
        let sum = |part: &str| {
            aggregate(parts(pod).iter().map(|(kind, r)| (*kind, amount(&r[part], name).unwrap_or(0))))
                .unwrap()
        };
        let level = &pod["spec"]["resources"];
        let within = |list: &Value| match (amount(&list["requests"], name), amount(&list["limits"], name)) {
            (Some(request), Some(limit)) => request <= limit,
            _ => true,
        };
        let pod_request = amount(&level["requests"], name);
        let by_range = |range: &Value| {
            let item = &range["spec"]["limits"][0];
            let check = |request: Option<i128>, limit: Option<i128>| {
                let min = amount(&item["min"], name);
                let ratio = amount(&item["maxLimitRequestRatio"], name);
                min.is_none_or(|min| request.is_some_and(|request| request >= min))
                    && ratio.is_none_or(|ratio| match (request, limit) {
                        // limit / request <= ratio, in nano-units
                        (Some(request), Some(limit)) if request > 0 && limit > 0 => {
                            limit * 1_000_000_000 <= ratio * request
                        }
                        _ => false,
                    })
            };
            if item["type"] == "Pod" {
                let request = pod_request.unwrap_or_else(|| sum("requests"));
                let limit = amount(&level["limits"], name).unwrap_or_else(|| sum("limits"));
                check(Some(request), Some(limit))
            } else {
                parts(pod)
                    .iter()
                    .all(|(_, r)| check(amount(&r["requests"], name), amount(&r["limits"], name)))
            }
        };
        parts(pod).iter().all(|(_, resources)| within(resources))
            && within(level)
            && pod_request.is_none_or(|request| request >= sum("requests"))
            && ranges.iter().all(by_range)
    })
}

/// A pod without what we may write.
fn others(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().unwrap() {
            container["resources"].as_object_mut().unwrap().remove("requests");
        }
    }
    if let Some(resources) = pod["spec"].get_mut("resources") {
        resources.as_object_mut().unwrap().remove("requests");
    }
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove("plimsoll.dev/original-resources");
    annotations.remove("plimsoll.dev/applied");
    pod
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_patch_is_right(
        pod in pods(), (objects, spec, ranges) in clusters(), injected in resources(), at_front in any::<bool>(),
    ) {
        let decision = judge(&pod, &objects);
        prop_assert_eq!(&decision.self_check, &None);
        let patched = apply(&pod, &decision);

        prop_assert_eq!(others(&pod), others(&patched), "only requests and our annotations change");
        let again = judge(&patched, &objects);
        prop_assert_eq!(&again.answer.patch, &vec![], "our own result needs nothing: {:#}", patched);
        let after_defaults = judge(&completed(&patched), &objects);
        prop_assert_eq!(&after_defaults.answer.patch, &vec![], "nor after the API server completed it: {:#}", completed(&patched));

        for line in &decision.plan.lines {
            prop_assert!(line.result.nanos <= line.original.nanos.max(line.received.nanos));
            prop_assert!(line.result.nanos > 0 || line.received.nanos <= 0, "a request is never lowered to nothing");
            if let Some(limit) = &line.limit {
                prop_assert!(line.result.nanos <= limit.nanos || line.received.nanos > limit.nanos);
            }
            if line.target != Target::Pod && line.changes() {
                let unit = line.resource.step();
                prop_assert!(line.result.nanos % unit == 0 || line.result == line.original, "whole milli or bytes");
            }
        }
        // Another webhook adds a container before the API server asks us again.
        let with_sidecar = |pod: &Value| {
            let mut pod = pod.clone();
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            let index = if at_front { 0 } else { containers.len() };
            containers.insert(index, json!({"name": "injected", "resources": injected}));
            pod
        };
        // A forged record can ask for more than what is there; that is its author's doing.
        let honest = pod["metadata"]["annotations"].get("plimsoll.dev/original-resources").is_none();
        if honest && acceptable(&completed(&with_sidecar(&pod)), &ranges) && acceptable(&completed(&pod), &ranges) {
            let again = with_sidecar(&patched);
            let decision = judge(&again, &objects);
            prop_assert_eq!(&decision.self_check, &None);
            let after = completed(&apply(&again, &decision));
            prop_assert!(acceptable(&after, &ranges), "with a sidecar: {:#} became {:#}", again, after);
            prop_assert_eq!(&judge(&after, &objects).answer.patch, &vec![], "settled: {:#}", after);
        }
        if acceptable(&completed(&pod), &ranges) {
            prop_assert!(
                acceptable(&completed(&patched), &ranges),
                "{:#} was acceptable and {:#} is not, under {:#} and {:?}", pod, completed(&patched), spec, ranges
            );
        }
    }

    #[test]
    fn any_json_is_judged_without_panic(text in "[ -~]{0,60}", objects in clusters()) {
        let odd: Value = serde_json::from_str(&text).unwrap_or(Value::String(text.clone()));
        for pod in [
            odd.clone(),
            json!({"metadata": odd, "spec": odd}),
            json!({"metadata": {"annotations": {"plimsoll.dev/original-resources": text, "vpaUpdates": text}},
                "spec": {"containers": [{"name": text, "resources": {"requests": {"cpu": odd, "memory": text}}}]}}),
        ] {
            let decision = judge(&pod, &objects.0);
            prop_assert_eq!(&decision.self_check, &None);
        }
    }
}
