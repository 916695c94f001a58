//! What the leader writes on nodes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Full;
use kube::client::Body;
use plimsoll::metrics::Metrics;
use plimsoll::placement::publish::{Options, publish};
use plimsoll::placement::{PlacedPods, PlacementState, now};
use plimsoll_core::objects::{Fact, Node, Objects};
use plimsoll_core::placement::{ByMetric, ClassBounds, LoadSnapshot, Metric, NodeLoad, Placed, Settings};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// No test waits longer than this for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// An API server that tells of each patch; the next ones fail with these codes.
fn api(failures: &[u16]) -> (kube::Client, mpsc::UnboundedReceiver<(String, Value)>) {
    let (seen, patches) = mpsc::unbounded_channel();
    let failures = Arc::new(Mutex::new(VecDeque::from(failures.to_vec())));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, failures) = (seen.clone(), Arc::clone(&failures));
        async move {
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
            assert_eq!(parts.method, Method::PATCH);
            assert_eq!(parts.headers[header::CONTENT_TYPE], "application/merge-patch+json");
            assert!(parts.uri.query().unwrap().contains("fieldManager=plimsoll-placement"));
            seen.send((parts.uri.path().to_owned(), body)).unwrap();
            let code = failures.lock().unwrap().pop_front().unwrap_or(200);
            let answer = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "message": "on purpose", "reason": "Why", "details": {"name": "n"},
            });
            let answer = Response::builder().status(code).body(Full::new(Bytes::from(answer.to_string())));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    (kube::Client::new(service, "default"), patches)
}

/// Nodes with what they use of everything.
fn state(nodes: &[(&str, f64)]) -> PlacementState {
    let mut objects = Objects::default();
    let mut load = LoadSnapshot { taken: now(), ..LoadSnapshot::default() };
    for (name, usage) in nodes {
        let node = Node { name: (*name).to_owned(), uid: format!("uid-{name}"), ..Node::default() };
        objects.put(Fact::Node(Arc::new(node)));
        let mut means = ByMetric::default();
        means.set(Metric::Cpu, Some(*usage));
        load.nodes.insert(
            (*name).into(),
            NodeLoad { means: vec![means; 3], sampled: load.taken, ..NodeLoad::default() },
        );
    }
    let mut state = PlacementState::new(Settings::default(), Arc::new(ArcSwap::from_pointee(objects)));
    state.load.store(Arc::new(load));
    state.pods = PlacedPods::of(Placed::listed([]));
    state
}

fn options() -> Options {
    Options {
        classes: Some(ClassBounds { mid: 0.5, high: 0.75, hysteresis: 0.05 }),
        crane: None,
        interval: Duration::from_millis(10),
    }
}

