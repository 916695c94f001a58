//! What is read of a pod.

use plimsoll_core::recommender::read_pod;
use plimsoll_core::resource::Resource;
use serde_json::{Value, json};

use crate::support::{HOUR, Pod, World, key, owned, reference, start, text, web};

#[test]
fn whose_a_pod_is() {
    let pod = |api: &str, kind: &str, name: &str| Pod::app("x").owner(api, kind, name);
    let rollout = Some(("argoproj.io/v1alpha1", "Rollout", "canary"));
    for (rule, pod, expected) in [
        ("a ReplicaSet is its Deployment's", web("a", "x"), Some(key("apps", "Deployment", "web"))),
        (
            "or its Rollout's",
            pod("apps/v1", "ReplicaSet", "canary-1"),
            Some(key("argoproj.io", "Rollout", "canary")),
        ),
        (
            "a ReplicaSet without controller is itself",
            pod("apps/v1", "ReplicaSet", "alone"),
            Some(key("apps", "ReplicaSet", "alone")),
        ),
        (
            "a Job is its CronJob's",
            pod("batch/v1", "Job", "report-1"),
            Some(key("batch", "CronJob", "report")),
        ),
        (
            "a Job without controller is itself",
            pod("batch/v1", "Job", "once"),
            Some(key("batch", "Job", "once")),
        ),
        ("a bare pod is itself", Pod::app("x"), Some(key("", "Pod", "x"))),
        (
            "a reference that is no controller does not count",
            Pod::app("x").set(
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]),
            ),
            Some(key("", "Pod", "x")),
        ),
        (
            "kinds of others are their own",
            pod("apps.kruise.io/v1alpha1", "CloneSet", "clones"),
            Some(key("apps.kruise.io", "CloneSet", "clones")),
        ),
        (
            "a ReplicaSet of another group too",
            pod("example.com/v1", "ReplicaSet", "web-a"),
            Some(key("example.com", "ReplicaSet", "web-a")),
        ),
        ("an unknown ReplicaSet of a Deployment waits", web("unknown", "x"), None),
        ("an unknown ReplicaSet of another waits", pod("apps/v1", "ReplicaSet", "who"), None),
        ("an unknown Job waits", pod("batch/v1", "Job", "who"), None),
        ("static pods have nothing to be lowered", pod("v1", "Node", "node-1"), None),
    ] {
        let mut world = World::simple();
        world.object(&owned("ReplicaSet", "canary-1", rollout));
        world.object(&owned("ReplicaSet", "alone", None));
        world.object(&owned("Job", "once", None));
        let name = pod.name();
        world.put(pod);
        world.scans(1, &[(&name, 0.5, 1e8)]);
        let found: Vec<_> = world.desired().iter().map(|desired| (*desired.key).clone()).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{rule}");
    }
}

#[test]
fn a_recommendation_goes_with_its_owner() {
    let mut world = World::simple();
    world.put(web("a", "x"));
    world.put(Pod::app("bare"));
    world.assign();
    let owners: Vec<_> = world.desired().into_iter().map(|desired| desired.owner.unwrap()).collect();
    let found: Vec<_> = owners.iter().map(|owner| (owner.api_version.as_str(), owner.uid.as_str())).collect();
    assert_eq!(found, [("v1", "uid-bare"), ("apps/v1", "uid-of-Deployment-web")]);
}

#[test]
fn an_owner_that_becomes_known() {
    let mut world = World::simple();
    world.put(web("new", "x"));
    world.scans(1, &[("web-new-x", 0.5, 1e8)]);
    assert_eq!(world.desired(), vec![], "waits");
    world.object(&owned("ReplicaSet", "web-new", Some(("apps/v1", "Deployment", "web"))));
    world.scans(1, &[("web-new-x", 0.5, 1e8)]);
    assert_eq!(world.app(&key("apps", "Deployment", "web")).samples, 1, "from then on");
    assert_eq!(world.recommender.counts().unmatched, 1);
}

#[test]
fn which_containers_are_measured() {
    let mut pod = Pod::app("x");
    pod.0["spec"]["initContainers"] = json!([
        {"name": "migrate", "resources": {"requests": {"cpu": "2"}}},
        {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "odd", "restartPolicy": "OnFailure"},
    ]);
    pod.0["spec"]["ephemeralContainers"] = json!([{"name": "debug"}]);
    let facts = pod.facts();
    let names: Vec<_> = facts.shape.containers.iter().map(|shape| shape.name.as_str()).collect();
    assert!(names.contains(&"app") && names.contains(&"mesh"), "app containers and sidecars: {names:?}");
    assert_eq!(names.len(), 2, "no init containers, no ephemeral ones: {names:?}");
}

