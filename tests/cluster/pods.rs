//! The watch of pods.

use std::sync::Arc;

use plimsoll::cluster::{self, PodChange};
use plimsoll::metrics::Metrics;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fake::{FakeApi, PODS, eventually};
use crate::replica::options;

fn pod(name: &str, phase: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "status": {"phase": phase}})
}

/// Name and phase of pods that are not of no interest.
fn read_pod(pod: &Value) -> Option<String> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let (name, phase) = (text("/metadata/name")?, text("/status/phase")?);
    (phase != "Pending").then(|| format!("{name} {phase}"))
}

fn is_list(change: PodChange<String>, pods: &[&str]) {
    match change {
        PodChange::Listed(found, version) => {
            assert_eq!(found, pods);
            assert!(version.is_some(), "the version of the list");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pods_are_read_where_they_arrive() {
    let fake = FakeApi::start().await;
    for (name, phase) in [("a", "Running"), ("b", "Pending"), ("c", "Failed")] {
        fake.put(PODS, pod(name, phase));
    }
    let metrics = Arc::new(Metrics::new("test"));
    let cancel = CancellationToken::new();
    let mut changes =
        cluster::watch_pods(fake.client(), options(), Arc::clone(&metrics), cancel.clone(), read_pod);
    let gone = |name: &str| PodChange::Gone {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    };
    let put = |text: &str| PodChange::Put(text.to_owned());

    is_list(changes.recv().await.unwrap(), &["a Running", "c Failed"]);
    fake.put(PODS, pod("b", "Running"));
    assert_eq!(changes.recv().await.unwrap(), put("b Running"), "of interest now");
    fake.put(PODS, pod("b", "Pending"));
    assert_eq!(changes.recv().await.unwrap(), gone("b"), "of none any more");
    fake.delete(PODS, "a");
    assert_eq!(changes.recv().await.unwrap(), put("a Running"), "the last state first");
    assert_eq!(changes.recv().await.unwrap(), gone("a"));
    fake.put_silently(PODS, pod("d", "Running"));
    fake.expire(PODS);
    is_list(changes.recv().await.unwrap(), &["c Failed", "d Running"]);
    assert!(metrics.encode().contains("plimsoll_snapshot_age_seconds{kind=\"Pod\"}"));

    cancel.cancel();
    assert_eq!(changes.recv().await, None);
    eventually("the age of what is not watched is not told", || !metrics.encode().contains("kind=\"Pod\"}"))
        .await;
}

#[tokio::test]
async fn a_watch_of_pods_ends_with_its_receiver() {
    let fake = FakeApi::start().await;
    let metrics = Arc::new(Metrics::new("test"));
    let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    let read = move |pod: &Value| {
        let _ = &alive;
        read_pod(pod)
    };
    let token = CancellationToken::new();
    let mut changes = cluster::watch_pods(fake.client(), options(), metrics, token, read);
    is_list(changes.recv().await.unwrap(), &[]);
    drop(changes);
    // The closure goes with the watch.
    assert_eq!(ended.recv().await, None);
}
