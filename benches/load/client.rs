//! Keep-alive connections that send the same review with a fresh uid, and check each answer.
//!
//! Written on the socket: a general HTTP client would take more of the machine than the servers that are measured.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cluster;
use crate::data;
use crate::latencies::Latencies;
use crate::server::{Kind, Server};

const UID_LENGTH: usize = 36;

/// Where requests go and what they are.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    tls: TlsConnector,
    request: Vec<u8>,
    /// Where a fresh uid stands in each request.
    uid_at: Option<usize>,
    /// What the first answer of a connection must contain.
    expected: &'static str,
}

impl Target {
    pub(crate) fn new(server: &Server) -> anyhow::Result<Self> {
        let (path, agent, body) = match server.kind {
            Kind::Echo | Kind::JsonEcho | Kind::Plimsoll => {
                ("/mutate?timeout=10s", "kube-apiserver-admission", data::review())
            }
            Kind::Extender(nodes) | Kind::Constant(nodes) => {
                ("/scheduler/prioritize", "Go-http-client/1.1", cluster::request(nodes))
            }
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\n\
             Content-Length: {}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\
             Accept-Encoding: gzip\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(&body);
        let uid_at = match server.kind {
            Kind::Extender(_) | Kind::Constant(_) => None,
            _ => Some(find(&request, br#""uid":""#).context("the review has no uid")? + 7),
        };
        Ok(Self {
            address: server.admission,
            tls: connector(&server.ca_file())?,
            request,
            uid_at,
            expected: match server.kind {
                Kind::Echo | Kind::JsonEcho => r#""allowed":true"#,
                Kind::Plimsoll => r#""patchType":"JSONPatch""#,
                Kind::Extender(_) | Kind::Constant(_) => r#","Score":"#,
            },
        })
    }
}

fn connector(ca: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).map_err(|error| anyhow::anyhow!("the CA: {error}"))?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// One connection.
struct Connection {
    stream: TlsStream<TcpStream>,
    target: Target,
    serial: u128,
    answer: Vec<u8>,
    answer_length: Option<usize>,
}

impl Connection {
    async fn open(target: Target, number: usize) -> anyhow::Result<Self> {
        let tcp = TcpStream::connect(target.address).await.context("the server cannot be reached")?;
        tcp.set_nodelay(true)?;
        let stream = target.tls.connect(ServerName::try_from("localhost")?, tcp).await?;
        let serial = u128::try_from(number)? << 64;
        Ok(Self { stream, target, serial, answer: Vec::with_capacity(8 * 1024), answer_length: None })
    }

    /// Sends a review and reads its answer.
    async fn exchange(&mut self) -> anyhow::Result<()> {
        self.serial += 1;
        if let Some(at) = self.target.uid_at {
            let uid = self.target.request.get_mut(at..at + UID_LENGTH);
            write!(uid.context("the request is shorter than its uid")?, "{:0UID_LENGTH$x}", self.serial)?;
        }
        self.stream.write_all(&self.target.request).await?;
        self.stream.flush().await?;
        self.answer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "the server closed the connection");
            if let Some(body_at) = complete(&self.answer)? {
                return self.check(body_at);
            }
        }
    }

    fn check(&mut self, body_at: usize) -> anyhow::Result<()> {
        let body = self.answer.get(body_at..).unwrap_or_default();
        if self.target.uid_at.is_some() {
            let uid = format!("{:0UID_LENGTH$x}", self.serial);
            ensure!(find(body, uid.as_bytes()).is_some(), "an answer has another uid");
        }
        match self.answer_length {
            None if find(body, self.target.expected.as_bytes()).is_some() => {
                self.answer_length = Some(body.len());
            }
            Some(length) if length == body.len() => {}
            _ => bail!("not the expected answer: {}", String::from_utf8_lossy(body)),
        }
        Ok(())
    }
}

/// Where the body begins, once all of it is there.
fn complete(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head_end) = find(answer, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(answer.get(..head_end).unwrap_or_default())?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "the server refused: {}", String::from_utf8_lossy(answer));
    let length: usize = head
        .lines()
        .find_map(|line| {
            line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        })
        .context("an answer without Content-Length")?
        .1
        .parse()?;
    let body_at = head_end + 4;
    Ok((answer.len() == body_at + length).then_some(body_at))
}

/// Many connections at work.
pub(crate) struct Load {
    tasks: JoinSet<anyhow::Result<Latencies>>,
    shared: Arc<Shared>,
    pacer: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Answers received.
    done: AtomicU64,
    /// Whether latencies are noted.
    recording: AtomicBool,
    stop: AtomicBool,
}

impl Load {
    /// Each connection sends its next request as soon as it has its answer.
    pub(crate) async fn closed_loop(target: &Target, connections: usize) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for number in 0..connections {
            let mut connection = Connection::open(target.clone(), number).await?;
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                let mut latencies = Latencies::default();
                while !shared.stop.load(Ordering::Relaxed) {
                    let sent = Instant::now();
                    connection.exchange().await?;
                    shared.note(&mut latencies, sent);
                }
                Ok(latencies)
            });
        }
        Ok(Self { tasks, shared, pacer: None })
    }

    /// Requests are due at fixed times, spread over the connections in turn, whether or not earlier ones were
    /// answered; latency counts from when a request was due.
    pub(crate) async fn paced(target: &Target, connections: usize, rate: u32) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        let mut queues = Vec::new();
        for number in 0..connections {
            let mut connection = Connection::open(target.clone(), number).await?;
            let (queue, mut due) = mpsc::unbounded_channel();
            queues.push(queue);
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                let mut latencies = Latencies::default();
                while let Some(due) = due.recv().await {
                    connection.exchange().await?;
                    shared.note(&mut latencies, due);
                }
                Ok(latencies)
            });
        }
        let pace = Arc::clone(&shared);
        let pacer = std::thread::spawn(move || {
            // A thread: the runtime's timers have steps of a millisecond.
            let mut due = Instant::now();
            for queue in queues.iter().cycle() {
                due += Duration::from_secs(1) / rate;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if pace.stop.load(Ordering::Relaxed) || queue.send(due).is_err() {
                    break;
                }
            }
        });
        Ok(Self { tasks, shared, pacer: Some(pacer) })
    }

    /// Answers received so far.
    pub(crate) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Whether a connection has ended, which is an error before [`Load::stop`].
    pub(crate) fn failed(&mut self) -> bool {
        self.tasks.try_join_next().is_some()
    }

    /// Notes latencies from now on, or no more.
    pub(crate) fn record(&self, on: bool) {
        self.shared.recording.store(on, Ordering::Relaxed);
    }

    /// Ends all connections and returns what they noted.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Latencies> {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(pacer) = self.pacer.take() {
            let _ = pacer.join();
        }
        let mut all = Latencies::default();
        while let Some(task) = self.tasks.join_next().await {
            all.append(task??);
        }
        Ok(all)
    }
}

impl Shared {
    fn note(&self, latencies: &mut Latencies, since: Instant) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.recording.load(Ordering::Relaxed) {
            latencies.push(since.elapsed());
        }
    }
}
