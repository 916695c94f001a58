//! Probes and metrics over plain HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::metrics::Metrics;
use plimsoll::server::{Readiness, Shutdown, health};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::Server;
use crate::wait::within;

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

/// A first certificate may need longer than the kubelet is patient with a start, and a restart brings it no sooner.
#[tokio::test]
async fn a_start_does_not_wait_for_a_certificate() {
    let shutdown = Shutdown::new();
    let readiness = Readiness::new(shutdown.clone());
    let snapshots = readiness.condition("snapshots");
    readiness.check("certificate", || Err("there is no certificate yet".to_owned()));
    let probes = Probes::with(readiness, shutdown).await;
    assert_eq!(get(probes.address, "/startupz").await.0, 503, "the rest is waited for");
    snapshots.ready();
    assert_eq!(get(probes.address, "/startupz").await.0, 200);
    let (status, text) = get(probes.address, "/readyz").await;
    assert_eq!(status, 503, "nobody is sent here without one");
    assert!(text.contains("[-] certificate: there is no certificate yet"), "{text}");
    probes.shutdown.finish();
}

struct Probes {
    address: SocketAddr,
    shutdown: Shutdown,
}

impl Probes {
    async fn start() -> Self {
        let shutdown = Shutdown::new();
        Self::with(Readiness::new(shutdown.clone()), shutdown).await
    }

    async fn with(readiness: Readiness, shutdown: Shutdown) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new("test"));
        tokio::spawn(health::serve(listener, readiness, metrics, shutdown.clone()));
        Self { address, shutdown }
    }
}

/// The server may hold as many connections as it likes, but not wait for the silent ones among them.
#[tokio::test]
async fn idle_connections_do_not_keep_the_kubelet_out() {
    let probes = Probes::start().await;
    let mut asking = TcpStream::connect(probes.address).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(probes.address).await.unwrap());
        if idle.len() % 100 == 0 {
            // One that asks now and then is not among those that give way.
            asking.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut answer = [0; 12];
            within(asking.read_exact(&mut answer)).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            let mut rest = Vec::new();
            while !rest.ends_with(b"ok\n") {
                rest.push(within(asking.read_u8()).await.unwrap());
            }
        }
    }
    let began = std::time::Instant::now();
    assert_eq!(get(probes.address, "/livez").await.0, 200);
    assert!(began.elapsed() < Duration::from_secs(2), "the probe waited for idle connections");
    for stream in &mut idle[..100] {
        assert!(within(stream.read_u8()).await.is_err(), "the oldest have given way");
    }
    probes.shutdown.finish();
}

#[tokio::test]
async fn a_connection_that_asks_nothing_is_closed_soon() {
    let probes = Probes::start().await;
    let began = std::time::Instant::now();
    let mut silent = TcpStream::connect(probes.address).await.unwrap();
    let mut slow = TcpStream::connect(probes.address).await.unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
    for stream in [&mut silent, &mut slow] {
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(15), "it took as long as an idle connection may live");
    probes.shutdown.finish();
}
