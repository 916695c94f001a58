//! A server to talk to and a client that says exactly what it is told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use plimsoll::metrics::Metrics;
use plimsoll::server::tls::{Clock, TlsOptions, wall_clock};
use plimsoll::server::{
    Admission, CertificateSource, CertificateStore, ClientAuth, Reply, ServerError, ServerOptions, Shutdown,
    Stage, serve,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::wait::{until, within};

/// Does what the body says: `panic`, `wait` (until the gate opens), else it answers the stage and the length.
#[derive(Debug)]
pub(crate) struct TestAdmission {
    /// Gets a permit for each `wait` that has begun.
    pub(crate) entered: Semaphore,
    /// Each permit lets one `wait` go on.
    pub(crate) gate: Semaphore,
    /// The answer to overload at `/validate`.
    overloaded: Option<Reply>,
}

impl Admission for TestAdmission {
    async fn review(&self, stage: Stage, body: Bytes) -> Reply {
        match &body[..] {
            b"panic" => panic!("told to"),
            b"wait" => {
                self.entered.add_permits(1);
                self.gate.acquire().await.unwrap().forget();
            }
            _ => {}
        }
        let body = format!("{} {}", stage.as_str(), body.len()).into();
        Reply { status: StatusCode::OK, body }
    }

    fn overloaded(&self, stage: Stage, _: &Bytes) -> Option<Reply> {
        self.overloaded.clone().filter(|_| stage == Stage::Validate)
    }
}

/// How to start a [`Server`].
pub(crate) struct Setup {
    pub(crate) options: ServerOptions,
    pub(crate) tls: TlsOptions,
    pub(crate) clock: Clock,
    pub(crate) overloaded: Option<Reply>,
}

impl Default for Setup {
    fn default() -> Self {
        let source =
            CertificateSource::Ephemeral { names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()] };
        Self {
            options: ServerOptions { drain_delay: Duration::ZERO, ..ServerOptions::default() },
            tls: TlsOptions { source, client_auth: ClientAuth::None, tls13_only: false, http2: false },
            clock: wall_clock(),
            overloaded: None,
        }
    }
}

impl Setup {
    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut setup = Self::default();
        change(&mut setup.options);
        setup
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) admission: Arc<TestAdmission>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shutdown: Shutdown,
    pub(crate) store: Arc<CertificateStore>,
    task: JoinHandle<Result<(), ServerError>>,
}

impl Server {
    pub(crate) async fn start(setup: Setup) -> Self {
        let metrics = Arc::new(Metrics::new("test"));
        let store = CertificateStore::open(setup.tls, setup.clock, &metrics).unwrap();
        let admission = Arc::new(TestAdmission {
            entered: Semaphore::new(0),
            gate: Semaphore::new(0),
            overloaded: setup.overloaded,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let task = tokio::spawn(serve(
            listener,
            Arc::clone(&store),
            Arc::new(setup.options),
            Arc::clone(&admission),
            Arc::clone(&metrics),
            shutdown.clone(),
        ));
        Self { address, admission, metrics, shutdown, store, task }
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::start(Setup::with(change)).await
    }

    /// A connection of a client that trusts the ephemeral authority.
    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address, client(self.store.ca_pem().unwrap())).await.unwrap()
    }

    /// The value of a series, named with its labels as `/metrics` prints it.
    pub(crate) fn metric(&self, series: &str) -> i64 {
        let text = self.metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    /// Waits until a series has a value.
    pub(crate) async fn until_metric(&self, series: &str, value: i64) {
        until(&format!("{series} {value}"), || self.metric(series) == value).await;
    }

    /// Waits until one `wait` has begun.
    pub(crate) async fn entered(&self) {
        within(self.admission.entered.acquire()).await.unwrap().forget();
    }

    /// Waits for the server to end by itself.
    pub(crate) async fn ended(self) {
        within(self.task).await.unwrap().unwrap();
    }

    /// Ends the server.
    pub(crate) async fn stop(self) {
        self.shutdown.close();
        self.ended().await;
    }
}

/// A clock that tests set.
pub(crate) fn test_clock(start: Timestamp) -> (Clock, Arc<std::sync::Mutex<Timestamp>>) {
    let now = Arc::new(std::sync::Mutex::new(start));
    let shared = Arc::clone(&now);
    (Arc::new(move || *shared.lock().unwrap()), now)
}

fn roots(ca_pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

fn builder(
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
}

/// A client that trusts `ca_pem`.
pub(crate) fn client(ca_pem: &str) -> ClientConfig {
    builder(rustls::ALL_VERSIONS).with_root_certificates(roots(ca_pem)).with_no_client_auth()
}

/// A client that speaks some versions only.
pub(crate) fn client_of(ca_pem: &str, version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
    builder(&[version]).with_root_certificates(roots(ca_pem)).with_no_client_auth()
}

/// A client that shows a certificate.
pub(crate) fn client_with(ca_pem: &str, certificate_pem: &str, key_pem: &str) -> ClientConfig {
    let chain = CertificateDer::pem_slice_iter(certificate_pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
    builder(rustls::ALL_VERSIONS)
        .with_root_certificates(roots(ca_pem))
        .with_client_auth_cert(chain, key)
        .unwrap()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Whether the server said that it closes the connection.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

/// One connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TlsStream<TcpStream>,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, config: ClientConfig) -> std::io::Result<Self> {
        let tcp = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a well-formed request.
    pub(crate) async fn post(&mut self, path: &str, body: &str) {
        self.send(request(path, body)).await;
    }

    /// Sends a well-formed request and reads the answer.
    pub(crate) async fn call(&mut self, path: &str, body: &str) -> Response {
        self.post(path, body).await;
        self.response().await
    }

    /// Reads one answer.
    pub(crate) async fn response(&mut self) -> Response {
        within(self.try_response()).await.expect("the connection ended without an answer")
    }

    /// Reads one answer; `None` if the connection ends instead.
    pub(crate) async fn try_response(&mut self) -> Option<Response> {
        let head_end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = Response { status, head, body: String::new() };
        let length = response.header("content-length").map_or(0, |value| value.parse().unwrap());
        while self.unread.len() < length {
            self.more().await?;
        }
        response.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        Some(response)
    }

    async fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).await.ok().filter(|&count| count > 0)?;
        self.unread.extend_from_slice(&buffer[..count]);
        Some(())
    }

    /// Waits until the server ends the connection; nothing more may come.
    pub(crate) async fn closed(&mut self) {
        let more = within(self.more()).await;
        assert!(more.is_none(), "unexpected: {:?}", String::from_utf8_lossy(&self.unread));
    }

    /// The serial number of the server's certificate, as the store prints it.
    pub(crate) fn peer_serial(&self) -> String {
        let certificate = &self.stream.get_ref().1.peer_certificates().unwrap()[0];
        x509_parser::parse_x509_certificate(certificate).unwrap().1.raw_serial_as_string()
    }
}

/// A well-formed request.
pub(crate) fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
