//! Evictions, owners that try again, and the status of the tree.

use std::sync::Arc;

use http::Method;
use plimsoll::cluster::WriteError;
use plimsoll::metrics::Metrics;
use plimsoll::quota::evict::Mode;
use plimsoll::quota::owner::can_be_told;
use plimsoll::quota::{Evicted, Evictor, OwnerRetry, Retrier, StatusWriter, Written};
use plimsoll_core::pod::{Owner, Workload};
use plimsoll_core::quota::Tree;
use serde_json::json;

use super::fake::FakeApi;

#[tokio::test]
async fn evictions_end_in_one_of_four_ways() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    let evictor = Evictor::new(fake.client(), Arc::clone(&metrics));
    assert_eq!(evictor.evict("shop", "web-0", "1", Mode::DryRun).await, Evicted::Yes);
    fake.remove("/api/v1/namespaces/shop/pods/web-0/eviction/web-0");
    assert_eq!(evictor.evict("shop", "web-0", "1", Mode::Real).await, Evicted::Yes);
    let seen = fake.seen();
    assert!(seen.iter().all(|seen| seen.path == "/api/v1/namespaces/shop/pods/web-0/eviction"));
    assert!(seen[0].query.contains("dryRun=All") && !seen[1].query.contains("dryRun"));
    assert_eq!(
        seen[0].body["deleteOptions"],
        json!({"preconditions": {"uid": "1"}, "dryRun": ["All"]}),
        "nothing but a try, and of that pod only"
    );
    assert_eq!(
        seen[1].body,
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "shop", "name": "web-0"},
            "deleteOptions": {"preconditions": {"uid": "1"}},
        })
    );
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    let two =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    for (rule, code, reason, message, expected) in [
        ("gone", 404, "NotFound", "pods \"web-0\" not found", "gone"),
        ("another of its name", 409, "Conflict", "the UID in the precondition does not match", "gone"),
        ("budget", 429, "TooManyRequests", budget, "refused"),
        ("two budgets", 500, "InternalError", two, "refused"),
        ("a busy API server is no budget", 429, "TooManyRequests", "please try again later", "failed"),
        ("no right, or a webhook that says no", 403, "Forbidden", "cannot create resource", "refused"),
    ] {
        fake.fail_next(code, reason, message, &json!({"name": "web-0"}));
        let found = evictor.evict("shop", "web-0", "1", Mode::Real).await;
        let word = match &found {
            Evicted::Yes => "evicted",
            Evicted::Gone => "gone",
            Evicted::Refused { .. } => "refused",
            Evicted::Failed(_) => "failed",
        };
        assert_eq!(word, expected, "{rule}: {found:?}");
    }
    let text = metrics.encode();
    for (result, count) in [("evicted", 1), ("gone", 2), ("refused", 3), ("failed", 1)] {
        let line = format!("plimsoll_quota_evictions_total{{result=\"{result}\"}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

fn owner(api_version: &str, kind: &str) -> Owner {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Owner {
        workload: Workload { group: group.to_owned(), kind: kind.to_owned(), name: "web".to_owned() },
        api_version: api_version.to_owned(),
        uid: "u".to_owned(),
    }
}

#[tokio::test]
async fn owners_are_told_by_an_annotation() {
    let fake = FakeApi::default();
    let retrier = Retrier::new(fake.client());
    for (owner, path) in [
        (owner("apps/v1", "ReplicaSet"), "/apis/apps/v1/namespaces/shop/replicasets/web"),
        (owner("apps/v1", "StatefulSet"), "/apis/apps/v1/namespaces/shop/statefulsets/web"),
        (owner("apps/v1", "DaemonSet"), "/apis/apps/v1/namespaces/shop/daemonsets/web"),
        (owner("batch/v1", "Job"), "/apis/batch/v1/namespaces/shop/jobs/web"),
        (owner("v1", "ReplicationController"), "/api/v1/namespaces/shop/replicationcontrollers/web"),
    ] {
        assert!(can_be_told(&owner));
        assert_eq!(retrier.tell("shop", &owner, "1").await.unwrap(), OwnerRetry::Gone, "{path}");
        fake.put(path, json!({"metadata": {"name": "web"}}));
        let mut owner = owner;
        owner.uid = fake.object(path).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        assert_eq!(retrier.tell("shop", &owner, "2").await.unwrap(), OwnerRetry::Told, "{path}");
        let object = fake.object(path).unwrap();
        assert_eq!(object["metadata"]["annotations"], json!({"plimsoll.dev/quota-retry": "2"}), "{path}");
        owner.uid = "of-another".to_owned();
        assert_eq!(retrier.tell("shop", &owner, "3").await.unwrap(), OwnerRetry::Gone, "{path}");
        let object = fake.object(path).unwrap();
        assert_eq!(object["metadata"]["annotations"], json!({"plimsoll.dev/quota-retry": "2"}), "{path}");
    }
    let count = fake.seen().len();
    for other in [owner("example.org/v1", "ReplicaSet"), owner("apps.kruise.io/v1alpha1", "CloneSet")] {
        assert!(!can_be_told(&other));
        assert_eq!(retrier.tell("shop", &other, "1").await.unwrap(), OwnerRetry::Unpatchable);
    }
    assert_eq!(fake.seen().len(), count, "and nobody is called");
    fake.fail_next(403, "Forbidden", "cannot patch", &json!({"name": "web"}));
    let error = retrier.tell("shop", &owner("batch/v1", "Job"), "1").await.unwrap_err();
    assert!(error.to_string().contains("grant patch on jobs.batch"), "{error}");
}

#[tokio::test]
async fn the_status_is_replaced_as_a_whole() {
    const PATH: &str =
        "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees/elastic";
    let fake = FakeApi::default();
    let writer = StatusWriter::new(fake.client());
    let tree = |uid: &str| Tree::new("elastic", uid, 1, []);
    let status = json!({"root": {"used": {"cpu": "5"}}});
    assert_eq!(writer.write(&tree("1"), &status).await.unwrap(), Written::Gone);

    fake.put(PATH, json!({"metadata": {"name": "elastic"}, "status": {"root": {"used": {"gpu": "1"}}}}));
    let uid = fake.object(PATH).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(writer.write(&tree(&uid), &status).await.unwrap(), Written::Yes);
    assert_eq!(fake.object(PATH).unwrap()["status"], status, "nothing of the old one stays");
    let write = fake.seen().pop().unwrap();
    assert_eq!((write.method, write.path), (Method::PATCH, format!("{PATH}/status")));

    assert_eq!(writer.write(&tree("another"), &json!({})).await.unwrap(), Written::Gone);
    assert_eq!(fake.object(PATH).unwrap()["status"], status);

    fake.fail_next(404, "NotFound", "elasticquotatrees \"elastic\" not found", &json!({"name": "elastic"}));
    assert_eq!(writer.write(&tree(&uid), &status).await.unwrap(), Written::NoSubresource);

    // A CRD with another schema says 422, as a tree of another uid does.
    let invalid = "ElasticQuotaTree.scheduling.sigs.k8s.io \"elastic\" is invalid: status.root.used: must be of type string";
    fake.fail_at("PATCH", 422, "Invalid", invalid);
    let error = writer.write(&tree(&uid), &status).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, WriteError::Refused { code: 422, .. }), "{text}");
    for part in ["kube-system/elastic", "status.root.used", "plimsoll manifests crds"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