#[test]
fn what_a_container_asks_for() {
    let annotated = |set: &str, original: &str| {
        json!({"containers": {"app": {"requests": {"cpu": original}, "set": {"cpu": set}}}}).to_string()
    };
    for (rule, requests, limits, annotation, expected) in [
        ("its request", json!({"cpu": "2"}), json!({}), None, Some((2000, 2000))),
        ("its limit where only that is given", json!({}), json!({"cpu": "3"}), None, Some((3000, 3000))),
        ("nothing", json!({}), json!({}), None, None),
        ("0 is nothing", json!({"cpu": "0"}), json!({}), None, None),
        ("what cannot be read is nothing", json!({"cpu": "much"}), json!({}), None, None),
        (
            "a lowered pod weighs by its original",
            json!({"cpu": "500m"}),
            json!({}),
            Some(annotated("500m", "1")),
            Some((500, 1000)),
        ),
        (
            "a request that was changed after us is the original",
            json!({"cpu": "700m"}),
            json!({}),
            Some(annotated("500m", "1")),
            Some((700, 700)),
        ),
        (
            "an original above the limit is not believed beyond it",
            json!({"cpu": "500m"}),
            json!({"cpu": "800m"}),
            Some(annotated("500m", "1000")),
            Some((500, 800)),
        ),
        (
            "an original below what was set is forged",
            json!({"cpu": "500m"}),
            json!({}),
            Some(annotated("500m", "100m")),
            Some((500, 500)),
        ),
        ("a broken annotation", json!({"cpu": "500m"}), json!({}), Some("{".to_owned()), Some((500, 500))),
    ] {
        let mut pod = Pod::new("x").container("app", &requests);
        pod.0["spec"]["containers"][0]["resources"]["limits"] = limits;
        if let Some(annotation) = annotation {
            pod.0["metadata"]["annotations"]["plimsoll.dev/original-resources"] = annotation.into();
        }
        let facts = pod.facts();
        let found = facts.shape.containers[0].of(Resource::Cpu);
        let milli = |nanos: i128| nanos / 1_000_000;
        assert_eq!(found.map(|shape| (milli(shape.request), milli(shape.original))), expected, "{rule}");
    }
}

#[test]
fn phases() {
    for (phase, running, ended) in [
        ("Running", true, false),
        ("Pending", false, false),
        ("Succeeded", false, true),
        ("Failed", false, true),
        ("Unknown", false, false),
        ("", false, false),
    ] {
        let facts = Pod::app("x").phase(phase).facts();
        assert_eq!((facts.running, facts.ended), (running, ended), "{phase}");
    }
}

#[test]
fn what_is_no_pod() {
    for (rule, value) in [
        ("null", Value::Null),
        ("a text", json!("pod")),
        ("a list", json!([1, 2])),
        ("no name", json!({"metadata": {"namespace": "shop"}})),
        ("no namespace", json!({"metadata": {"name": "x"}})),
        ("a name that is no text", json!({"metadata": {"namespace": "shop", "name": 5}})),
    ] {
        assert_eq!(read_pod(&value), None, "{rule}");
    }
}

