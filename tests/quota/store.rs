//! Ledgers, in a cluster and in memory: both keep the same promise.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::cluster::WriteError;
use plimsoll::crd::{LedgerCounts, LedgerTree, QuotaLedgerSpec};
use plimsoll::metrics::Metrics;
use plimsoll::quota::{ClusterLedgerStore, Faults, LedgerStore, MemoryLedgerStore};
use serde_json::json;

use super::fake::FakeApi;

const PATH: &str = "/apis/plimsoll.dev/v1alpha1/namespaces/plimsoll-system/quotaledgers/plimsoll-elastic";
const LIMIT: Duration = Duration::from_secs(2);

fn spec(data: &str) -> QuotaLedgerSpec {
    QuotaLedgerSpec {
        data: data.to_owned(),
        epoch: 3,
        tree: LedgerTree { name: "elastic".to_owned(), uid: "t".to_owned(), generation: 7 },
        initialised: true,
        counts: LedgerCounts { pods: 5, reservations: 2, claims: 1 },
    }
}

fn in_cluster(fake: &FakeApi, metrics: &Arc<Metrics>) -> ClusterLedgerStore {
    ClusterLedgerStore::new(fake.client(), "plimsoll-system".to_owned(), LIMIT, Arc::clone(metrics))
}

/// What every store promises. `delete` is what somebody does with `kubectl`.
async fn keeps_its_promise(store: impl LedgerStore, delete: impl Fn()) {
    assert_eq!(store.read("elastic").await.unwrap(), None);
    let made = store.create("elastic", &spec("a")).await.unwrap();
    assert!(!made.deleting);
    assert_eq!(store.read("elastic").await.unwrap().as_ref(), Some(&made));
    assert!(matches!(
        store.create("elastic", &spec("b")).await.unwrap_err(),
        WriteError::AlreadyExists { .. }
    ));

    let second = store.replace("elastic", &made.version, &spec("b")).await.unwrap();
    assert_eq!((second.spec.data.as_str(), &second.version.uid), ("b", &made.version.uid));
    let error = store.replace("elastic", &made.version, &spec("c")).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "of two writers one is first: {error}");
    assert_eq!(store.read("elastic").await.unwrap(), Some(second.clone()));

    delete();
    let deleted = store.read("elastic").await.unwrap().unwrap();
    assert!(deleted.deleting, "it stays");
    let late = store.replace("elastic", &deleted.version, &spec("late")).await.unwrap();
    let error = store.recreate("elastic", &deleted).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "what came late is not lost: {error}");
    let late_again = store.read("elastic").await.unwrap().unwrap();
    assert_eq!((late_again.deleting, &late_again.version), (true, &late.version));
    let fresh = store.recreate("elastic", &late_again).await.unwrap();
    assert_eq!((fresh.deleting, &fresh.spec), (false, &spec("late")));
    assert_ne!(fresh.version.uid, late.version.uid);
    assert_eq!(store.read("elastic").await.unwrap(), Some(fresh));

    let error = store.replace("elastic", &late.version, &spec("d")).await.unwrap_err();
    assert!(
        matches!(error, WriteError::Conflict { .. }),
        "the old object's version is none of the new one's"
    );
    let error = store.replace("other", &late.version, &spec("d")).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn of_two_writers_one_is_first_in_a_cluster() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    keeps_its_promise(in_cluster(&fake, &metrics), || fake.delete(PATH)).await;
    let text = metrics.encode();
    for line in [
        "plimsoll_quota_ledger_writes_total{result=\"conflict\"} 4",
        "plimsoll_quota_ledger_bytes 4",
        "plimsoll_quota_ledger_reservations 2",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
}

#[tokio::test]
async fn of_two_writers_one_is_first_in_memory() {
    let store = MemoryLedgerStore::default();
    keeps_its_promise(store.clone(), || store.delete("elastic")).await;
}

