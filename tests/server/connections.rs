//! Sockets and handshakes.

use std::net::Ipv4Addr;
use std::time::Duration;

use plimsoll::server::{ServerError, ServerOptions, bind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::Server;
use crate::wait::within;

#[tokio::test]
async fn at_the_connection_limit_the_next_client_waits() {
    let server = Server::with(|options| options.max_connections = 1).await;
    let mut first = server.connect().await;
    assert_eq!(first.call("/mutate", "{}").await.status, 200);
    server.until_metric("plimsoll_connection_limit_waits_total", 1).await;
    let second = async {
        let mut second = server.connect().await;
        second.call("/mutate", "{}").await.status
    };
    let (status, ()) = tokio::join!(within(second), async {
        assert_eq!(first.call("/mutate", "{}").await.status, 200);
        assert_eq!(server.metric("plimsoll_connections"), 1);
        drop(first);
    });
    assert_eq!(status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_bad_handshake_disturbs_nobody() {
    let server = Server::with(|_| {}).await;
    let mut good = server.connect().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\xff\xff", b""] {
        let mut bad = TcpStream::connect(server.address).await.unwrap();
        bad.write_all(garbage).await.unwrap();
        bad.shutdown().await.unwrap();
        within(bad.read_to_end(&mut Vec::new())).await.ok();
        assert_eq!(good.call("/mutate", "{}").await.status, 200);
    }
    server.until_metric("plimsoll_tls_handshake_failures_total", 3).await;
    assert_eq!(server.connect().await.call("/mutate", "{}").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_handshake_ends() {
    let server = Server::with(|options| options.handshake_timeout = Duration::from_millis(100)).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let ended = within(silent.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(0) | Err(_)));
    server.until_metric("plimsoll_tls_handshake_failures_total", 1).await;
    server.until_metric("plimsoll_connections", 0).await;
    server.stop().await;
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address).await.unwrap_err();
    assert!(matches!(error, ServerError::Bind { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn defaults_are_those_of_the_specification() {
    let options = ServerOptions::default();
    assert_eq!(options.address.port(), 8443);
    assert_eq!(options.header_bytes, 16 * 1024);
    assert_eq!(options.body_bytes, 7 * 1024 * 1024);
    let seconds = |duration: Duration| duration.as_secs();
    assert_eq!(seconds(options.queue_deadline), 1);
    assert_eq!(seconds(options.header_timeout), 5);
    assert_eq!(seconds(options.body_timeout), 10);
    assert_eq!(seconds(options.idle_timeout), 120);
    assert_eq!(seconds(options.drain_delay), 10);
    assert_eq!(options.concurrency % 4, 0);
}