#[test]
fn garbage_never_panics_and_harms_nothing_else() {
    for (rule, pointer, value) in [
        ("labels", "/metadata/labels", json!([1])),
        ("a label that is no text", "/metadata/labels", json!({"a": 1})),
        ("annotations", "/metadata/annotations", json!("x")),
        ("owner references", "/metadata/ownerReferences", json!({"kind": "x"})),
        ("an owner without name", "/metadata/ownerReferences", json!([{"controller": true, "kind": "X"}])),
        ("a time", "/metadata/creationTimestamp", json!("yesterday")),
        ("status", "/status", json!("gone")),
        ("statuses", "/status/containerStatuses", json!({"app": 1})),
        ("a status", "/status/containerStatuses", json!([null, 1, {"name": 1}, {"name": "app", "state": 5}])),
        (
            "a kill at no time",
            "/status/containerStatuses",
            json!([{"name": "app", "state": {"terminated": {"reason": "OOMKilled", "finishedAt": null}}},
                {"name": "app", "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "soon"}}},
                {"name": "app", "lastState": {"terminated": "OOMKilled"}}]),
        ),
        ("init statuses", "/status/initContainerStatuses", json!(true)),
    ] {
        let facts = read_pod(&Pod::app("x").set(pointer, value).0);
        if let Some(facts) = facts {
            assert_eq!(facts.kills, vec![], "{rule}");
        }
    }
}

fn killed(rule: &str, pod: &Pod) -> Vec<(String, i64)> {
    let facts = read_pod(&pod.0).expect(rule);
    let mut kills: Vec<_> = facts.kills.into_iter().map(|kill| (kill.container, kill.nanos)).collect();
    kills.sort();
    kills
}

#[test]
fn kills_in_statuses() {
    let at = start() + HOUR;
    let ended = |reason: &str| json!({"terminated": {"reason": reason, "finishedAt": text(at)}});
    let status = |name: &str, state: &str, value: &Value| json!({"name": name, state: value});
    let sidecar = Pod::app("x")
        .set("/status/initContainerStatuses", json!([status("mesh", "lastState", &ended("OOMKilled"))]));
    let both = Pod::app("x").killed("app", "state", at + HOUR).killed("app", "lastState", at);
    for (rule, pod, expected) in [
        ("ended now", Pod::app("x").killed("app", "state", at), vec![("app", at)]),
        ("ended before", Pod::app("x").killed("app", "lastState", at), vec![("app", at)]),
        ("both", both, vec![("app", at), ("app", at + HOUR)]),
        ("a sidecar", sidecar, vec![("mesh", at)]),
        (
            "Failed, never restarted",
            Pod::app("x").phase("Failed").killed("app", "state", at),
            vec![("app", at)],
        ),
        (
            "another reason",
            Pod::app("x").set("/status/containerStatuses", json!([status("app", "state", &ended("Error"))])),
            vec![],
        ),
        (
            "runs",
            Pod::app("x")
                .set("/status/containerStatuses", json!([{"name": "app", "state": {"running": {}}}])),
            vec![],
        ),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(name, at)| (name.to_owned(), at)).collect();
        assert_eq!(killed(rule, &pod), expected, "{rule}");
    }
}

#[test]
fn evictions() {
    let (started, evicted) = (start() + HOUR, start() + 2 * HOUR);
    let low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50676Ki. ";
    let named =
        format!("{low}Container app was using 2Gi, request is 1Gi, has larger consumption of memory. ");
    let two =
        format!("{named}Container side was using 1Gi, request is 0, has larger consumption of memory. ");
    let disrupted = json!([{"type": "Ready", "status": "False", "lastTransitionTime": text(start())},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": text(evicted)}]);
    for (rule, reason, message, conditions, expected) in [
        ("a container that is named", "Evicted", named.as_str(), &disrupted, vec![("app", evicted)]),
        ("two of them", "Evicted", &two, &disrupted, vec![("app", evicted), ("side", evicted)]),
        ("none is named: all", "Evicted", low, &disrupted, vec![("app", evicted), ("side", evicted)]),
        ("no time of the eviction: the pod's start", "Evicted", &named, &json!([]), vec![("app", started)]),
        (
            "for disk",
            "Evicted",
            "The node was low on resource: ephemeral-storage. Container app was using 5Gi, request is 0.",
            &disrupted,
            vec![],
        ),
        (
            "for its own disk",
            "Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            &disrupted,
            vec![],
        ),
        ("by priority", "Preempted", &named, &disrupted, vec![]),
        ("no message", "Evicted", "", &disrupted, vec![]),
    ] {
        let pod = Pod::app("x").container("side", &json!({})).set(
            "/status",
            json!({"phase": "Failed", "reason": reason, "message": message, "startTime": text(started),
                "conditions": conditions}),
        );
        let expected: Vec<_> = expected.into_iter().map(|(name, at)| (name.to_owned(), at)).collect();
        assert_eq!(killed(rule, &pod), expected, "{rule}");
    }
    let status = json!({"phase": "Failed", "reason": "Evicted", "message": named});
    assert_eq!(killed("no time at all", &Pod::app("x").set("/status", status)), vec![]);
}

#[test]
fn the_first_controller_counts() {
    let both = json!([reference(("v1", "ConfigMap", "a")), reference(("apps/v1", "StatefulSet", "db"))]);
    let mut references = both;
    references[0]["controller"] = false.into();
    let facts = Pod::app("x").set("/metadata/ownerReferences", references).facts();
    assert_eq!(facts.controller.unwrap().workload.name, "db");
}
