//! More requests than slots, and requests that go wrong.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use plimsoll::server::Reply;

use crate::support::{Server, Setup};

#[tokio::test]
async fn over_the_limit_is_429_and_the_connection_stays() {
    let server = Server::with(|options| options.concurrency = 1).await;
    let mut holder = server.connect().await;
    holder.post("/mutate", "wait").await;
    server.entered().await;
    assert_eq!(server.metric("plimsoll_admission_in_flight"), 1);

    let mut other = server.connect().await;
    // Half of the timeout is waited: 10 ms, not a second.
    let response = other.call("/mutate?timeout=20ms", "{}").await;
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert!(response.body.contains("\"reason\":\"TooManyRequests\""));
    assert!(!response.closes());
    assert_eq!(other.call("/validate?timeout=20ms", "{}").await.status, 429, "both stages share the limit");
    assert_eq!(server.metric("plimsoll_admission_shed_total{stage=\"mutate\"}"), 1);
    assert_eq!(server.metric("plimsoll_admission_shed_total{stage=\"validate\"}"), 1);

    server.admission.gate.add_permits(1);
    assert_eq!(holder.response().await.status, 200);
    assert_eq!(other.call("/mutate", "{}").await.status, 200);
    assert_eq!(server.metric("plimsoll_admission_in_flight"), 0);
    server.stop().await;
}

#[tokio::test]
async fn admission_may_answer_overload_itself() {
    let denied = Reply { status: StatusCode::OK, body: Bytes::from_static(b"{\"denied\":true}") };
    let mut setup = Setup::with(|options| {
        options.concurrency = 1;
        options.queue_deadline = Duration::from_millis(10);
    });
    setup.overloaded = Some(denied);
    let server = Server::start(setup).await;
    let mut holder = server.connect().await;
    holder.post("/mutate", "wait").await;
    server.entered().await;

    let mut other = server.connect().await;
    let response = other.call("/validate", "{}").await;
    assert_eq!((response.status, response.body.as_str()), (200, "{\"denied\":true}"));
    assert_eq!(response.header("retry-after"), None);
    assert_eq!(other.call("/mutate", "{}").await.status, 429, "the other stage has no answer of its own");
    server.admission.gate.add_permits(1);
    server.stop().await;
}

#[tokio::test]
async fn a_short_wait_in_line_is_no_refusal() {
    let server = Server::with(|options| {
        options.concurrency = 1;
        options.queue_deadline = Duration::from_secs(60);
    })
    .await;
    let mut first = server.connect().await;
    first.post("/mutate", "wait").await;
    server.entered().await;
    let mut second = server.connect().await;
    second.post("/mutate?timeout=120s", "wait").await;
    server.admission.gate.add_permits(2);
    assert_eq!(first.response().await.status, 200);
    assert_eq!(second.response().await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_client_holds_no_slot() {
    let server = Server::with(|options| options.concurrency = 1).await;
    let mut slow = server.connect().await;
    slow.send(
        "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n12",
    )
    .await;
    let mut other = server.connect().await;
    assert_eq!(other.call("/mutate", "{}").await.status, 200);
    slow.send("345").await;
    assert_eq!(slow.response().await.body, "mutate 5");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_slot_back() {
    let server = Server::with(|options| options.concurrency = 1).await;
    let mut holder = server.connect().await;
    holder.post("/mutate", "wait").await;
    server.entered().await;
    drop(holder);
    server.until_metric("plimsoll_admission_in_flight", 0).await;
    assert_eq!(server.connect().await.call("/mutate", "{}").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn bodies_in_memory_are_bounded() {
    let server = Server::with(|options| options.body_memory = 64 * 1024).await;
    let mut slow = server.connect().await;
    let head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
    slow.send(format!("{head}{}", "x".repeat(50_000))).await;

    let mut other = server.connect().await;
    // Until the first body has arrived there may be room.
    let response = loop {
        let response = other.call("/mutate", &"x".repeat(60_000)).await;
        if response.status != 200 {
            break response;
        }
    };
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert!(response.closes(), "the rest of the body is not read");
    assert_eq!(server.connect().await.call("/mutate", "{}").await.status, 200, "small ones still fit");
    drop(slow);
    let mut last = server.connect().await;
    while last.call("/mutate", &"x".repeat(60_000)).await.status != 200 {
        last = server.connect().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn admission_may_answer_for_a_body_that_there_is_no_room_for() {
    let mut setup = Setup::with(|options| options.body_memory = 64 * 1024);
    setup.overloaded = Some(Reply { status: StatusCode::OK, body: Bytes::from_static(b"{\"denied\":true}") });
    let server = Server::start(setup).await;
    for (path, status) in [("/validate", 200), ("/mutate", 429)] {
        let response = server.connect().await.call(path, &"x".repeat(100_000)).await;
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.header("retry-after").is_some(), status == 429, "{path}");
        assert!(response.closes(), "{path}: the rest of the body is not read");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let server = Server::with(|options| options.concurrency = 1).await;
    let mut connection = server.connect().await;
    for count in [1, 2] {
        let response = connection.call("/validate", "panic").await;
        assert_eq!(response.status, 500);
        assert!(response.body.contains("\"reason\":\"InternalError\""));
        assert!(!response.body.contains("told to"), "what a panic says stays in the log");
        assert!(!response.closes());
        assert_eq!(server.metric("plimsoll_admission_panics_total"), count);
    }
    assert_eq!(connection.call("/validate", "{}").await.status, 200);
    assert_eq!(server.metric("plimsoll_admission_in_flight"), 0);
    server.stop().await;
}
