//! An extender to ask, and clients with and without certificates.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use plimsoll::metrics::Metrics;
use plimsoll::placement::extender::{Engine, Prioritized, serve};
use plimsoll::server::tls::{TlsOptions, wall_clock};
use plimsoll::server::{
    CertificateSource, CertificateStore, ClientAuth, ServerError, ServerOptions, Shutdown,
};
use plimsoll_core::placement::extender::{NoLoad, watcher_metrics};
use plimsoll_core::placement::{LoadSettings, LoadSnapshot, WeightsFrom};
use plimsoll_core::pod::{Json, Pruned};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::tls::{self, Authority, Pair};
use crate::wait::{PATIENCE, within};

/// The engine's clock, in nanoseconds since 1970.
pub(crate) const NOW: i64 = 1_000_000_000_000;

/// Gives as many points as the number at the end of a node's name says, and refuses nodes whose name begins with `hot`.
/// A pod named `panic` or `wait` is obeyed.
#[derive(Default)]
pub(crate) struct TestEngine {
    pub(crate) load: Mutex<LoadSnapshot>,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    waiting: usize,
    open: bool,
}

impl TestEngine {
    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.gate.lock().unwrap().waiting
    }

    /// Lets all go on.
    pub(crate) fn open(&self) {
        self.gate.lock().unwrap().open = true;
        self.changed.notify_all();
    }

    fn obey(&self, pod: Option<&Pruned<'_>>) {
        match pod.and_then(|pod| pod.0.get("metadata")?.get("name")).and_then(Json::as_str) {
            Some("panic") => panic!("told to"),
            Some("wait") => {
                let mut gate = self.gate.lock().unwrap();
                gate.waiting += 1;
                let (mut gate, _) =
                    self.changed.wait_timeout_while(gate, PATIENCE, |gate| !gate.open).unwrap();
                gate.waiting -= 1;
            }
            _ => {}
        }
    }
}

impl Engine for TestEngine {
    fn prioritize(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Prioritized {
        self.obey(pod);
        let points = nodes.iter().map(|node| {
            let digits = node.trim_start_matches(|c: char| !c.is_ascii_digit());
            u8::try_from(digits.parse::<u32>().unwrap_or(5) % 11).unwrap()
        });
        Prioritized { points: points.collect(), weights_from: Some(WeightsFrom::Image) }
    }

    fn filter(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Vec<Option<String>> {
        self.obey(pod);
        nodes.iter().map(|node| node.starts_with("hot").then(|| "cpu 0.91 > 0.85".to_owned())).collect()
    }

    fn watcher(&self, host: Option<&str>) -> Result<Vec<u8>, NoLoad> {
        watcher_metrics(&self.load.lock().unwrap(), &LoadSettings::default(), host, NOW)
    }

    fn has_load(&self) -> bool {
        !self.load.lock().unwrap().nodes.is_empty()
    }
}

/// A running extender.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<TestEngine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shutdown: Shutdown,
    pub(crate) store: Arc<CertificateStore>,
    pub(crate) client_ca: PathBuf,
    authority: Authority,
    task: JoinHandle<Result<(), ServerError>>,
    _folder: tempfile::TempDir,
}

impl Running {
    /// One that asks for no certificate.
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = ServerOptions { drain_delay: Duration::ZERO, ..ServerOptions::default() };
        change(&mut options);
        Self::start(ClientAuth::None, &Authority::new(), options).await
    }

    pub(crate) async fn start(client_auth: ClientAuth, clients: &Authority, options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let pair = authority.server();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let client_ca = file("client-ca.crt", &clients.pem());
        let source = CertificateSource::Files {
            certificate: file("tls.crt", &pair.certificate),
            key: file("tls.key", &pair.key),
            client_ca: Some(client_ca.clone()),
        };
        let tls = TlsOptions { source, client_auth, tls13_only: false, http2: false };
        let metrics = Arc::new(Metrics::new("test"));
        let store =
            CertificateStore::open_for(tls, wall_clock(), metrics.extender_listener().clone()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (engine, shutdown) = (Arc::new(TestEngine::default()), Shutdown::new());
        let task = tokio::spawn(serve(
            listener,
            Arc::clone(&store),
            options,
            Arc::clone(&engine) as Arc<dyn Engine>,
            Arc::clone(&metrics),
            shutdown.clone(),
        ));
        Self { address, engine, metrics, shutdown, store, client_ca, authority, task, _folder: folder }
    }

    /// A connection without a certificate.
    pub(crate) async fn connect(&self) -> Connection {
        self.connect_with(None).await.unwrap()
    }

    /// A connection, with a certificate or without. In TLS 1.3 a client learns only by its first request that it is not
    /// let in.
    pub(crate) async fn connect_with(&self, pair: Option<&Pair>) -> std::io::Result<Connection> {
        let stream = tls::connect(self.address, &self.authority.pem(), pair).await?;
        let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Connection(send))
    }

    /// Asks on a connection of its own.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.connect().await.post(path, body).await
    }

    /// The value of a series.
    pub(crate) fn metric(&self, series: &str) -> i64 {
        let text = self.metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value: f64 = value.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "counts and sums of counts")]
        {
            value as i64
        }
    }

    /// Ends it and waits for its end.
    pub(crate) async fn stop(self) {
        self.shutdown.close();
        within(self.task).await.unwrap().unwrap();
    }
}

/// A connection to the extender.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send("POST", path, Some("application/json"), body.into()).await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, None, Bytes::new()).await.unwrap()
    }

    /// Sends a request. An error: the connection ended.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> Result<Answer, hyper::Error> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        within(self.0.ready()).await?;
        let response = within(self.0.send_request(request.body(Full::new(body)).unwrap())).await?;
        let (head, body) = response.into_parts();
        let body = within(body.collect()).await?.to_bytes();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        Ok(Answer {
            status: head.status.as_u16(),
            content_type: header("content-type"),
            allow: header("allow"),
            retry_after: header("retry-after"),
            closes: header("connection").as_deref() == Some("close"),
            body: String::from_utf8(body.to_vec()).unwrap(),
        })
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) allow: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) closes: bool,
    pub(crate) body: String,
}

impl Answer {
    /// The JSON of a success.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(
            (self.status, self.content_type.as_deref()),
            (200, Some("application/json")),
            "{}",
            self.body
        );
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The message of a refusal with this code.
    pub(crate) fn refusal(&self, code: u16) -> String {
        assert_eq!(self.status, code, "{}", self.body);
        let status: Value = serde_json::from_str(&self.body).unwrap();
        status["message"].as_str().unwrap().to_owned()
    }
}
