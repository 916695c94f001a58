//! `effective` is what admission gives.

use plimsoll_core::objects::{Fact, Objects};
use plimsoll_core::overcommit::{Inputs, Lookup, Rule, plan};
use plimsoll_core::pod::{PodView, Pruned, Workload};
use plimsoll_core::recommender::status_json;
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::timestamp_of;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{MI, MINUTE, Pod, World, fact, key, profile};

/// What a `Recommendation` looks like once it was written, read again.
fn written(world: &World) -> Fact {
    let desired = world.desired_of(&key("", "Pod", "x")).unwrap();
    let status = status_json(&desired.status, &Value::Null, timestamp_of(world.now));
    fact(&json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
        "metadata": {"name": "r", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "v1", "kind": "Pod", "name": "x"}, "profile": "p"},
        "status": status,
    }))
}

/// The request that admission gives, if a recommendation decides it.
fn admitted(pod: &Pod, objects: &Objects, now: i64, resource: Resource) -> Option<i128> {
    let pruned = Pruned::of(&pod.0);
    let view = PodView::read(&pruned).unwrap();
    let profile = objects.profiles().iter().next().unwrap();
    let limit_ranges: Vec<_> = objects.limit_ranges("shop").cloned().collect();
    let workload = Workload { group: String::new(), kind: "Pod".to_owned(), name: "x".to_owned() };
    let lookup =
        Lookup { objects, namespace: "shop", pod_name: "x", workload: &workload, now: timestamp_of(now) };
    let plan = plan(&Inputs { pod: &view, profile, limit_ranges: &limit_ranges, lookup });
    let line = plan.lines.into_iter().find(|line| line.resource == resource)?;
    matches!(line.rule, Rule::Dynamic { .. }).then_some(line.result.nanos)
}

fn pod(cpu: u32, memory: u32, limits: (Option<u32>, Option<u32>), recorded: u32) -> Pod {
    let mut pod = Pod::new("x");
    if cpu > 0 || memory > 0 {
        pod = pod.container("app", &json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}));
    } else {
        pod = pod.container("app", &json!({}));
    }
    let mut limit = json!({});
    if let Some(times) = limits.0 {
        limit["cpu"] = format!("{}m", cpu * times / 2).into();
    }
    if let Some(times) = limits.1 {
        limit["memory"] = format!("{}Mi", memory * times / 2).into();
    }
    pod.0["spec"]["containers"][0]["resources"]["limits"] = limit;
    if recorded > 0 {
        let record = json!({"containers": {"app": {
            "requests": {"cpu": format!("{}m", cpu + recorded)}, "set": {"cpu": format!("{cpu}m")}}}});
        pod.0["metadata"]["annotations"]["plimsoll.dev/original-resources"] = record.to_string().into();
    }
    pod
}

fn ranges() -> impl Strategy<Value = Vec<Value>> {
    let item = (0_u32..3000, 0_u32..2048, prop_oneof![Just("1"), Just("1.5"), Just("4")], any::<[bool; 4]>());
    let item = item.prop_map(|(cpu, memory, ratio, has)| {
        let mut item = json!({"type": "Container", "min": {}, "maxLimitRequestRatio": {}});
        let mut set = |has: bool, part: &str, resource: &str, value: String| {
            if has {
                item[part][resource] = value.into();
            }
        };
        set(has[0], "min", "cpu", format!("{cpu}m"));
        set(has[1], "min", "memory", format!("{memory}Mi"));
        set(has[2], "maxLimitRequestRatio", "cpu", ratio.to_owned());
        set(has[3], "maxLimitRequestRatio", "memory", ratio.to_owned());
        item
    });
    prop::collection::vec(item, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_is_what_admission_gives(
        requests in (0_u32..8000, 0_u32..8192),
        limits in (prop::option::of(2_u32..8), prop::option::of(2_u32..8)),
        recorded in prop_oneof![Just(0_u32), 1_u32..4000],
        usage in (prop_oneof![0.0..0.05, 0.0..8.0_f64], prop_oneof![0.0..3e7, 0.0..8e9_f64]),
        expansion in prop_oneof![Just("1"), Just("1.15"), Just("1.333"), Just("3")],
        margin in prop_oneof![Just("0"), Just("50m"), Just("1")],
        rounding in prop_oneof![Just("1"), Just("1Mi"), Just("64Mi")],
        minimum in (0_u32..200, 0_u32..200),
        resources in prop_oneof![Just(json!(["cpu", "memory"])), Just(json!(["cpu"])), Just(json!([]))],
        ranges in ranges(),
        mode in prop_oneof![Just("Dynamic"), Just("StaticThenDynamic")],
    ) {
        let mut world = World::new(&[profile("p", &json!({
            "mode": mode,
            "static": {"roundingMemory": rounding,
                "minimum": {"cpu": format!("{}m", minimum.0), "memory": format!("{}Mi", minimum.1)}},
            "dynamic": {"minimumHistory": "0s", "expansion": {"cpu": expansion, "memory": expansion},
                "margin": {"cpu": margin}, "resources": resources},
        }))]);
        for (n, item) in ranges.iter().enumerate() {
            world.object(&json!({"apiVersion": "v1", "kind": "LimitRange",
                "metadata": {"name": format!("l{n}"), "namespace": "shop"}, "spec": {"limits": [item]}}));
        }
        let pod = pod(requests.0, requests.1, limits, recorded);
        world.put(pod.clone());
        world.scans(3, &[("x", usage.0, usage.1)]);
        let app = world.app(&key("", "Pod", "x"));
        let mut objects = world.objects.clone();
        objects.put(written(&world));
        for (resource, found) in [(Resource::Cpu, app.cpu), (Resource::Memory, app.memory)] {
            let effective = found.unwrap().effective.map(|effective| effective.nanos());
            prop_assert_eq!(effective, admitted(&pod, &objects, world.now, resource), "{} {}", resource, pod.0);
        }
    }
}

#[test]
fn a_recommendation_that_admission_does_not_use_yet_still_says_what_it_would_give() {
    let mut world = World::new(&[profile("p", &json!({"mode": "Dynamic"}))]);
    world.put(Pod::app("x"));
    world.now += MINUTE;
    world.scan(&[("x", 0.3, 100.0 * MI)]);
    let cpu = world.app(&key("", "Pod", "x")).cpu.unwrap();
    assert!(cpu.effective.is_some());
    let mut objects = world.objects.clone();
    objects.put(written(&world));
    assert_eq!(admitted(&world.pods["x"], &objects, world.now, Resource::Cpu), None);
}
