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
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// No test waits longer than this for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The engine's clock, in nanoseconds since 1970.
pub(crate) const NOW: i64 = 1_000_000_000_000;

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn client(&self) -> Pair {
        self.issue(vec![ExtendedKeyUsagePurpose::ClientAuth], |_| ())
    }

    pub(crate) fn expired(&self) -> Pair {
        self.issue(vec![ExtendedKeyUsagePurpose::ClientAuth], |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        })
    }

    pub(crate) fn server(&self) -> Pair {
        self.issue(vec![ExtendedKeyUsagePurpose::ServerAuth], |_| ())
    }

    fn issue(
        &self,
        usages: Vec<ExtendedKeyUsagePurpose>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = usages;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

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
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
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

/// Waits for what must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing came")
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
