//! Whether an autoscaler is converted, and against what.

use plimsoll_core::hpa::{KeyBase, Seen, Shape, TargetFacts, Verdict, judge};
use plimsoll_core::profile::HpaMode;
use plimsoll_core::resource::MILLI;
use serde_json::{Value, json};

use crate::world::{
    ORIGINAL, annotated, app, average, context, cpu, deployment, hpa, lowered, objects, pod, read, record,
    settings, shape, static_profile, untouched, utilization,
};

/// The verdict in words: `800m of 1 (request)`, a reason, or `unknown`.
fn words(profile: &Value, pods: &[(Value, u64)], template: Option<&Value>, hpa: &Value) -> String {
    let objects = objects(profile, &[]);
    let settings = settings();
    let shapes: Vec<(Shape, u64)> = pods.iter().map(|(pod, count)| (shape(pod), *count)).collect();
    let seen: Vec<_> = shapes.iter().map(|(shape, pods)| Seen { shape, pods: *pods }).collect();
    let template = template.and_then(Shape::of_template);
    let facts = TargetFacts { pods: &seen, template: template.as_ref() };
    match judge(&read(hpa), &facts, &context(&objects, &settings)) {
        Verdict::Unknown => "unknown".to_owned(),
        Verdict::Restore(why) => why.to_string(),
        Verdict::Convert(bases) => match bases.0.get(&cpu()) {
            None => "nothing".to_owned(),
            Some(KeyBase::AsWritten) => "as written".to_owned(),
            Some(KeyBase::Missing { why, native }) => {
                format!("{why}{}", if *native { "" } else { " (the controller can divide)" })
            }
            Some(KeyBase::Known(base)) => {
                let against = base.basis.map_or("mixed", |basis| basis.lower_case());
                format!("{}m over {} by {against}", base.sum / MILLI, base.pods)
            }
        },
    }
}

