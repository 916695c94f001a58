//! What usage the controller is told.

use plimsoll_core::hpa::{NotKnown, Scaling, Seen, Shape, Unscaled, percent, scaled, scaling};
use plimsoll_core::objects::Objects;
use plimsoll_core::resource::{MILLI, Resource, UNIT};
use plimsoll_quantity::{Quantity, Ratio};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{
    app, average, context, deployment, hpa, lowered, objects, pod, settings, shape, static_profile,
    untouched, utilization,
};

fn shim() -> Value {
    static_profile(&json!({"hpa": {"mode": "Shim"}}))
}

fn of_container(name: &str, percent: i64) -> Value {
    json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": name,
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn named(name: &str, metrics: &Value) -> Value {
    let mut hpa = hpa(metrics);
    hpa["metadata"]["name"] = json!(name);
    hpa
}

fn cpu(objects: &Objects, pods: &[Value]) -> Result<Scaling, NotKnown> {
    let shapes: Vec<Shape> = pods.iter().map(shape).collect();
    let seen: Vec<_> = shapes.iter().map(|shape| Seen { shape, pods: 1 }).collect();
    let settings = settings();
    scaling("shop", &seen, Resource::Cpu, &context(objects, &settings))
}

fn ratio(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}

fn nanos(text: &str) -> i128 {
    Quantity::parse(text).unwrap().nanos()
}

/// A pod with two lowered containers: `app` 1 -> 500m, `proxy` 1 -> 100m.
fn of_two() -> Value {
    let mut pod = pod(&json!({"containers": [app("app", "500m", "2"), app("proxy", "100m", "2")]}));
    let of = |set: &str| json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "set": {"cpu": set}});
    let record = json!({"basis": "request", "profile": "shared-pool",
        "containers": {"app": of("500m"), "proxy": of("100m")}});
    pod["metadata"]["annotations"] = json!({"plimsoll.dev/original-resources": record.to_string()});
    pod
}

#[test]
fn the_vector_of_the_ratio_of_sums() {
    let objects = objects(&shim(), &[deployment("1", "2"), hpa(&json!([utilization("cpu", 80)]))]);
    let pods = [lowered("1", "500m", "2"), lowered("2", "500m", "2")];
    let Ok(Scaling::Pods(factor)) = cpu(&objects, &pods) else { panic!("{:?}", cpu(&objects, &pods)) };
    assert_eq!(factor, ratio(1000, 3000));
    let told: Vec<_> =
        ["900m", "100m"].map(|used| scaled(nanos(used), &factor, Resource::Cpu).unwrap()).into();
    assert_eq!(told, [nanos("300m"), nanos("33333334n")]);
    let in_percent = told.iter().sum::<i128>() * 100 / nanos("1");
    assert_eq!(in_percent, 33, "of 1000m, as it was meant of 3000m; the mean of ratios would be 47");
}

