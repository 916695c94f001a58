//! Targets are put back: by the webhook, or without it.

use http::Method;
use serde_json::{Value, json};

use crate::Run;
use crate::api::{Api, hpa_path, status};
use crate::objects::{average_value, hpa, record, utilization};

const NOW: &str = "--settle 0s --hold 0s";

/// An autoscaler that was converted; its author owns its targets by server-side apply.
fn converted(name: &str) -> Value {
    let mut hpa = hpa(name, &[average_value("800m")], Some(&record()));
    hpa["metadata"]["annotations"]["team"] = json!("web");
    hpa["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:metrics": {}, "f:maxReplicas": {}}}},
        {"manager": "kcm", "operation": "Update", "subresource": "status", "fieldsV1": {"f:spec": {}}},
    ]);
    hpa
}

fn put(api: &Api, hpas: impl IntoIterator<Item = Value>) {
    for hpa in hpas {
        let path = hpa_path(hpa["metadata"]["name"].as_str().unwrap());
        api.put(&path, hpa);
    }
}

fn is_restored(api: &Api, name: &str) {
    has_targets_and_annotations(api, name, &json!({"team": "web"}));
}

/// One that was named is left alone from then on.
fn is_restored_and_opted_out(api: &Api, name: &str) {
    has_targets_and_annotations(api, name, &json!({"team": "web", "plimsoll.dev/overcommit": "disabled"}));
}

fn has_targets_and_annotations(api: &Api, name: &str, annotations: &Value) {
    let hpa = api.get(&hpa_path(name));
    assert_eq!(hpa["spec"]["metrics"], json!([utilization(80)]), "{name}");
    assert_eq!(hpa["metadata"]["annotations"], *annotations, "{name}");
}

/// What became of each, by name.
fn results(run: &Run) -> Value {
    let hpas = run.json()["hpas"].as_array().unwrap().clone();
    hpas.iter().map(|hpa| (hpa["name"].as_str().unwrap().to_owned(), hpa["result"].clone())).collect()
}

