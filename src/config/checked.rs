//! The configuration that the program uses: typed, within range, consistent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::check::{Check, shown};
use super::error::{Origin, Violation};
use super::hpa::{self, Hpa};
use super::placement::{self, LoadSource, Placement};
use super::profiles;
use super::quota::{self, Quota};
use super::raw::{RawAdmission, RawConfig, RawLog, RawServer, RawTls};
use super::recommender::{self, Recommender};
use super::self_managed::{self, SelfManaged};

/// Every setting of the program, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The HTTPS listener for admission.
    pub server: Server,
    /// Certificates.
    pub tls: Tls,
    /// The plain HTTP listener for probes and metrics.
    pub probes: Probes,
    /// What the admission handlers do with namespaces.
    pub admission: Admission,
    /// How the API server is reached.
    pub cluster: Cluster,
    /// Where usage comes from, and how often it becomes recommendations.
    pub recommender: Recommender,
    /// Elastic quota trees.
    pub quota: Quota,
    /// How autoscalers keep their meaning.
    pub hpa: Hpa,
    /// Where pods are placed.
    pub placement: Placement,
    /// The JSON API for people and tools on this machine.
    pub api: ApiListener,
    /// Logging.
    pub log: Log,
    /// Overcommit profiles as `{metadata: {name}, spec: {...}}`; names are unique, and each spec passed its checks.
    pub profiles: Vec<Value>,
}

/// The HTTPS listener for admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub http2: bool,
    /// Requests that are answered at the same time; 0: by the number of cores, see
    /// [`Server::concurrency_limit`].
    pub concurrency: usize,
    /// The longest a request waits for its turn.
    pub queue_deadline: Duration,
    /// Connections that are open at the same time.
    pub max_connections: usize,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// The longest a head may take to arrive.
    pub header_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes: usize,
    /// The longest a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a connection without a request stays open.
    pub idle_timeout: Duration,
    /// How long the server goes on after SIGTERM, not ready, before the listener closes.
    pub drain_delay: Duration,
    /// The longest that requests in flight may take after the listener has closed.
    pub shutdown_timeout: Duration,
    /// Whether callers show a certificate.
    pub client_auth: ClientAuth,
}

impl Server {
    /// Requests that are answered at the same time: as configured, else four for each core.
    pub fn concurrency_limit(&self) -> usize {
        if self.concurrency > 0 {
            return self.concurrency;
        }
        std::thread::available_parallelism().map_or(1, NonZeroUsize::get).saturating_mul(4)
    }
}

/// Whether callers show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// One that is shown must be valid.
    Optional,
    /// A valid one must be shown.
    Required,
}

/// Certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Where the serving pair comes from.
    pub source: TlsSource,
    /// File of the certificate chain, PEM; used with [`TlsSource::Files`].
    pub certificate: PathBuf,
    /// File of the private key, PEM; used with [`TlsSource::Files`].
    pub key: PathBuf,
    /// File of the CA certificates that callers' certificates must lead to, PEM; present when
    /// [`Server::client_auth`] needs it.
    pub client_ca: Option<PathBuf>,
    /// How often the contents of the files are compared.
    pub poll_interval: Duration,
    /// The oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
    /// DNS names and IP addresses for the certificate of [`TlsSource::Ephemeral`]; never empty then.
    pub names: Vec<String>,
    /// How certificates of [`TlsSource::SelfManaged`] come about.
    pub self_managed: SelfManaged,
}

/// Where the serving pair comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsSource {
    /// Files, which are read again when their contents change.
    Files,
    /// Made in memory at the start, for use without a cluster.
    Ephemeral,
    /// Signed in memory with an authority that all replicas share; it lives in a Secret and is looked after.
    SelfManaged,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

/// The plain HTTP listener for probes and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// Where to listen.
    pub address: SocketAddr,
}

/// What the admission handlers do with namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Namespaces whose pods are never changed; see [`Admission::excludes`].
    pub excluded_namespaces: Vec<String>,
    /// The namespace that the server itself runs in; always excluded too.
    pub own_namespace: String,
    /// The longest that a request waits for a namespace that has not been seen yet.
    pub namespace_read_timeout: Duration,
}

impl Admission {
    /// Whether pods of a namespace are never changed.
    pub fn excludes(&self, namespace: &str) -> bool {
        namespace == self.own_namespace
            || self.excluded_namespaces.iter().any(|excluded| excluded == namespace)
    }
}

