//! HTTP/2, where it is switched on.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinHandle;

use crate::support::{Connection, Server, Setup, client};
use crate::wait::within;

async fn start(change: impl FnOnce(&mut Setup)) -> Server {
    let mut setup = Setup::default();
    setup.tls.http2 = true;
    change(&mut setup);
    Server::start(setup).await
}

type Sender = SendRequest<Full<Bytes>>;

async fn connect(server: &Server) -> (Sender, JoinHandle<hyper::Result<()>>) {
    let mut config = client(server.store.ca_pem().unwrap());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connection = Connection::open(server.address, config).await.unwrap();
    assert_eq!(connection.stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, driver) = handshake(TokioExecutor::new(), TokioIo::new(connection.stream)).await.unwrap();
    (sender, tokio::spawn(driver))
}

fn post(server: &Server, path: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(format!("https://localhost:{}{path}", server.address.port()))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap()
}

async fn call(server: &Server, sender: &mut Sender, path: &str, body: &'static str) -> (u16, String) {
    within(sender.ready()).await.unwrap();
    let response = within(sender.send_request(post(server, path, body))).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert!(!response.headers().contains_key("connection"));
    let status = response.status().as_u16();
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn requests_are_answered_and_refused() {
    let server = start(|setup| setup.options.body_bytes = 10).await;
    let (mut sender, _driver) = connect(&server).await;
    assert_eq!(call(&server, &mut sender, "/mutate", "{}").await, (200, "mutate 2".to_owned()));
    assert_eq!(call(&server, &mut sender, "/other", "{}").await.0, 404);
    assert_eq!(call(&server, &mut sender, "/mutate", "0123456789a").await.0, 413);
    assert_eq!(call(&server, &mut sender, "/validate", "panic").await.0, 500);
    assert_eq!(call(&server, &mut sender, "/validate", "{}").await.0, 200, "the connection goes on");
    server.stop().await;
}

#[tokio::test]
async fn http1_comes_first_and_is_all_there_is_without_the_setting() {
    for (http2, offered, want) in [
        (true, vec![b"h2".to_vec(), b"http/1.1".to_vec()], Some(&b"http/1.1"[..])),
        (true, vec![], None),
        (false, vec![b"h2".to_vec(), b"http/1.1".to_vec()], Some(&b"http/1.1"[..])),
    ] {
        let server = start(|setup| setup.tls.http2 = http2).await;
        let mut config = client(server.store.ca_pem().unwrap());
        config.alpn_protocols = offered;
        let mut connection = Connection::open(server.address, config).await.unwrap();
        assert_eq!(connection.stream.get_ref().1.alpn_protocol(), want);
        assert_eq!(connection.call("/mutate", "{}").await.status, 200);
        server.stop().await;
    }
}

#[tokio::test]
async fn draining_says_goodbye_and_finishes() {
    let server = start(|setup| setup.options.drain_delay = Duration::from_secs(600)).await;
    let (mut sender, driver) = connect(&server).await;
    assert_eq!(call(&server, &mut sender, "/mutate", "{}").await.0, 200);
    let waiting = sender.send_request(post(&server, "/mutate", "wait"));
    let waiting = tokio::spawn(waiting);
    server.entered().await;
    server.shutdown.drain();
    server.admission.gate.add_permits(1);
    assert_eq!(within(waiting).await.unwrap().unwrap().status(), 200, "what was asked is answered");
    within(driver).await.unwrap().unwrap();

    let (mut late, driver) = connect(&server).await;
    assert_eq!(call(&server, &mut late, "/mutate", "{}").await.0, 200, "new connections are served too");
    within(driver).await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_ends() {
    let server = start(|setup| setup.options.idle_timeout = Duration::from_millis(100)).await;
    let (mut sender, driver) = connect(&server).await;
    assert_eq!(call(&server, &mut sender, "/mutate", "{}").await.0, 200);
    within(driver).await.unwrap().unwrap();
    server.stop().await;
}
