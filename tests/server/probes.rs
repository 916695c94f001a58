//! Probes and metrics over plain HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::server::{Readiness, health};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Server, within};

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    within(stream.read_to_string(&mut text)).await.unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

#[tokio::test]
async fn readiness_follows_conditions_and_fails_first_when_draining() {
    let server = Server::with(|options| options.drain_delay = Duration::from_secs(600)).await;
    let readiness = Readiness::new(server.shutdown.clone());
    let snapshots = readiness.condition("snapshots");
    let store = Arc::clone(&server.store);
    readiness.check("certificate", move || store.check());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let probes = tokio::spawn(health::serve(
        listener,
        readiness,
        Arc::clone(&server.metrics),
        server.shutdown.clone(),
    ));

    assert_eq!(get(address, "/livez").await.0, 200);
    assert_eq!(get(address, "/startupz").await.0, 503);
    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-] snapshots: not there yet") && text.contains("[+] certificate: ok"), "{text}");

    snapshots.ready();
    assert_eq!(get(address, "/readyz").await.0, 200);
    assert_eq!(get(address, "/startupz").await.0, 200);
    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        text.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("# EOF"), "{text}");

    server.shutdown.drain();
    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[-] shutdown: draining"), "{text}");
    assert_eq!(get(address, "/livez").await.0, 200);
    assert_eq!(get(address, "/startupz").await.0, 200);
    assert_eq!(server.connect().await.call("/mutate", "{}").await.status, 200, "still serving");

    let shutdown = server.shutdown.clone();
    server.stop().await;
    assert_eq!(get(address, "/livez").await.0, 200, "the probes answer to the very last");
    shutdown.finish();
    within(probes).await.unwrap();
}