/// How the API server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// A kubeconfig file; absent: `KUBECONFIG`, `~/.kube/config`, or the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; absent: its current one.
    pub context: Option<String>,
}

/// The JSON API for people and tools on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiListener {
    /// Where to listen, on loopback; absent: nowhere.
    pub address: Option<SocketAddr>,
}

/// Logging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A level, or levels by module: `info,plimsoll::admission=debug`.
    pub level: String,
    /// How lines are written.
    pub format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;

impl Config {
    /// Gives every setting its type; all that is wrong is reported at once.
    pub(super) fn check(raw: &RawConfig, origins: &BTreeMap<String, Origin>) -> Result<Self, Vec<Violation>> {
        let mut check = Check::new(origins);
        let mut config = Self {
            server: server(&mut check, &raw.server),
            tls: tls(&mut check, &raw.tls),
            probes: Probes { address: check.address("probes.address", &raw.probes.address) },
            admission: admission(&mut check, &raw.admission),
            cluster: Cluster {
                kubeconfig: check.optional("cluster.kubeconfig", &raw.cluster.kubeconfig, Check::file),
                context: check.optional("cluster.context", &raw.cluster.context, Check::text),
            },
            recommender: recommender::check(&mut check, &raw.recommender),
            quota: quota::check(&mut check, &raw.quota),
            hpa: hpa::check(&mut check, &raw.hpa),
            placement: placement::check(&mut check, &raw.placement),
            api: ApiListener { address: check.optional("api.address", &raw.api.address, loopback) },
            log: log(&mut check, &raw.log),
            profiles: profiles::check(&mut check, &raw.profiles),
        };
        config.placement.load.fall_back(&config.recommender.prometheus.access);
        config.check_together(&mut check);
        let violations = check.into_violations();
        if violations.is_empty() { Ok(config) } else { Err(violations) }
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        if self.server.address == self.probes.address && self.server.address.port() != 0 {
            let message =
                format!("{} is server.address too; give each listener an own port", self.probes.address);
            check.refuse("probes.address", message);
        }
        if let Some(api) = self.api.address.filter(|api| api.port() != 0)
            && let Some(other) =
                [("server.address", self.server.address), ("probes.address", self.probes.address)]
                    .into_iter()
                    .find_map(|(path, address)| (address == api).then_some(path))
        {
            check.refuse("api.address", format!("{api} is {other} too; give each listener an own port"));
        }
        if self.server.client_auth != ClientAuth::None && self.tls.client_ca.is_none() {
            let message = format!(
                "is needed because server.clientAuth is {:?}; give a file with the CA certificates of the callers",
                self.server.client_auth
            );
            check.refuse("tls.clientCa", message);
        }
        if self.hpa.serves_metrics() {
            self.hpa.api.check_together(check, &self.tls);
        }
        if self.placement.enabled {
            self.check_placement(check);
        }
        if self.tls.source == TlsSource::Ephemeral && self.tls.names.is_empty() {
            check.refuse(
                "tls.names",
                "is empty; tls.source Ephemeral needs at least one DNS name or IP address",
            );
        }
    }
}

impl Config {
    /// What placement needs of the other sections.
    fn check_placement(&self, check: &mut Check<'_>) {
        let hpa_api = self.hpa.serves_metrics().then_some(("hpa.api.address", self.hpa.api.address));
        let others = [("server.address", self.server.address), ("probes.address", self.probes.address)];
        if let Some(address) = self.placement.address.filter(|address| address.port() != 0)
            && let Some((other, _)) = others.into_iter().chain(hpa_api).find(|(_, other)| *other == address)
        {
            let message = format!("{address} is {other} too; give each listener an own port");
            check.refuse("placement.address", message);
        }
        if self.placement.load.source == LoadSource::Prometheus
            && self.placement.load.prometheus.address.is_none()
        {
            let message = "is needed because placement.load.source is Prometheus and recommender.prometheus.address is \
                           null; write its URL, as in http://prometheus.monitoring.svc:9090";
            check.refuse("placement.load.prometheus.address", message);
        }
    }
}