#[tokio::test]
async fn the_object_is_as_people_expect_it() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    let store = in_cluster(&fake, &metrics);
    store.create("elastic", &spec("a")).await.unwrap();
    let object = fake.object(PATH).unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!(["plimsoll.dev/quota-ledger"]));
    assert_eq!(object["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "plimsoll"}));
    assert_eq!(
        object["spec"],
        json!({
            "data": "a", "epoch": 3, "initialised": true,
            "tree": {"name": "elastic", "uid": "t", "generation": 7},
            "counts": {"pods": 5, "reservations": 2, "claims": 1},
        })
    );
    store.read("elastic").await.unwrap();
    let seen = fake.seen();
    assert!(seen[0].query.contains("fieldManager=plimsoll-quota"), "{}", seen[0].query);
    assert!(!seen[1].query.contains("resourceVersion"), "an answer from a cache would be an old one");
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    let store = in_cluster(&fake, &metrics);
    for (rule, code, reason, message, details, expected) in [
        (
            "no CRD",
            404,
            "NotFound",
            "404 page not found",
            json!({}),
            "the CRD quotaledgers.plimsoll.dev is not installed",
        ),
        (
            "no right",
            403,
            "Forbidden",
            "cannot get",
            json!({"name": "x"}),
            "grant get on quotaledgers.plimsoll.dev",
        ),
        ("too busy", 429, "TooManyRequests", "later", json!({}), "later (429)"),
    ] {
        fake.fail_next(code, reason, message, &details);
        let error = store.read("elastic").await.unwrap_err();
        assert!(error.to_string().contains(expected), "{rule}: {error}");
    }
    fake.put(PATH, json!({"metadata": {}, "spec": {"data": 5}}));
    let error = store.read("elastic").await.unwrap_err();
    assert!(error.to_string().contains("the answer is no QuotaLedger"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_call_takes_longer_than_its_time() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    let store = in_cluster(&fake, &metrics);
    let made = store.create("elastic", &spec("a")).await.unwrap();
    fake.cut_off("anybody", true);
    let began = tokio::time::Instant::now();
    let error = store.replace("elastic", &made.version, &spec("b")).await.unwrap_err();
    assert!(matches!(error, WriteError::Unavailable { .. }), "{error}");
    assert_eq!(began.elapsed(), LIMIT);
}

#[tokio::test]
async fn content_that_only_one_process_has_is_written_again() {
    let (fake, metrics) = (FakeApi::default(), Arc::new(Metrics::new("test")));
    let store = in_cluster(&fake, &metrics);
    store.create("elastic", &spec("a")).await.unwrap();
    fake.delete(PATH);
    let deleted = store.read("elastic").await.unwrap().unwrap();
    // The object is let go, and then the API server stumbles.
    let flaky = fake.clone();
    flaky.fail_at("POST", 503, "ServiceUnavailable", "starting");
    let fresh = store.recreate("elastic", &deleted).await.unwrap();
    assert_eq!(fresh.spec, spec("a"));
}

#[tokio::test(start_paused = true)]
async fn faults_in_memory_are_those_asked_for() {
    let store = MemoryLedgerStore::default();
    let made = store.create("elastic", &spec("a")).await.unwrap();
    store.set_faults(Faults {
        conflicts: 1,
        lost_answers: 1,
        delay: Duration::from_millis(50),
        ..Faults::default()
    });
    let began = tokio::time::Instant::now();
    let error = store.replace("elastic", &made.version, &spec("b")).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }));
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    let error = store.replace("elastic", &made.version, &spec("b")).await.unwrap_err();
    assert!(matches!(error, WriteError::Unavailable { .. }));
    let now = store.read("elastic").await.unwrap().unwrap();
    assert_eq!(now.spec.data, "b", "it happened, and nobody was told");
    assert_eq!(store.writes(), 2);
    store.set_faults(Faults { down: true, ..Faults::default() });
    assert!(store.read("elastic").await.is_err());
    store.set_faults(Faults::default());
    store.vanish("elastic");
    assert_eq!(store.read("elastic").await.unwrap(), None);
}
