//! Much at once, and many at once.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Running;
use crate::wait::{until, within};

const WAIT: &str = r#"{"Pod":{"metadata":{"name":"wait"}},"NodeNames":["n1"]}"#;
/// What is longer than half of this has a thread of its own, which may wait.
const LONG: usize = 1 << 20;

/// A list of whole nodes of about `megabytes`, each of 10 kB.
fn whole(megabytes: usize) -> (String, usize) {
    let nodes = megabytes * 100;
    let images = "x".repeat(10_000);
    let mut body = String::with_capacity(nodes * 10_200);
    body.push_str(r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"metadata":{},"items":["#);
    for number in 0..nodes {
        let comma = if number == 0 { "" } else { "," };
        let hot = if number % 2 == 1 { "hot" } else { "n" };
        write!(body, r#"{comma}{{"metadata":{{"name":"{hot}{number}"}},"status":{{"images":"{images}"}}}}"#)
            .unwrap();
    }
    body.push_str("]},\"NodeNames\":null}");
    (body, nodes)
}

#[tokio::test]
async fn ten_megabytes_of_whole_nodes() {
    let running = Running::with(|options| options.body_bytes = 64 << 20).await;
    let mut connection = running.connect().await;
    let (body, nodes) = whole(10);
    let scores = connection.post("/scheduler/prioritize", body.clone()).await.json();
    assert_eq!(scores.as_array().unwrap().len(), nodes);
    assert_eq!(scores[7], json!({"Host": "hot7", "Score": 7}));
    let filtered = connection.post("/scheduler/filter", body).await.json();
    let items = filtered["Nodes"]["items"].as_array().unwrap();
    assert_eq!((items.len(), filtered["FailedNodes"].as_object().unwrap().len()), (nodes / 2, nodes / 2));
    assert!(items.iter().all(|node| node["status"]["images"].as_str().unwrap().len() == 10_000));
    assert_eq!(running.metric("plimsoll_extender_whole_nodes_total"), 2);
    assert_eq!(running.metric("plimsoll_extender_nodes_sum{verb=\"filter\"}"), i64::try_from(nodes).unwrap());
    running.stop().await;
}

#[tokio::test]
async fn a_body_beyond_the_limits() {
    let running = Running::with(|options| {
        options.body_bytes = 2 << 20;
        options.body_memory = 3 << 20;
    })
    .await;
    let (body, _) = whole(3);
    let message = running.post("/scheduler/prioritize", body).await.refusal(413);
    assert!(message.contains("larger than 2097152 bytes"), "{message}");
    let (body, nodes) = whole(1);
    let scores = running.post("/scheduler/prioritize", body.clone()).await.json();
    assert_eq!(scores.as_array().unwrap().len(), nodes);
    running.post("/scheduler/filter", body).await.json();
    let mut two = whole(1).0;
    two.push_str(&" ".repeat(900_000));
    let answer = running.post("/scheduler/filter", two).await;
    answer.refusal(429);
    assert_eq!(running.metric("plimsoll_extender_requests_total{verb=\"filter\",outcome=\"shed\"}"), 1);
    running.stop().await;
}

#[tokio::test]
async fn over_the_limit_is_429_at_once() {
    let running = Running::with(|options| {
        options.concurrency = 1;
        options.queue_deadline = Duration::from_millis(10);
    })
    .await;
    let mut holder = running.connect().await;
    let wait = format!("{WAIT}{}", " ".repeat(LONG));
    let held = tokio::spawn(async move { holder.post("/scheduler/prioritize", wait).await });
    until("the first is at work", || running.engine.waiting() == 1).await;
    let mut other = running.connect().await;
    let answer = other.post("/scheduler/prioritize", "{}").await;
    answer.refusal(429);
    assert_eq!((answer.retry_after.as_deref(), answer.closes), (Some("1"), false));
    assert_eq!(running.metric("plimsoll_extender_requests_total{verb=\"prioritize\",outcome=\"shed\"}"), 1);
    other.get("/watcher").await.refusal(429);
    other.get("/watcher/health").await.refusal(503);
    running.engine.open();
    assert_eq!(within(held).await.unwrap().json()[0]["Host"], "n1");
    other.post("/scheduler/prioritize", "{}").await.json();
    running.stop().await;
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    let names: Vec<_> = (0..100).map(|number| format!("node-{number}")).collect();
    let args = json!({"Pod": {"metadata": {"name": "p"}}, "NodeNames": names}).to_string();
    for _ in 0..200 {
        let scores = connection.post("/scheduler/prioritize", args.clone()).await.json();
        let scores = scores.as_array().unwrap();
        assert_eq!(scores.len(), 100);
        for (number, score) in scores.iter().enumerate() {
            assert_eq!(score["Host"], names[number]);
            assert!(
                matches!(&score["Score"], Value::Number(n) if n.as_u64().is_some_and(|n| n <= 10)),
                "{score}"
            );
        }
    }
    assert_eq!(running.metric("plimsoll_extender_connections_accepted_total"), 1);
    assert_eq!(running.metric("plimsoll_extender_requests_total{verb=\"prioritize\",outcome=\"ok\"}"), 200);
    assert_eq!(running.metric("plimsoll_extender_nodes_sum{verb=\"prioritize\"}"), 20_000);
    running.stop().await;
}

#[tokio::test]
async fn on_the_way_out_connections_are_given_up() {
    let running = Running::with(|options| options.drain_delay = Duration::from_secs(60)).await;
    let mut connection = running.connect().await;
    assert!(!connection.post("/scheduler/prioritize", "{}").await.closes);
    running.shutdown.drain();
    assert!(connection.post("/scheduler/prioritize", "{}").await.closes, "still answered");
    running.stop().await;
}
