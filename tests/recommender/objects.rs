//! Recommendations and checkpoints as they are written.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use plimsoll::cluster::Limiter;
use plimsoll::metrics::Metrics;
use plimsoll::recommender::{Checkpoints, Next, Owner, Recommendations, Version, WriteError};
use serde_json::{Value, json};

use super::fake::FakeApi;

const REC: &str = "/apis/plimsoll.dev/v1alpha1/namespaces/shop/recommendations/deployment-web";
const UCP: &str = "/apis/plimsoll.dev/v1alpha1/namespaces/shop/usagecheckpoints/deployment-web";

fn recommendations(fake: &FakeApi) -> Recommendations {
    Recommendations::new(fake.client(), Arc::new(Limiter::new(1000)), Arc::new(Metrics::new("test")))
}

fn checkpoints(fake: &FakeApi) -> Checkpoints {
    Checkpoints::new(fake.client(), Arc::new(Limiter::new(1000)), Arc::new(Metrics::new("test")))
}

fn owner() -> Owner {
    Owner {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "web".into(),
        uid: "uid-web".into(),
    }
}

fn spec(profile: &str) -> Value {
    json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "profile": profile})
}

#[tokio::test]
async fn a_recommendation_lives_and_dies() {
    let fake = FakeApi::default();
    let all = recommendations(&fake);
    let made = all.create("shop", "deployment-web", Some(&owner()), &spec("shared")).await.unwrap();
    let stored = fake.object(REC).unwrap();
    assert_eq!(Version::of(&stored), Some(made.clone()));
    assert_eq!(stored["apiVersion"], "plimsoll.dev/v1alpha1");
    assert_eq!(stored["kind"], "Recommendation");
    assert_eq!(
        stored["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web",
                "controller": false, "blockOwnerDeletion": false}])
    );

    let status = json!({"containers": [{"name": "app"}], "conditions": [{"type": "Ready"}]});
    all.put_status("shop", "deployment-web", &status).await.unwrap();
    assert_eq!(fake.object(REC).unwrap()["status"], status);
    let status = json!({"conditions": [{"type": "NoPods"}]});
    all.put_status("shop", "deployment-web", &status).await.unwrap();
    assert_eq!(fake.object(REC).unwrap()["status"], status, "what is not in the new status is gone");
    let write = fake.seen().pop().unwrap();
    assert_eq!((write.method, write.path.as_str()), (Method::PATCH, format!("{REC}/status").as_str()));
    assert!(write.query.contains("fieldManager=plimsoll-recommender"), "{}", write.query);

    let mut by_pod = spec("other");
    by_pod["podName"] = json!("web-0");
    all.update("shop", "deployment-web", Some(&owner()), &by_pod).await.unwrap();
    assert_eq!(fake.object(REC).unwrap()["spec"], by_pod);
    all.update("shop", "deployment-web", None, &spec("third")).await.unwrap();
    let stored = fake.object(REC).unwrap();
    assert_eq!((&stored["spec"], &stored["metadata"]["ownerReferences"]), (&spec("third"), &json!([])));
    assert_eq!(stored["status"], status, "the status stays");

    let error = all.delete("shop", "deployment-web", "uid-of-another").await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
    all.delete("shop", "deployment-web", &made.uid).await.unwrap();
    assert_eq!(fake.object(REC), None);
    all.delete("shop", "deployment-web", &made.uid).await.unwrap();
}

