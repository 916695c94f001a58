//! Requests that are answered and requests that are refused.

use std::time::Duration;

use crate::support::{Server, request};

#[tokio::test]
async fn both_stages_on_one_connection() {
    let server = Server::with(|_| {}).await;
    let mut connection = server.connect().await;
    for (path, body, want) in [
        ("/mutate", "{}", "mutate 2"),
        ("/validate?timeout=10s", "12345", "validate 5"),
        ("/mutate", "", "mutate 0"),
    ] {
        let response = connection.call(path, body).await;
        assert_eq!((response.status, response.body.as_str()), (200, want));
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert!(!response.closes());
    }
    assert_eq!(server.metric("plimsoll_connections_accepted_total"), 1);
    assert_eq!(server.metric("plimsoll_admission_duration_seconds_count{stage=\"mutate\"}"), 2);
    server.stop().await;
}

#[tokio::test]
async fn refusals_are_status_objects() {
    const JSON: &str = "Content-Type: application/json\r\n";
    let server = Server::with(|options| options.body_bytes = 10).await;
    let rows = [
        ("GET", "GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405, "MethodNotAllowed", false),
        ("unknown path", request("/other", "{}"), 404, "NotFound", true),
        (
            "no content type",
            "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
            415,
            "UnsupportedMediaType",
            true,
        ),
        (
            "length over the limit",
            format!("POST /mutate HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 11\r\n\r\n"),
            413,
            "RequestEntityTooLarge",
            true,
        ),
        (
            "chunks over the limit",
            format!(
                "POST /mutate HTTP/1.1\r\nHost: x\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n12345\r\n"
            ),
            413,
            "RequestEntityTooLarge",
            true,
        ),
        (
            "broken chunks",
            format!("POST /mutate HTTP/1.1\r\nHost: x\r\n{JSON}Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
            400,
            "BadRequest",
            true,
        ),
    ];
    for (rule, raw, code, reason, closes) in rows {
        let series = format!("plimsoll_http_rejected_total{{code=\"{code}\"}}");
        let before = server.metric(&series);
        let mut connection = server.connect().await;
        connection.send(raw).await;
        let response = connection.response().await;
        let body: serde_json::Value = serde_json::from_str(&response.body).expect(rule);
        assert_eq!(response.status, code, "{rule}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{rule}");
        assert_eq!(body["kind"], "Status", "{rule}");
        assert_eq!(body["apiVersion"], "v1", "{rule}");
        assert_eq!(body["status"], "Failure", "{rule}");
        assert_eq!(body["reason"], reason, "{rule}");
        assert_eq!(body["code"], code, "{rule}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{rule}");
        assert_eq!(response.header("allow"), (code == 405).then_some("POST"), "{rule}");
        assert_eq!(response.closes(), closes, "{rule}");
        assert_eq!(server.metric(&series), before + 1, "{rule}");
        if closes {
            connection.closed().await;
        } else {
            assert_eq!(connection.call("/mutate", "{}").await.status, 200, "{rule}: the connection goes on");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_as_long_as_the_limit_is_read() {
    let server = Server::with(|options| options.body_bytes = 1 << 20).await;
    let mut connection = server.connect().await;
    let body = "x".repeat(1 << 20);
    assert_eq!(connection.call("/mutate", &body).await.body, "mutate 1048576");
    let chunked = format!(
        "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    connection.send(chunked).await;
    assert_eq!(connection.response().await.body, "mutate 1048576");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_on_still_sees_413() {
    let server = Server::with(|options| options.body_bytes = 1024).await;
    let mut connection = server.connect().await;
    // More than the server ever reads, less than the sockets buffer: written before the answer is looked at.
    connection.post("/mutate", &"x".repeat(512 * 1024)).await;
    assert_eq!(connection.response().await.status, 413);
    server.stop().await;
}

#[tokio::test]
async fn expect_continue() {
    let server = Server::with(|options| options.body_bytes = 10).await;
    let head = |length: usize| {
        format!(
            "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let mut connection = server.connect().await;
    connection.send(head(10)).await;
    assert_eq!(connection.response().await.status, 100);
    connection.send("0123456789").await;
    assert_eq!(connection.response().await.body, "mutate 10");
    connection.send(head(11)).await;
    assert_eq!(connection.response().await.status, 413, "refused before the body is asked for");
    server.stop().await;
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let server = Server::with(|_| {}).await;
    let mut connection = server.connect().await;
    connection.send(format!("{}{}", request("/mutate", "1"), request("/validate", "22"))).await;
    assert_eq!(connection.response().await.body, "mutate 1");
    assert_eq!(connection.response().await.body, "validate 2");
    server.stop().await;
}

#[tokio::test]
async fn heads_are_bounded() {
    let server = Server::with(|_| {}).await;
    let rows = [
        ("header too long", format!("POST /mutate HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(16 * 1024)), 431),
        ("not HTTP", "hello there\r\n\r\n".to_owned(), 400),
    ];
    for (rule, raw, code) in rows {
        let mut connection = server.connect().await;
        connection.send(raw).await;
        assert_eq!(connection.response().await.status, code, "{rule}");
        connection.closed().await;
        server.until_metric(&format!("plimsoll_http_rejected_total{{code=\"{code}\"}}"), 1).await;
    }
    let long = format!(
        "POST /mutate?{} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n",
        "x".repeat(8000)
    );
    let mut connection = server.connect().await;
    connection.send(long).await;
    assert_eq!(connection.response().await.status, 200, "long, yet within the limit");
    server.stop().await;
}

#[tokio::test]
async fn a_slow_head_ends_the_connection() {
    let server = Server::with(|options| options.header_timeout = Duration::from_millis(100)).await;
    let mut connection = server.connect().await;
    assert_eq!(connection.call("/mutate", "{}").await.status, 200);
    connection.send("POST /mutate HTTP/1.1\r\nHost: ").await;
    connection.closed().await;
    server.until_metric("plimsoll_http_rejected_total{code=\"408\"}", 1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_slow_body_is_refused() {
    let server = Server::with(|options| options.body_timeout = Duration::from_millis(100)).await;
    let mut connection = server.connect().await;
    connection.send("POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n12").await;
    let response = connection.response().await;
    assert_eq!(response.status, 408);
    assert!(response.closes());
    connection.closed().await;
    assert_eq!(server.metric("plimsoll_http_rejected_total{code=\"408\"}"), 1);
    server.stop().await;
}

#[tokio::test]
async fn idle_is_not_slow() {
    let server = Server::with(|options| options.header_timeout = Duration::from_millis(50)).await;
    let mut connection = server.connect().await;
    for _ in 0..2 {
        // Several times the header timeout.
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(connection.call("/mutate", "{}").await.status, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_ends() {
    let server = Server::with(|options| options.idle_timeout = Duration::from_millis(100)).await;
    let mut connection = server.connect().await;
    assert_eq!(connection.call("/mutate", "{}").await.status, 200);
    connection.closed().await;
    let mut never_asked = server.connect().await;
    never_asked.closed().await;
    drop((connection, never_asked));
    server.until_metric("plimsoll_connections", 0).await;
    server.stop().await;
}
