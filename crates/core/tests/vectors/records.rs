//! The record of originals: what is written, and what is believed when a pod comes back.

use serde_json::{Value, json};

use crate::support::{
    after, app, apply, container, figures, judge, limit_range, merged, objects, profile, recommendation,
    record, vector_spec,
};

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