#[tokio::test]
async fn lists_come_page_by_page_and_whole() {
    let fake = FakeApi::default();
    for number in 0..120 {
        let path = format!("/apis/plimsoll.dev/v1alpha1/namespaces/shop/usagecheckpoints/c{number}");
        fake.put(&path, json!({"metadata": {"name": format!("c{number}"), "namespace": "shop"}, "spec": {}}));
    }
    let mut names = Vec::new();
    let mut each = |object: Value| {
        assert!(Version::of(&object).is_some());
        names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
    };
    checkpoints(&fake).list(&mut each).await.unwrap();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 120);
    assert_eq!(fake.seen().len(), 3);
    let mut none = |_: Value| panic!("there are none");
    recommendations(&fake).list(&mut none).await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_replaces_only_what_was_read() {
    let fake = FakeApi::default();
    let all = checkpoints(&fake);
    assert_eq!(all.get("shop", "deployment-web").await.unwrap(), None);
    let content = |samples: u32| json!({"version": 1, "containers": [{"name": "app", "samples": samples, "lastSample": "2026-03-01T10:00:00Z"}]});
    let first = all.create("shop", "deployment-web", Some(&owner()), content(1)).await.unwrap();
    let error = all.create("shop", "deployment-web", None, content(1)).await.unwrap_err();
    assert_eq!(error.next(), Next::Reread, "{error}");

    let second = all.replace("shop", "deployment-web", &first, Some(&owner()), content(2)).await.unwrap();
    assert_eq!(second.uid, first.uid);
    let error = all.replace("shop", "deployment-web", &first, None, content(3)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "update UsageCheckpoint shop/deployment-web: it was changed in the meantime"
    );
    assert_eq!(error.next(), Next::Reread);
    let read = all.get("shop", "deployment-web").await.unwrap().unwrap();
    assert_eq!(Version::of(&read), Some(second.clone()));
    assert_eq!(read["spec"]["containers"][0]["samples"], 2);
    assert_eq!(
        (&read["spec"]["containerCount"], &read["spec"]["lastSample"]),
        (&json!(1), &json!("2026-03-01T10:00:00Z"))
    );

    fake.remove(UCP);
    let error = all.replace("shop", "deployment-web", &second, None, content(4)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let later = |seconds| Next::Retry(Some(Duration::from_secs(seconds)));
    let named = json!({"name": "deployment-web", "kind": "recommendations"});
    for (rule, code, reason, message, details, next, part) in [
        (
            "conflict",
            409,
            "Conflict",
            "modified",
            named.clone(),
            Next::Reread,
            "it was changed in the meantime",
        ),
        (
            "exists",
            409,
            "AlreadyExists",
            "exists",
            named.clone(),
            Next::Reread,
            "there is one of this name already",
        ),
        ("gone", 404, "NotFound", "\"deployment-web\" not found", named.clone(), Next::Reread, "not found"),
        (
            "no CRD",
            404,
            "NotFound",
            "the server could not find the requested resource",
            json!({}),
            later(60),
            "the CRD recommendations.plimsoll.dev is not installed; `plimsoll manifests crds`",
        ),
        (
            "may not",
            403,
            "Forbidden",
            "no",
            named.clone(),
            later(60),
            "grant patch on recommendations/status.plimsoll.dev to the service account",
        ),
        (
            "namespace ends",
            403,
            "Forbidden",
            "unable to create new content in namespace shop because it is being terminated",
            json!({}),
            Next::GiveUp,
            "the namespace is being deleted",
        ),
        (
            "namespace ends, by cause",
            403,
            "Forbidden",
            "no",
            json!({"causes": [{"reason": "NamespaceTerminating"}]}),
            Next::GiveUp,
            "the namespace is being deleted",
        ),
        (
            "too large",
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
            json!({}),
            Next::GiveUp,
            "bytes are too many",
        ),
        (
            "too large for etcd",
            500,
            "",
            "etcdserver: request is too large",
            json!({}),
            Next::GiveUp,
            "bytes are too many",
        ),
        (
            "invalid",
            422,
            "Invalid",
            "spec.x: Invalid value",
            named.clone(),
            Next::GiveUp,
            "spec.x: Invalid value (422)",
        ),
        (
            "throttled",
            429,
            "TooManyRequests",
            "slow down",
            json!({"retryAfterSeconds": 7}),
            later(7),
            "slow down (429)",
        ),
        ("away", 503, "ServiceUnavailable", "away", json!({}), Next::Retry(None), "away (503)"),
    ] {
        let fake = FakeApi::default();
        fake.fail_next(code, reason, message, &details);
        let error =
            recommendations(&fake).put_status("shop", "deployment-web", &json!({})).await.unwrap_err();
        assert_eq!(error.next(), next, "{rule}: {error:?}");
        let text = error.to_string();
        assert!(text.starts_with("patch Recommendation shop/deployment-web: "), "{rule}: {text}");
        assert!(text.contains(part), "{rule}: {text}");
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_failures() {
    let fake = FakeApi::default();
    fake.fail_next(200, "", "", &json!({}));
    let error = recommendations(&fake).put_status("shop", "deployment-web", &json!({})).await.unwrap_err();
    assert_eq!(error.next(), Next::Retry(None), "{error}");
}

#[tokio::test]
async fn writes_are_counted_and_limited() {
    let fake = FakeApi::default();
    let metrics = Arc::new(Metrics::new("test"));
    let limiter = Arc::new(Limiter::new(50));
    let all = Recommendations::new(fake.client(), Arc::clone(&limiter), Arc::clone(&metrics));
    let start = std::time::Instant::now();
    for number in 0..60 {
        all.create("shop", &format!("r{number}"), None, &spec("shared")).await.unwrap();
    }
    // The first is at once, each further one 20 ms later than the one before.
    assert!(start.elapsed() >= Duration::from_millis(59 * 20 - 20), "{:?}", start.elapsed());
    all.create("shop", "r1", None, &spec("shared")).await.unwrap_err();
    fake.fail_next(503, "", "away", &json!({}));
    all.delete("shop", "r1", "u").await.unwrap_err();
    for line in [
        "plimsoll_recommender_writes_total{kind=\"Recommendation\",result=\"success\"} 60",
        "plimsoll_recommender_writes_total{kind=\"Recommendation\",result=\"conflict\"} 1",
        "plimsoll_recommender_writes_total{kind=\"Recommendation\",result=\"failure\"} 1",
    ] {
        assert!(metrics.encode().contains(line), "{line}");
    }
}