#[test]
fn the_webhook_does_it_in_one_request_each() {
    let api = Api::start(true);
    put(&api, ["a", "b", "c"].map(converted));
    put(&api, [hpa("plain", &[utilization(50)], None)]);
    let before = api.get(&hpa_path("plain"));
    let run = api.run(&format!("hpa restore --all -o json {NOW}"));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(results(&run), json!({"a": "restored", "b": "restored", "c": "restored"}));
    let answer = run.json();
    assert_eq!(answer["hpas"][0]["byWebhook"], true);
    assert_eq!(answer["hpas"][0]["targets"], json!([{"metric": "cpu", "from": "800m", "to": "80 %"}]));
    assert_eq!(answer["summary"]["restored"], 3);
    for name in ["a", "b", "c"] {
        is_restored(&api, name);
        assert_eq!(
            api.get(&hpa_path(name))["metadata"]["managedFields"],
            converted(name)["metadata"]["managedFields"]
        );
    }
    assert_eq!(api.get(&hpa_path("plain")), before, "what is not converted is not touched");
    let writes = api.writes();
    assert_eq!(writes.len(), 3, "{writes:?}");
    for write in &writes {
        let sync = json!({"metadata": {"annotations": {"plimsoll.dev/hpa-sync": r#"{"restore":true}"#}}});
        assert_eq!(write.body, sync, "nothing but the annotation");
        assert_eq!(write.query["fieldManager"], "plimsoll-hpa-restore");
    }
    let again = api.run(&format!("hpa restore --all {NOW}"));
    assert_eq!((again.code, api.writes().len()), (0, 3), "{again:?}");
    assert!(again.out.contains("there is nothing to restore"), "{again:?}");
}

#[test]
fn without_the_webhook_it_is_written_and_not_owned() {
    let api = Api::start(false);
    put(&api, [converted("a")]);
    let run = api.run(&format!("hpa restore --all {NOW}"));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("shop       a     cpu     800m  80 %  restored"), "{}", run.out);
    assert!(run.out.ends_with("\nAutoscalers: 1 restored\n"), "{}", run.out);
    is_restored(&api, "a");
    let hpa = api.get(&hpa_path("a"));
    let managers: Vec<_> = hpa["metadata"]["managedFields"].as_array().unwrap().iter().collect();
    let managers: Vec<_> = managers.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(managers, ["kubectl", "kcm"], "an apply of the author meets no other owner");
    let writes = api.writes();
    assert_eq!(writes.len(), 3, "ask, write, give up: {writes:?}");
    assert!(writes[1..].iter().all(|write| write.body[0]["op"] == "test"), "{writes:?}");
    assert!(api.seen().iter().all(|seen| [Method::GET, Method::PATCH].contains(&seen.method)));
}

#[test]
fn nobody_else_owned_anything() {
    let api = Api::start(false);
    let mut bare = converted("a");
    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
    put(&api, [bare]);
    assert_eq!(api.run(&format!("hpa restore a {NOW}")).code, 0);
    assert_eq!(
        api.get(&hpa_path("a"))["metadata"]["managedFields"],
        json!([{}]),
        "no owners, not the old ones"
    );
}

#[test]
fn others_that_write_in_between_are_waited_for() {
    let change = |objects: &mut crate::api::Objects| {
        let mut hpa = objects.by_path[&hpa_path("a")].clone();
        hpa["spec"]["maxReplicas"] = json!(99);
        objects.store(&hpa_path("a"), hpa);
    };
    let api = Api::start(false);
    put(&api, [converted("a")]);
    api.pass(); // get
    api.pass(); // the annotation
    api.meddle(move |objects, _| {
        change(objects);
        None
    }); // the test of the version fails
    api.pass(); // get
    api.fail(409, "Conflict", "the object has been modified");
    let run = api.run(&format!("hpa restore a -n shop -o json {NOW}"));
    assert_eq!((run.code, results(&run)), (0, json!({"a": "restored"})), "{run:?}");
    is_restored_and_opted_out(&api, "a");
    assert_eq!(api.get(&hpa_path("a"))["spec"]["maxReplicas"], 99, "what they wrote is kept");
}

#[test]
fn an_api_server_that_is_away_for_a_moment_is_asked_again() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    api.fail(503, "ServiceUnavailable", "etcd has no leader"); // list
    api.pass();
    api.fail(500, "InternalError", "failed calling webhook"); // the annotation
    let run = api.run(&format!("hpa restore --all -o json {NOW}"));
    assert_eq!((run.code, results(&run)), (0, json!({"a": "restored"})), "{run:?}");
    is_restored(&api, "a");
}

#[test]
fn a_record_that_cannot_be_read_is_left_alone_and_the_others_go_on() {
    let broken = |name: &str, record: &Value| {
        let mut hpa = hpa(name, &[average_value("800m")], Some(record));
        hpa["metadata"]["annotations"]["team"] = json!("web");
        hpa
    };
    for webhook in [true, false] {
        let api = Api::start(webhook);
        let no_target = json!({"metrics": [{"type": "Resource", "resource": "cpu"}]});
        put(&api, [converted("a"), broken("b", &json!("cut")), broken("c", &no_target), converted("d")]);
        let before = ["b", "c"].map(|name| api.get(&hpa_path(name)));
        let run = api.run(&format!("hpa restore --all -o json {NOW}"));
        assert_eq!(run.code, 1, "{run:?}");
        assert_eq!(
            results(&run),
            json!({"a": "restored", "b": "unreadable", "c": "unreadable", "d": "restored"})
        );
        let message = run.json()["hpas"][1]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("plimsoll.dev/hpa-original cannot be read"), "{message}");
        assert_eq!(before, ["b", "c"].map(|name| api.get(&hpa_path(name))));
        is_restored(&api, "a");
        is_restored(&api, "d");
    }
}

#[test]
fn only_what_is_ours_goes_back() {
    let own = hpa("own", &[average_value("123m")], Some(&record()));
    let both = hpa("both", &[average_value("800m"), utilization(60)], Some(&record()));
    let mut left = hpa("left", &[average_value("5")], None);
    left["metadata"]["annotations"] = json!({"plimsoll.dev/hpa-sync": "{}"});
    for webhook in [true, false] {
        let api = Api::start(webhook);
        put(&api, [own.clone(), both.clone(), left.clone()]);
        let run = api.run(&format!("hpa restore --all {NOW}"));
        assert_eq!(run.code, 0, "{run:?}");
        for (rule, name, expected) in [
            ("the author's own value stays", "own", average_value("123m")),
            ("a utilization beside ours stays alone", "both", utilization(60)),
            ("an annotation that was left behind goes", "left", average_value("5")),
        ] {
            let hpa = api.get(&hpa_path(name));
            assert_eq!(hpa["spec"]["metrics"], json!([expected]), "{rule}");
            assert_eq!(hpa["metadata"]["annotations"], json!({}), "{rule}");
        }
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    let run = api.run("hpa restore --all --dry-run");
    assert_eq!((run.code, api.writes().len()), (0, 0), "{run:?}");
    assert!(run.out.contains("cpu     800m  80 %  would be restored"), "{}", run.out);
}

#[test]
fn one_by_its_name() {
    let api = Api::start(true);
    put(&api, [converted("a"), converted("b"), hpa("plain", &[utilization(50)], None)]);
    assert_eq!(api.run(&format!("hpa restore a {NOW}")).code, 0, "the namespace is that of the context");
    is_restored_and_opted_out(&api, "a");
    assert_eq!(api.get(&hpa_path("b"))["spec"]["metrics"], json!([average_value("800m")]));
    let plain = api.run(&format!("hpa restore plain -n shop {NOW}"));
    assert_eq!(plain.code, 0, "{plain:?}");
    assert!(plain.out.contains("nothing to restore"), "{plain:?}");
    for (rule, arguments, said) in [
        ("no such name", "hpa restore x", "there is no HorizontalPodAutoscaler shop/x"),
        (
            "no such namespace",
            "hpa restore a -n elsewhere",
            "there is no HorizontalPodAutoscaler elsewhere/a",
        ),
        ("neither", "hpa restore", "required arguments were not provided"),
        ("both", "hpa restore a --all", "cannot be used with"),
        ("no time", "hpa restore a --timeout soon", "is not a duration"),
    ] {
        let run = api.run(arguments);
        assert_eq!(run.code, 2, "{rule}: {run:?}");
        assert!(run.err.contains(said), "{rule}: {run:?}");
    }
}

#[test]
fn failures_are_told() {
    let api = Api::start(true);
    put(&api, [converted("a"), converted("b")]);
    api.pass(); // list
    api.meddle(|_, seen| {
        assert_eq!(seen.method, Method::PATCH);
        Some(status(403, "Forbidden", "may not"))
    });
    let run = api.run(&format!("hpa restore --all {NOW} -o json"));
    assert_eq!(run.code, 3, "{run:?}");
    let results = results(&run);
    let failed = if results["a"] == "failed" { ("a", "b") } else { ("b", "a") };
    assert_eq!(results[failed.1], "restored", "the others go on");
    is_restored(&api, failed.1);
    assert!(run.out.contains("grant patch on horizontalpodautoscalers.autoscaling"), "{run:?}");

    api.fail(403, "Forbidden", "may not list");
    let run = api.run("hpa restore --all");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("grant list on horizontalpodautoscalers.autoscaling"), "{run:?}");
}

#[test]
fn no_longer_than_it_may_take() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    api.meddle(|_, _| Some((0, Value::Null))); // never answered
    let run = api.run("hpa restore --all --timeout 1s");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("within --timeout"), "{run:?}");
    api.pass();
    api.meddle(|_, _| Some((0, Value::Null)));
    let run = api.run("hpa restore --all --timeout 1s --hold 0s -o json");
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(run.json()["hpas"][0]["message"], "not done within --timeout");
}