/// The rule, the profile, the autoscalers, the pods, and what becomes of their CPU usage.
type Row = (&'static str, Value, Vec<Value>, Vec<Value>, Scaling);

#[test]
fn what_is_told() {
    let by_limit = static_profile(&json!({"hpa": {"mode": "Shim"}, "basis": "Limit"}));
    let convert = static_profile(&json!({}));
    let web = deployment("1", "2");
    let with = |profile: &Value, hpas: &[Value]| {
        let mut all = vec![web.clone()];
        all.extend(hpas.iter().cloned());
        objects(profile, &all)
    };
    let one = |metrics: Value| vec![hpa(&metrics)];
    let lost = || vec!["web".to_owned()];
    let half = vec![lowered("1", "500m", "2")];
    let rows: Vec<Row> = vec![
        ("half", shim(), one(json!([utilization("cpu", 80)])), half.clone(), Scaling::Pods(ratio(1, 2))),
        (
            "against the limit",
            by_limit.clone(),
            one(json!([utilization("cpu", 80)])),
            half.clone(),
            Scaling::Pods(ratio(1, 4)),
        ),
        (
            "against the limit, though nothing is lowered",
            by_limit.clone(),
            one(json!([utilization("cpu", 80)])),
            vec![untouched("1", "2")],
            Scaling::Pods(ratio(1, 2)),
        ),
        (
            "in the middle of a rollout",
            shim(),
            one(json!([utilization("cpu", 80)])),
            vec![untouched("1", "2"), lowered("1", "500m", "2")],
            Scaling::Pods(ratio(3, 4)),
        ),
        (
            "nothing lowered",
            shim(),
            one(json!([utilization("cpu", 80)])),
            vec![untouched("1", "2")],
            Scaling::Unscaled(Unscaled::NotLowered),
        ),
        (
            "converted instead",
            convert.clone(),
            one(json!([average("cpu", "800m")])),
            half.clone(),
            Scaling::Unscaled(Unscaled::OtherMode),
        ),
        (
            "about to be converted: it still means a percentage",
            convert.clone(),
            one(json!([utilization("cpu", 80)])),
            half.clone(),
            Scaling::Pods(ratio(1, 2)),
        ),
        ("made just now", shim(), vec![], half.clone(), Scaling::Pods(ratio(1, 2))),
        ("converted, made just now", convert, vec![], half.clone(), Scaling::Unscaled(Unscaled::OtherMode)),
        (
            "memory only",
            shim(),
            one(json!([utilization("memory", 80)])),
            half.clone(),
            Scaling::Unscaled(Unscaled::NotUsed),
        ),
        (
            "in absolute terms",
            shim(),
            one(json!([average("cpu", "800m")])),
            half.clone(),
            Scaling::Unscaled(Unscaled::AverageValue { lost: vec![], kept: lost() }),
        ),
        (
            "both ways in one",
            shim(),
            one(json!([average("cpu", "800m"), utilization("cpu", 80)])),
            half.clone(),
            Scaling::Unscaled(Unscaled::AverageValue { lost: lost(), kept: vec![] }),
        ),
        (
            "both ways in two",
            shim(),
            vec![named("a", &json!([average("cpu", "800m")])), named("b", &json!([utilization("cpu", 80)]))],
            half.clone(),
            Scaling::Unscaled(Unscaled::AverageValue {
                lost: vec!["b".to_owned()],
                kept: vec!["a".to_owned()],
            }),
        ),
        (
            "absolute for memory only",
            shim(),
            one(json!([average("memory", "1Gi"), utilization("cpu", 80)])),
            half.clone(),
            Scaling::Pods(ratio(1, 2)),
        ),
        (
            "containers",
            shim(),
            one(json!([of_container("app", 80), of_container("proxy", 50)])),
            vec![of_two()],
            Scaling::Containers([("app".to_owned(), ratio(1, 2)), ("proxy".to_owned(), ratio(1, 10))].into()),
        ),
        (
            "one container",
            shim(),
            one(json!([of_container("proxy", 50)])),
            vec![of_two()],
            Scaling::Containers([("proxy".to_owned(), ratio(1, 10))].into()),
        ),
        (
            "pods and a container, unequal",
            shim(),
            one(json!([utilization("cpu", 80), of_container("app", 80)])),
            vec![of_two()],
            Scaling::Unscaled(Unscaled::Mixed { lost: lost() }),
        ),
        (
            "pods and their only container",
            shim(),
            one(json!([utilization("cpu", 80), of_container("app", 80)])),
            half.clone(),
            Scaling::Pods(ratio(1, 2)),
        ),
        (
            "a container without request",
            shim(),
            one(json!([utilization("cpu", 80)])),
            vec![pod(&json!({"containers": [app("app", "1", "2"), app("proxy", "", "")]}))],
            Scaling::Unscaled(Unscaled::NoBase {
                lost: lost(),
                missing: "container proxy has no cpu request; set it in the pod template".to_owned(),
            }),
        ),
        (
            "no limit to be meant against",
            by_limit,
            one(json!([utilization("cpu", 80)])),
            vec![untouched("1", "")],
            Scaling::Unscaled(Unscaled::NoBase {
                lost: lost(),
                missing: "container app has no cpu limit; set it in the pod template".to_owned(),
            }),
        ),
        (
            "a request of 0",
            shim(),
            one(json!([utilization("cpu", 80)])),
            vec![untouched("0", "2")],
            Scaling::Unscaled(Unscaled::NoBase {
                lost: lost(),
                missing: "the cpu figures of the pods are 0; set them in the pod template".to_owned(),
            }),
        ),
    ];
    for (rule, profile, hpas, pods, expected) in rows {
        assert_eq!(cpu(&with(&profile, &hpas), &pods), Ok(expected), "{rule}");
    }
}

#[test]
fn other_selectors_have_their_own() {
    let other = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"},
            "maxReplicas": 5, "metrics": [average("cpu", "1")]}});
    let mut db = deployment("1", "2");
    db["metadata"]["name"] = json!("db");
    db["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    let all = [deployment("1", "2"), db, hpa(&json!([utilization("cpu", 80)])), other.clone()];
    let half = [lowered("1", "500m", "2")];
    assert_eq!(cpu(&objects(&shim(), &all), &half), Ok(Scaling::Pods(ratio(1, 2))));
    // Also where the Deployments are not known: then the owner tells.
    let all = [hpa(&json!([utilization("cpu", 80)])), other];
    assert_eq!(cpu(&objects(&shim(), &all), &half), Ok(Scaling::Pods(ratio(1, 2))));
}