#[test]
fn verdicts() {
    let ours = static_profile(&json!({}));
    let by_limit = static_profile(&json!({"basis": "Limit"}));
    let some = |pod: Value, count: u64| vec![(pod, count)];
    let halfway = vec![(untouched("1", "2"), 5), (lowered("1", "500m", "2"), 5)];
    let opted_out = |mut pod: Value| {
        pod["metadata"]["annotations"]["plimsoll.dev/overcommit"] = json!("disabled");
        pod
    };
    let incomplete = pod(&json!({"containers": [app("app", "1", "2"), app("b", "", "")]}));
    let plain = hpa(&json!([utilization("cpu", 80)]));
    let converted = annotated(hpa(&json!([average("cpu", "800m")])), ORIGINAL, &record(80, "800m", "10", 10));
    for (rule, profile, pods, template, hpa, expected) in [
        (
            "lowered pods",
            &ours,
            some(lowered("1", "500m", "2"), 10),
            None,
            &plain,
            "10000m over 10 by request",
        ),
        ("halfway through a rollout", &ours, halfway.clone(), None, &plain, "10000m over 10 by request"),
        (
            "bases of different size",
            &ours,
            vec![(lowered("1", "500m", "2"), 1), (lowered("2", "500m", "2"), 1)],
            None,
            &plain,
            "3000m over 2 by request",
        ),
        (
            "basis Limit",
            &by_limit,
            some(lowered("1", "500m", "2"), 10),
            None,
            &plain,
            "20000m over 10 by limit",
        ),
        (
            "basis Limit counts pods that nobody touched too",
            &by_limit,
            halfway.clone(),
            None,
            &plain,
            "20000m over 10 by limit",
        ),
        (
            "basis Limit, and a container without limit",
            &by_limit,
            some(untouched("1", ""), 1),
            None,
            &plain,
            "container app has no cpu limit; set it in the pod template (the controller can divide)",
        ),
        (
            "no pods: the template",
            &ours,
            vec![],
            Some(deployment("1", "2")),
            &plain,
            "1000m over 1 by request",
        ),
        ("nothing is known", &ours, vec![], None, &plain, "unknown"),
        (
            "a container without request",
            &ours,
            some(incomplete, 3),
            None,
            &plain,
            "container b has no cpu request; set it in the pod template",
        ),
        (
            "no profile, nothing lowered",
            &Value::Null,
            some(untouched("1", "2"), 3),
            None,
            &plain,
            "no profile is applied to its pods: no OvercommitProfile matches",
        ),
        (
            "no profile any more, all pods lowered",
            &Value::Null,
            some(lowered("1", "500m", "2"), 2),
            None,
            &converted,
            "2000m over 2 by request",
        ),
        (
            "no profile any more, lowered pods, and it was never converted: nobody says that it should be now",
            &Value::Null,
            some(lowered("1", "500m", "2"), 2),
            None,
            &plain,
            "no profile is applied to its pods: no OvercommitProfile matches",
        ),
        (
            "a resource that is never lowered",
            &json!({"mode": "Static", "static": {"factors": {"memory": "0.5"}}}),
            some(untouched("1", "2"), 2),
            None,
            &plain,
            "as written",
        ),
        (
            "no profile any more, some pods lowered",
            &Value::Null,
            halfway,
            None,
            &converted,
            "10000m over 10 by request",
        ),
        (
            "no profile, no pods",
            &Value::Null,
            vec![],
            Some(deployment("1", "2")),
            &plain,
            "no profile is applied to its pods: no OvercommitProfile matches",
        ),
        (
            "all pods opt out and were never lowered",
            &ours,
            some(opted_out(untouched("1", "2")), 2),
            None,
            &plain,
            "no profile is applied to its pods: the pod opts out by the annotation plimsoll.dev/overcommit",
        ),
        (
            "one of two pods opts out",
            &ours,
            vec![(opted_out(untouched("1", "2")), 1), (lowered("1", "500m", "2"), 1)],
            None,
            &plain,
            "2000m over 2 by request",
        ),
        (
            "opted out after it was lowered",
            &ours,
            some(opted_out(lowered("1", "500m", "2")), 2),
            None,
            &converted,
            "2000m over 2 by request",
        ),
        (
            "the profile is off",
            &static_profile(&json!({"mode": "Off"})),
            some(untouched("1", "2"), 1),
            None,
            &plain,
            "no profile is applied to its pods: the profile that matches has mode Off",
        ),
        (
            "the profile's mode is Shim",
            &static_profile(&json!({"hpa": {"mode": "Shim"}})),
            some(lowered("1", "500m", "2"), 1),
            None,
            &plain,
            "its mode is Shim",
        ),
        (
            "the profile's mode is Off",
            &static_profile(&json!({"hpa": {"mode": "Off"}})),
            some(lowered("1", "500m", "2"), 1),
            None,
            &plain,
            "its mode is Off",
        ),
        (
            "the autoscaler opts out",
            &ours,
            some(lowered("1", "500m", "2"), 1),
            None,
            &annotated(plain.clone(), "plimsoll.dev/overcommit", "disabled"),
            "its annotation opts it out",
        ),
        (
            "no metric to convert",
            &ours,
            some(lowered("1", "500m", "2"), 1),
            None,
            &hpa(&json!([])),
            "nothing",
        ),
    ] {
        assert_eq!(words(profile, &pods, template.as_ref(), hpa), expected, "{rule}");
    }
}

#[test]
fn modes_of_the_configuration() {
    let objects = objects(&static_profile(&json!({})), &[]);
    let lowered = shape(&lowered("1", "500m", "2"));
    let seen = [Seen { shape: &lowered, pods: 1 }];
    let facts = TargetFacts { pods: &seen, template: None };
    for mode in HpaMode::ALL {
        let settings = plimsoll_core::admission::Settings { hpa_mode: mode, ..settings() };
        let verdict =
            judge(&read(&hpa(&json!([utilization("cpu", 80)]))), &facts, &context(&objects, &settings));
        assert_eq!(matches!(verdict, Verdict::Convert(_)), mode == HpaMode::Convert, "{mode:?}");
        let settings = plimsoll_core::admission::Settings { hpa_unserved: vec![mode], ..settings };
        let verdict =
            judge(&read(&hpa(&json!([utilization("cpu", 80)]))), &facts, &context(&objects, &settings));
        assert!(matches!(verdict, Verdict::Convert(_)), "{mode:?}, which nobody serves");
    }
}

#[test]
fn a_namespace_that_was_not_seen_is_not_judged() {
    let objects = objects(&static_profile(&json!({})), &[]);
    let settings = plimsoll_core::admission::Settings::default();
    let template = Shape::of_template(&deployment("1", "2")).unwrap();
    let facts = TargetFacts { pods: &[], template: Some(&template) };
    let verdict = judge(&read(&hpa(&json!([utilization("cpu", 80)]))), &facts, &context(&objects, &settings));
    assert_eq!(verdict, Verdict::Unknown);
}