#[test]
fn a_server_that_converts_again_is_told() {
    let api = Api::start(true);
    put(&api, [converted("a"), converted("b")]);
    for _ in 0..3 {
        api.pass(); // list, two annotations
    }
    api.meddle(|objects, seen| {
        assert_eq!(seen.method, Method::GET);
        objects.store(&hpa_path("a"), converted("a"));
        None
    });
    let run = api.run("hpa restore --all --settle 1s --hold 0s -o json");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(results(&run), json!({"a": "convertedAgain", "b": "restored"}));
    assert!(run.out.contains("stop it first"), "{run:?}");

    // In the same request, by a webhook that does not know what it is asked for.
    let api = Api::start(false);
    put(&api, [converted("a")]);
    api.pass();
    api.pass();
    api.meddle(|objects, _| Some((200, objects.by_path[&hpa_path("a")].clone())));
    let run = api.run(&format!("hpa restore a {NOW}"));
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.out.contains("converted again in the same request"), "{run:?}");
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases/plimsoll-hpa";

#[test]
fn the_keeper_is_made_to_stand_still_first() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    api.put(LEASE, json!({"metadata": {"name": "plimsoll-hpa"}, "spec": {"holderIdentity": "web_1", "leaseDurationSeconds": 1}}));
    let run = api.run("hpa restore --all --settle 0s --hold 5m -o json");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.json().get("keeper"), None);
    let lease = api.get(LEASE);
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseDurationSeconds"]),
        (&json!("plimsoll-hpa-restore"), &json!(300))
    );
    let order: Vec<_> = api.writes().iter().map(|write| write.method.clone()).collect();
    assert_eq!(order, [Method::PUT, Method::PATCH], "before anything is restored");
    is_restored(&api, "a");
}

#[test]
fn without_the_right_to_leases_it_is_tried_all_the_same() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    // The list and the read of the lease come first.
    api.pass();
    api.fail(403, "Forbidden", "leases is forbidden");
    let run = api.run("hpa restore --all --settle 0s");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.contains("could not be made to stand still") && run.out.contains("leases is forbidden"),
        "{run:?}"
    );
    is_restored(&api, "a");
}

/// What takes long says so on standard error, and the answer stays one that programs read.
#[test]
fn how_far_it_is() {
    let api = Api::start(true);
    put(&api, [converted("a")]);
    // Three quarters of it are waited for.
    api.put(LEASE, json!({"metadata": {"name": "plimsoll-hpa"}, "spec": {"holderIdentity": "web_1", "leaseDurationSeconds": 8}}));
    let run = api.run("hpa restore --all --settle 0s --hold 5m -o json");
    assert_eq!((run.code, results(&run)), (0, json!({"a": "restored"})), "{run:?}");
    let mut told = run.err.lines();
    assert!(told.next().is_some_and(|line| line.starts_with("progress: restoring autoscalers: ")), "{run:?}");
    assert!(told.all(|line| line.starts_with("progress: ")), "{run:?}");
}