#[test]
fn what_is_not_known_is_not_told() {
    let objects = objects(&shim(), &[hpa(&json!([utilization("cpu", 80)]))]);
    assert_eq!(cpu(&objects, &[]), Err(NotKnown::Pods));
    let settings = plimsoll_core::admission::Settings::default();
    let half = shape(&lowered("1", "500m", "2"));
    let seen = [Seen { shape: &half, pods: 1 }];
    let found = scaling("shop", &seen, Resource::Cpu, &context(&objects, &settings));
    assert_eq!(found, Err(NotKnown::Namespace("shop".to_owned())));
}

#[test]
fn usage_is_rounded_once() {
    let third = ratio(1, 3);
    for (rule, used, resource, expected) in [
        ("nano-cores", "1n", Resource::Cpu, "1n"),
        ("cores", "1", Resource::Cpu, "333333334n"),
        ("bytes", "10", Resource::Memory, "4"),
        ("kibibytes", "12Ki", Resource::Memory, "4Ki"),
        ("nothing", "0", Resource::Cpu, "0"),
        ("a lot", "9223372036854775807", Resource::Memory, "3074457345618258603"),
    ] {
        assert_eq!(scaled(nanos(used), &third, resource), Some(nanos(expected)), "{rule}");
    }
    assert_eq!(percent(nanos("500m"), 1, nanos("1")), Some(50 * UNIT));
    assert_eq!(percent(nanos("900m"), 2, nanos("3")), Some(60 * UNIT));
    assert_eq!(percent(nanos("1"), 1, nanos("3")), Some(33_334 * MILLI));
    assert_eq!(percent(nanos("1"), 1, 0), None);
    assert_eq!(percent(nanos("1"), 1, -1), None);
}

proptest! {
    /// The controller divides what it is told by what pods request; that is usage divided by the bases.
    #[test]
    fn the_ratio_is_the_one_that_was_meant(
        pods in prop::collection::vec((1_u32..4000, 1_u32..100, 0_u64..4_000_000_000), 1..12),
    ) {
        let objects = objects(&shim(), &[deployment("1", ""), hpa(&json!([utilization("cpu", 80)]))]);
        let mut sums = (0_i128, 0_i128, 0_i128);
        let mut manifests = Vec::new();
        for (original, part, used) in &pods {
            let set = (original * part).div_ceil(100);
            sums.0 += i128::from(set) * MILLI;
            sums.1 += i128::from(*original) * MILLI;
            sums.2 += i128::from(*used);
            manifests.push(if set == *original {
                untouched(&format!("{original}m"), "")
            } else {
                lowered(&format!("{original}m"), &format!("{set}m"), "")
            });
        }
        let (requests, bases, used) = sums;
        let told: i128 = match cpu(&objects, &manifests).unwrap() {
            Scaling::Pods(factor) => {
                pods.iter().map(|(.., used)| scaled(i128::from(*used), &factor, Resource::Cpu).unwrap()).sum()
            }
            Scaling::Unscaled(Unscaled::NotLowered) => used,
            other => panic!("{other:?}"),
        };
        // told / requests == used / bases, up to one nano-core of each pod
        let difference = told * bases - used * requests;
        let count = i128::try_from(pods.len()).unwrap();
        prop_assert!((0..=count * bases).contains(&difference), "{} of {}", difference, count * bases);
    }

    /// The mean over the pods is 100 times the ratio of the sums.
    #[test]
    fn the_mean_of_percents_is_the_ratio_of_sums(
        pods in prop::collection::vec((1_u32..4000, 0_u64..4_000_000_000), 1..12),
    ) {
        let bases: i128 = pods.iter().map(|(base, _)| i128::from(*base) * MILLI).sum();
        let used: i128 = pods.iter().map(|(_, used)| i128::from(*used)).sum();
        let count = i128::try_from(pods.len()).unwrap();
        let told: i128 = pods
            .iter()
            .map(|(_, used)| percent(i128::from(*used), pods.len() as u64, bases).unwrap())
            .sum();
        let difference = told * bases - 100 * used * count * UNIT;
        prop_assert!((0..=count * bases * MILLI).contains(&difference), "{}", difference);
    }
}
