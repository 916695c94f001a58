//! What holds for all autoscalers.

use std::collections::BTreeMap;

use plimsoll_core::hpa::{Bases, KeyBase, MeanBase, Originals, Verdict, Why, apply_to, convert, operations};
use plimsoll_core::profile::Basis;
use plimsoll_core::resource::{MILLI, Resource};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{ORIGINAL, SYNC, annotated, average, cpu, hpa, memory, of_container, read, utilization};

fn metric() -> impl Strategy<Value = Value> {
    let percent = prop_oneof![1_i64..200, Just(0), Just(100_000), Just(i64::from(i32::MAX))];
    let resource = prop_oneof![Just("cpu"), Just("memory"), Just("gpu")];
    prop_oneof![
        (resource.clone(), percent.clone()).prop_map(|(resource, percent)| utilization(resource, percent)),
        (resource.clone(), 1_u32..5000).prop_map(|(resource, milli)| average(resource, &format!("{milli}m"))),
        (resource, percent).prop_map(|(resource, percent)| {
            json!({"type": "ContainerResource", "containerResource": {"name": resource, "container": "app",
                "target": {"type": "Utilization", "averageUtilization": percent}}})
        }),
        Just(json!({"type": "Pods", "pods": {"metric": {"name": "rps"},
            "target": {"type": "AverageValue", "averageValue": "5"}}})),
        Just(json!(null)),
    ]
}

fn base() -> impl Strategy<Value = KeyBase> {
    prop_oneof![
        5 => (0_i128..100_000, 1_u64..50).prop_map(|(milli, pods)| {
            KeyBase::Known(MeanBase { basis: Some(Basis::Request), sum: milli * MILLI, pods })
        }),
        1 => any::<bool>().prop_map(|native| KeyBase::Missing { why: "missing".to_owned(), native }),
        1 => Just(KeyBase::AsWritten),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        6 => (base(), base(), base()).prop_map(|(a, b, c)| {
            Verdict::Convert(Bases(BTreeMap::from([
                (cpu(), a), (memory(), b), (of_container("app", Resource::Cpu), c),
            ])))
        }),
        1 => Just(Verdict::Unknown),
        1 => Just(Verdict::Restore(Why::Asked)),
    ]
}

fn patched(object: &Value, operations: &[plimsoll_core::admission::Operation]) -> Value {
    let patch: json_patch::Patch = serde_json::from_value(serde_json::to_value(operations).unwrap()).unwrap();
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

/// The targets that the author wrote: utilizations as they are, and values that are nobody's record.
fn intended(hpa: &Value) -> Vec<Value> {
    hpa["spec"]["metrics"].as_array().unwrap().clone()
}

proptest! {
    #[test]
    fn a_patch_always_applies_and_a_second_pass_is_empty(
        metrics in prop::collection::vec(metric(), 0..5),
        steps in prop::collection::vec(verdict(), 1..6),
    ) {
        let mut now = hpa(&Value::Array(metrics));
        for verdict in steps {
            let with_sync = annotated(now.clone(), SYNC, "{}");
            let conversion = convert(&read(&with_sync), Some(&read(&now)), &verdict);
            let after = patched(&with_sync, &operations(&with_sync, &conversion));
            prop_assert_eq!(&after, &apply_to(&with_sync, &conversion));
            let again = convert(&read(&after), Some(&read(&after)), &verdict);
            prop_assert!(!again.changes(&read(&after)), "{:?}", again);
            now = after;
        }
    }

    /// However often bases change in between, in the end everything is as it was.
    #[test]
    fn restored_is_as_it_was(
        metrics in prop::collection::vec(metric(), 0..5),
        steps in prop::collection::vec(verdict(), 1..6),
    ) {
        let written = hpa(&Value::Array(metrics));
        let mut now = written.clone();
        for verdict in steps.iter().chain([&Verdict::Restore(Why::Asked)]) {
            let conversion = convert(&read(&now), Some(&read(&now)), verdict);
            now = apply_to(&now, &conversion);
        }
        prop_assert_eq!(intended(&now), intended(&written));
        prop_assert!(now["metadata"]["annotations"].get(ORIGINAL).is_none());
    }

    /// `A` is the least value in whole steps that is not below `T` percent of the mean.
    #[test]
    fn values_are_rounded_up(sum in 1_i128..10_000_000, pods in 1_u64..1000, percent in 1_i64..1000) {
        let base = MeanBase { basis: None, sum: sum * MILLI, pods };
        let value = base.value(&cpu(), percent).unwrap().nanos;
        let scaled = value * 100 * i128::from(pods);
        let wanted = base.sum * i128::from(percent);
        prop_assert!(value % MILLI == 0 && scaled >= wanted);
        prop_assert!(scaled - wanted < MILLI * 100 * i128::from(pods));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Originals::read(&text);
        let _ = plimsoll_core::hpa::read_sync(&text);
        let broken = annotated(hpa(&json!([average("cpu", "800m")])), ORIGINAL, &text);
        let conversion = convert(&read(&broken), None, &Verdict::Restore(Why::Asked));
        if Originals::read(&text).is_err() {
            prop_assert_eq!(apply_to(&broken, &conversion), broken);
        }
    }
}