fn server(check: &mut Check<'_>, raw: &RawServer) -> Server {
    Server {
        address: check.address("server.address", &raw.address),
        http2: check.flag("server.http2", &raw.http2),
        concurrency: check.count("server.concurrency", &raw.concurrency, 0..=65_536),
        queue_deadline: check.duration(
            "server.queueDeadline",
            &raw.queue_deadline,
            MILLISECOND..=30 * SECOND,
        ),
        max_connections: check.count("server.maxConnections", &raw.max_connections, 1..=1_000_000),
        // The HTTP library takes no buffer below 8 KiB.
        header_bytes: check.bytes("server.headerBytes", &raw.header_bytes, 8 * KI..=MI),
        header_timeout: check.duration(
            "server.headerTimeout",
            &raw.header_timeout,
            10 * MILLISECOND..=5 * MINUTE,
        ),
        body_bytes: check.bytes("server.bodyBytes", &raw.body_bytes, 64 * KI..=256 * MI),
        body_timeout: check.duration("server.bodyTimeout", &raw.body_timeout, 10 * MILLISECOND..=5 * MINUTE),
        idle_timeout: check.duration("server.idleTimeout", &raw.idle_timeout, SECOND..=24 * HOUR),
        drain_delay: check.duration("server.drainDelay", &raw.drain_delay, Duration::ZERO..=10 * MINUTE),
        shutdown_timeout: check.duration("server.shutdownTimeout", &raw.shutdown_timeout, SECOND..=HOUR),
        client_auth: check.choice(
            "server.clientAuth",
            &raw.client_auth,
            &[
                ("None", ClientAuth::None),
                ("Optional", ClientAuth::Optional),
                ("Required", ClientAuth::Required),
            ],
            ClientAuth::None,
        ),
    }
}

fn tls(check: &mut Check<'_>, raw: &RawTls) -> Tls {
    Tls {
        source: check.choice(
            "tls.source",
            &raw.source,
            &[
                ("Files", TlsSource::Files),
                ("Ephemeral", TlsSource::Ephemeral),
                ("SelfManaged", TlsSource::SelfManaged),
            ],
            TlsSource::Files,
        ),
        certificate: check.file("tls.certificate", &raw.certificate),
        key: check.file("tls.key", &raw.key),
        client_ca: check.optional("tls.clientCa", &raw.client_ca, Check::file),
        poll_interval: check.duration("tls.pollInterval", &raw.poll_interval, 100 * MILLISECOND..=HOUR),
        min_version: check.choice(
            "tls.minVersion",
            &raw.min_version,
            &[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)],
            TlsVersion::Tls12,
        ),
        names: check.list("tls.names", &raw.names, Check::host),
        self_managed: self_managed::check(check, &raw.self_managed),
    }
}

fn admission(check: &mut Check<'_>, raw: &RawAdmission) -> Admission {
    Admission {
        excluded_namespaces: check.list(
            "admission.excludedNamespaces",
            &raw.excluded_namespaces,
            Check::namespace,
        ),
        own_namespace: check.namespace("admission.ownNamespace", &raw.own_namespace),
        namespace_read_timeout: check.duration(
            "admission.namespaceReadTimeout",
            &raw.namespace_read_timeout,
            MILLISECOND..=10 * SECOND,
        ),
    }
}

/// An address that only this machine reaches.
fn loopback(check: &mut Check<'_>, path: &str, value: &Value) -> SocketAddr {
    let noted = check.count_noted();
    let address = check.address(path, value);
    if check.count_noted() == noted && !address.ip().is_loopback() {
        let right = "the API asks nobody who they are; write a loopback address, as in 127.0.0.1:8082, and reach it \
                     with kubectl port-forward";
        check.refuse(path, format!("{} is reached from other machines; {right}", shown(value)));
    }
    address
}

fn log(check: &mut Check<'_>, raw: &RawLog) -> Log {
    let level = check.text("log.level", &raw.level);
    if !level.is_empty() && !level.split(',').all(is_level) {
        let right = "write error, warn, info, debug, trace or off, or levels by module as in info,hyper=warn";
        check.refuse("log.level", format!("{} is not a log level; {right}", shown(&raw.level)));
    }
    let formats = [("Auto", LogFormat::Auto), ("Text", LogFormat::Text), ("Json", LogFormat::Json)];
    Log { level, format: check.choice("log.format", &raw.format, &formats, LogFormat::Auto) }
}

/// `info` or `module=info`. The logging library would take a misspelt level for the name of a module.
fn is_level(directive: &str) -> bool {
    let (module, level) = directive.rsplit_once('=').unwrap_or(("plimsoll", directive));
    let named = !module.is_empty()
        && module.split("::").all(|part| {
            !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
        });
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    named && levels.iter().any(|known| known.eq_ignore_ascii_case(level))
}
