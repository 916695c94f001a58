//! Which profile and which recommendation a pod falls under.

use serde_json::{Value, json};

use crate::review::{answer, decision, namespace, review, s1};
use crate::support::{
    self, after, app, container, figures, merged, objects, pod, profile, record, vector_spec,
};

#[test]
fn which_profile_a_pod_falls_under() {
    let named = |name: &str, spec: Value| {
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": name},
            "spec": merged(&vector_spec(), &spec)})
    };
    let pool = |pool: &str| json!({"match": {"pools": [pool]}});
    let kinds = |kind: &str| json!({"match": {"workloadKinds": [kind]}});
    let pod_of = |kind: &str, api: &str, name: &str| {
        merged(
            &s1(),
            &json!({"metadata": {"labels": {"pod-template-hash": "5d4"},
            "ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "controller": true}]}}),
        )
    };
    let owner = |api: &str, kind: &str, name: &str, controller: Option<(&str, &str, &str)>| {
        let references: Vec<Value> = controller
            .into_iter()
            .map(|(api, kind, name)| json!({"apiVersion": api, "kind": kind, "name": name, "controller": true}))
            .collect();
        json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": references}})
    };
    let rows: Vec<(&str, Value, Vec<Value>, Option<&str>)> = vec![
        (
            "the highest priority wins",
            s1(),
            vec![named("a", json!({})), named("b", json!({"priority": 1}))],
            Some("b"),
        ),
        (
            "equal priority: the name that sorts first",
            s1(),
            vec![named("b", json!({})), named("a", json!({}))],
            Some("a"),
        ),
        (
            "an Off profile of higher priority shields",
            s1(),
            vec![named("a", json!({})), named("b", json!({"priority": 1, "mode": "Off"}))],
            Some("b"),
        ),
        (
            "the namespace's pool before the pod's",
            merged(&s1(), &json!({"metadata": {"labels": {"plimsoll.dev/pool": "own"}}})),
            vec![
                named("a", pool("own")),
                named("b", pool("shared")),
                namespace(&json!({"labels": {"plimsoll.dev/pool": "shared"}})),
            ],
            Some("b"),
        ),
        (
            "the pod's pool before its node selector's",
            merged(
                &s1(),
                &json!({"metadata": {"labels": {"plimsoll.dev/pool": "own"}},
                "spec": {"nodeSelector": {"plimsoll.dev/pool": "shared"}}}),
            ),
            vec![named("a", pool("own")), named("b", pool("shared"))],
            Some("a"),
        ),
        (
            "the node selector's pool",
            merged(&s1(), &json!({"spec": {"nodeSelector": {"plimsoll.dev/pool": "shared"}}})),
            vec![named("a", pool("own")), named("b", pool("shared"))],
            Some("b"),
        ),
        ("no pool", s1(), vec![named("a", pool("own"))], None),
        (
            "a namespace selector",
            s1(),
            vec![
                named("a", json!({"match": {"namespaceSelector": {"matchLabels": {"team": "x"}}}})),
                named(
                    "b",
                    json!({"match": {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}}),
                ),
                namespace(&json!({"labels": {"team": "y"}})),
            ],
            Some("b"),
        ),
        (
            "a pod selector",
            merged(&s1(), &json!({"metadata": {"labels": {"app": "web"}}})),
            vec![
                named("a", json!({"match": {"podSelector": {"matchLabels": {"app": "db"}}}})),
                named("b", json!({"match": {"podSelector": {"matchLabels": {"app": "web"}}}})),
            ],
            Some("b"),
        ),
        ("a bare pod is of kind Pod", s1(), vec![named("a", kinds("Pod"))], Some("a")),
        (
            "a ReplicaSet's Deployment",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![
                named("a", kinds("Deployment")),
                owner("apps/v1", "ReplicaSet", "web-5d4", Some(("apps/v1", "Deployment", "web"))),
            ],
            Some("a"),
        ),
        (
            "a ReplicaSet's Rollout",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![
                named("a", kinds("Rollout")),
                owner("apps/v1", "ReplicaSet", "web-5d4", Some(("argoproj.io/v1alpha1", "Rollout", "web"))),
            ],
            Some("a"),
        ),
        (
            "a ReplicaSet of its own",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![named("a", kinds("ReplicaSet")), owner("apps/v1", "ReplicaSet", "web-5d4", None)],
            Some("a"),
        ),
        (
            "a ReplicaSet not seen yet is taken for a Deployment's",
            pod_of("ReplicaSet", "apps/v1", "web-5d4"),
            vec![named("a", kinds("Deployment"))],
            Some("a"),
        ),
        (
            "a Job's CronJob",
            pod_of("Job", "batch/v1", "backup-1"),
            vec![
                named("a", kinds("CronJob")),
                owner("batch/v1", "Job", "backup-1", Some(("batch/v1", "CronJob", "backup"))),
            ],
            Some("a"),
        ),
        ("a Job of its own", pod_of("Job", "batch/v1", "once"), vec![named("a", kinds("Job"))], Some("a")),
        (
            "any other controller",
            pod_of("CloneSet", "apps.kruise.io/v1alpha1", "c"),
            vec![named("a", kinds("CloneSet"))],
            Some("a"),
        ),
        (
            "an owner that is no controller",
            merged(
                &s1(),
                &json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]}}),
            ),
            vec![named("a", kinds("Pod"))],
            Some("a"),
        ),
        (
            "a broken profile disables only itself",
            s1(),
            vec![
                named("a", json!({})),
                named("b", json!({"priority": 9, "static": {"factors": {"cpu": "2"}}})),
            ],
            Some("a"),
        ),
    ];
    for (rule, pod, manifests, expected) in rows {
        let answer = answer(&review(&pod, &json!({})), &manifests);
        assert_eq!(answer["response"]["auditAnnotations"]["profile"].as_str(), expected, "{rule}");
    }
}

#[test]
fn a_recommendation_is_found_by_the_topmost_owner() {
    let pod = merged(
        &app(&json!({"cpu": "2"}), &Value::Null),
        &json!({"metadata": {
        "labels": {"pod-template-hash": "5d4"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4", "controller": true}]}}),
    );
    let recommendation = |api: &str| {
        support::recommendation(
            &json!([figures("app", &json!({"cpu": "800m"}))]),
            &json!({"spec": {"targetRef": {"apiVersion": api, "kind": "Deployment", "name": "web"}}}),
        )
    };
    let spec = profile(&json!({"mode": "Dynamic"}));
    let body = review(&pod, &json!({}));
    assert_eq!(decision(&body, &[spec.clone(), recommendation("apps/v1")]), "applied");
    assert_eq!(
        decision(&body, &[spec, recommendation("example.com/v1")]),
        "unchanged",
        "another group's kind"
    );
}

#[test]
fn applied_is_cut_where_it_would_be_long() {
    let containers: Vec<Value> = (0..60)
        .map(|index| container(&format!("container-{index}"), &json!({"cpu": "1"}), &Value::Null))
        .collect();
    let (patched, _) =
        after("many", &pod(&json!({"containers": containers})), &objects(&[profile(&vector_spec())]));
    let applied = patched["metadata"]["annotations"]["plimsoll.dev/applied"].as_str().unwrap();
    assert!(applied.len() < 1100 && applied.contains(" more"), "{applied}");
    assert_eq!(record(&patched)["containers"].as_object().unwrap().len(), 60, "the record is whole");
}