async fn next(patches: &mut mpsc::UnboundedReceiver<(String, Value)>) -> (String, Value) {
    tokio::time::timeout(PATIENCE, patches.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn exactly_the_node_that_is_known_is_labelled() {
    let (client, mut patches) = api(&[]);
    let metrics = Arc::new(Metrics::new("test"));
    let cancelled = CancellationToken::new();
    let state = state(&[("a", 0.2), ("b", 0.9)]);
    let work = publish(client, options(), state.clone(), Arc::clone(&metrics), cancelled.clone());
    let work = tokio::spawn(work);
    for (name, class) in [("a", "low"), ("b", "high")] {
        let (path, body) = next(&mut patches).await;
        assert_eq!(path, format!("/api/v1/nodes/{name}"));
        let labels = json!({"plimsoll.dev/load-class": class});
        assert_eq!(body, json!({"metadata": {"uid": format!("uid-{name}"), "labels": labels}}));
    }
    // The watch has not told of it yet: it is written again, which changes nothing.
    assert_eq!(next(&mut patches).await.0, "/api/v1/nodes/a");
    cancelled.cancel();
    work.await.unwrap();
    let text = metrics.encode();
    let line = "plimsoll_placement_node_writes_total{kind=\"label\",result=\"success\"}";
    assert!(text.lines().any(|found| found.starts_with(line) && !found.ends_with(" 0")), "{text}");
}

#[tokio::test]
async fn one_that_cannot_be_written_does_not_keep_the_others_waiting() {
    for (rule, code, next_path) in [
        ("gone", 404, "/api/v1/nodes/b"),
        ("changed", 409, "/api/v1/nodes/b"),
        ("refused", 422, "/api/v1/nodes/b"),
        ("no right: the same for all, tried again in the next round", 403, "/api/v1/nodes/a"),
        ("away", 503, "/api/v1/nodes/a"),
    ] {
        let (client, mut patches) = api(&[code]);
        let cancelled = CancellationToken::new();
        let state = state(&[("a", 0.2), ("b", 0.9)]);
        let metrics = Arc::new(Metrics::new("test"));
        let work = tokio::spawn(publish(client, options(), state, metrics, cancelled.clone()));
        assert_eq!(next(&mut patches).await.0, "/api/v1/nodes/a", "{rule}");
        assert_eq!(next(&mut patches).await.0, next_path, "{rule}");
        cancelled.cancel();
        work.await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_written_before_the_load_is_known() {
    let (client, mut patches) = api(&[]);
    let cancelled = CancellationToken::new();
    let state = state(&[("a", 0.2)]);
    let known = state.load.swap(Arc::default());
    let metrics = Arc::new(Metrics::new("test"));
    let work = tokio::spawn(publish(client, options(), state.clone(), metrics, cancelled.clone()));
    // Several rounds long; that nothing comes can only be waited for.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(patches.try_recv().is_err());
    state.load.store(known);
    assert_eq!(next(&mut patches).await.0, "/api/v1/nodes/a");
    cancelled.cancel();
    work.await.unwrap();
}

/// Load classes were turned off, and balance still leads.
#[tokio::test]
async fn labels_are_taken_off_when_nobody_keeps_them() {
    for (rule, failures, tries) in [
        ("with the right", &[][..], 2),
        ("away: it is tried again", &[503], 3),
        ("without the right: it is said once, and nothing is broken", &[403, 403, 403], 1),
    ] {
        let (client, mut patches) = api(failures);
        let cancelled = CancellationToken::new();
        let state = state(&[("a", 0.2), ("b", 0.9), ("c", 0.9)]);
        let mut objects = Objects::clone(&state.objects.load());
        for name in ["a", "c"] {
            let mut node = Node::clone(objects.node(name).unwrap());
            node.labels.insert("plimsoll.dev/load-class".to_owned(), "low".to_owned());
            objects.put(Fact::Node(Arc::new(node)));
        }
        state.objects.store(Arc::new(objects));
        let metrics = Arc::new(Metrics::new("test"));
        let options = Options { classes: None, ..options() };
        let work =
            tokio::spawn(publish(client, options, state.clone(), Arc::clone(&metrics), cancelled.clone()));
        let mut names = Vec::new();
        for _ in 0..tries {
            let (path, body) = next(&mut patches).await;
            let labels = &body["metadata"]["labels"];
            assert_eq!(*labels, json!({"plimsoll.dev/load-class": null}), "{rule}");
            names.push(path.rsplit('/').next().unwrap().to_owned());
        }
        let expected: &[&str] = match tries {
            1 => &["a"],
            2 => &["a", "c"],
            _ => &["a", "a", "c"],
        };
        assert_eq!(names, expected, "{rule}");
        if tries == 1 {
            // Several rounds long; that nothing comes can only be waited for.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(patches.try_recv().is_err(), "{rule}");
            assert!(!work.is_finished(), "the work of a leader ends when it is no leader");
        }
        assert_eq!(problems(&metrics)[0], 0, "{rule}: a right that is not needed is not missing");
        cancelled.cancel();
        work.await.unwrap();
    }
}

/// Answers of the API server to the first writes, and what is told to be broken while it is so, and when it is not any more.
#[tokio::test]
async fn what_is_refused_is_told_until_it_is_not() {
    for (rule, failures, told) in [
        ("refused: of this node, and its right is there", &[422, 200, 422, 200][..], [0, 1]),
        ("no right", &[403, 403], [1, 0]),
        ("away", &[503, 503], [0, 1]),
        ("gone: nothing is broken", &[404, 200, 404, 200], [0, 0]),
        ("changed meanwhile: nothing is broken", &[409, 200, 409, 200], [0, 0]),
    ] {
        let (client, mut patches) = api(failures);
        let cancelled = CancellationToken::new();
        let metrics = Arc::new(Metrics::new("test"));
        let state = state(&[("a", 0.2), ("b", 0.9)]);
        let work = tokio::spawn(publish(client, options(), state, Arc::clone(&metrics), cancelled.clone()));
        // The call after it was seen: the answer to the last but one was taken up.
        let mut worst = [0, 0];
        for _ in failures {
            next(&mut patches).await;
            let now = problems(&metrics);
            worst = [worst[0].max(now[0]), worst[1].max(now[1])];
        }
        assert_eq!(worst, told, "{rule}");
        // Both nodes were written, and a round has begun after that.
        for _ in 0..4 {
            next(&mut patches).await;
        }
        assert_eq!(problems(&metrics), [0, 0], "{rule}: it works again");
        cancelled.cancel();
        work.await.unwrap();
    }
}

/// What fails of balance: rights, and other things.
fn problems(metrics: &Metrics) -> [usize; 2] {
    let counts = metrics.health().counts();
    counts.into_iter().find(|(part, _)| *part == plimsoll::status::Part::Balance).unwrap().1
}
