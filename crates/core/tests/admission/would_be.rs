//! What would become of a pod under a profile that applies nothing.

use plimsoll_core::admission::{Context, WouldBe, decide, explain};
use plimsoll_core::overcommit::Line;
use plimsoll_core::pod::Pruned;
use serde_json::{Value, json};

use crate::review::{annotated, s1};
use crate::support::{NOW, app, merged, objects, pod, profile, settings, vector_spec};

/// `apply: false` is there to look before one leaps: what would be is told, and the answer stays what it is.
#[test]
fn what_would_become_of_a_pod_is_told_for_apply_false_only() {
    let guaranteed = app(&Value::Null, &json!({"cpu": "1", "memory": "1Gi"}));
    let opted_out = annotated(&json!({"plimsoll.dev/overcommit": "disabled"}));
    let rows: [(&str, &Value, Value, &str); 8] = [
        ("apply false", &s1(), json!({"apply": false}), "app cpu 1 -> 500m"),
        ("apply true", &s1(), json!({"apply": true}), "nothing"),
        ("off", &s1(), json!({"apply": false, "mode": "Off"}), "nothing"),
        ("opted out", &opted_out, json!({"apply": false}), "nothing"),
        ("nothing requested", &pod(&json!({"containers": []})), json!({"apply": false}), ""),
        (
            "guaranteed, Skip",
            &guaranteed,
            json!({"apply": false, "guaranteedPods": "Skip"}),
            "skipped_guaranteed",
        ),
        (
            "guaranteed, Apply",
            &guaranteed,
            json!({"apply": false}),
            "app cpu 1 -> 500m, app memory 1Gi -> 717Mi",
        ),
        (
            "bounds hold",
            &s1(),
            json!({"apply": false, "static": {"minimum": {"cpu": "800m"}}}),
            "app cpu 1 -> 800m",
        ),
    ];
    for (rule, pod, over, expected) in rows {
        let objects = objects(&[profile(&merged(&vector_spec(), &over))]);
        let settings = settings();
        let now = NOW.parse().unwrap();
        let context =
            Context { objects: &objects, settings: &settings, namespace: None, now, defaulted: None };
        let pod = Pruned::of(pod);
        let (decided, explained) = (decide(&pod, "shop", &context), explain(&pod, "shop", &context));
        assert_eq!(explained.answer, decided.answer, "{rule}: the answer is the same");
        assert!(decided.would_be.is_none(), "{rule}: whoever does not explain does not plan");
        let told = match &explained.would_be {
            None => "nothing".to_owned(),
            Some(WouldBe::Skipped(skip)) => skip.word().to_owned(),
            Some(WouldBe::Planned(plan)) => {
                let line = |line: &Line| {
                    format!(
                        "{} {} {} -> {}",
                        line.target, line.resource, line.original.text, line.result.text
                    )
                };
                plan.lines.iter().map(line).collect::<Vec<_>>().join(", ")
            }
        };
        assert_eq!(told, expected, "{rule}");
    }
}
