//! The settings of the recommender.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use serde_json::Value;

use super::check::{Check, shown};
use super::checked::{HOUR, MILLISECOND, MINUTE, SECOND};
use super::raw::{RawPrometheus, RawRecommender};
use super::units::duration_text;

/// Where usage comes from, and how often it becomes recommendations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommender {
    /// Whether recommendations are made at all.
    pub enabled: bool,
    /// Where usage comes from.
    pub source: UsageSource,
    /// How often usage is taken.
    pub scan_interval: Duration,
    /// The longest that one question to the source may take.
    pub source_timeout: Duration,
    /// A table of usage; present with [`UsageSource::File`].
    pub file: Option<PathBuf>,
    /// Into how many parts the namespaces are divided; each has its own leader.
    pub shards: u32,
    /// Each changed workload's state is written about once in this time.
    pub checkpoint_interval: Duration,
    /// The most objects that are written in a second, recommendations and checkpoints together.
    pub writes_per_second: u32,
    /// After this time without a sign of life of the leader another replica takes over; whole seconds.
    pub lease_duration: Duration,
    /// How often the leader gives a sign of life.
    pub renew_interval: Duration,
    /// How metrics-server is asked.
    pub metrics_server: MetricsServer,
    /// How Prometheus is asked.
    pub prometheus: Prometheus,
}

/// Where usage comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageSource {
    /// The API `metrics.k8s.io`.
    MetricsServer,
    /// Prometheus, or what speaks its API.
    Prometheus,
    /// A table in a file.
    File,
}

/// How metrics-server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsServer {
    /// One question for each namespace, in place of one for all.
    pub per_namespace: bool,
}

/// How Prometheus, or what speaks its API, is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Such as `http://prometheus.monitoring.svc:9090`, without a slash at the end; present with
    /// [`UsageSource::Prometheus`].
    pub address: Option<String>,
    /// Gives the CPU usage of each container, in cores.
    pub cpu_query: String,
    /// Gives the memory usage of each container, in bytes.
    pub memory_query: String,
    /// The label with the namespace.
    pub namespace_label: String,
    /// The label with the pod.
    pub pod_label: String,
    /// The label with the container.
    pub container_label: String,
    /// A file with a bearer token; never beside a user name.
    pub bearer_token_file: Option<PathBuf>,
    /// For basic authentication; there is a password file then.
    pub username: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// A file with the CA certificates that the server's certificate must lead to, PEM; absent: those of the system.
    pub ca_file: Option<PathBuf>,
    /// A file with a certificate to show, PEM; there is a key then.
    pub client_certificate: Option<PathBuf>,
    /// A file with its key, PEM.
    pub client_key: Option<PathBuf>,
    /// Further headers, such as the tenant.
    pub headers: Vec<(String, String)>,
    /// How much of the past is loaded at the first start; zero: nothing.
    pub history: Duration,
    /// How far apart the samples of the past are.
    pub history_step: Duration,
    /// How much time one query about the past covers.
    pub history_chunk: Duration,
}

/// Values of headers are often secrets; who logs a configuration must not tell them.
impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Prometheus")
            .field("address", &self.address)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl Recommender {
    /// Whether there is something to do. Without a cluster there is no metrics-server to ask.
    pub fn runs(&self, standalone: bool) -> bool {
        self.enabled && !(standalone && self.source == UsageSource::MetricsServer)
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        if self.enabled && self.source == UsageSource::Prometheus && self.prometheus.address.is_none() {
            check.refuse(
                "recommender.prometheus.address",
                "is needed because recommender.source is Prometheus; write its URL, as in \
                 http://prometheus.monitoring.svc:9090",
            );
        }
        if self.enabled && self.source == UsageSource::File && self.file.is_none() {
            check.refuse(
                "recommender.file",
                "is needed because recommender.source is File; give a table of usage (*.csv, *.csv.gz, *.csv.zst)",
            );
        }
        if self.renew_interval * 2 > self.lease_duration {
            let message = format!(
                "{} is more than half of recommender.leaseDuration ({}): one call that fails would cost the lease",
                duration_text(self.renew_interval),
                duration_text(self.lease_duration)
            );
            check.refuse("recommender.renewInterval", message);
        }
        if !self.lease_duration.as_millis().is_multiple_of(1000) {
            let message = format!(
                "{} is not in whole seconds, as a Lease needs it",
                duration_text(self.lease_duration)
            );
            check.refuse("recommender.leaseDuration", message);
        }
        self.prometheus.check_together(check);
    }
}

/// The most points of a series that Prometheus gives in one answer is 11000.
const MOST_POINTS: u128 = 10_000;

impl Prometheus {
    fn check_together(&self, check: &mut Check<'_>) {
        let pairs = [
            ("username", self.username.is_some(), "passwordFile", self.password_file.is_some()),
            ("clientCertificate", self.client_certificate.is_some(), "clientKey", self.client_key.is_some()),
        ];
        for (first, has_first, second, has_second) in pairs {
            let (missing, given) = match (has_first, has_second) {
                (true, false) => (second, first),
                (false, true) => (first, second),
                _ => continue,
            };
            let message = format!("is needed because recommender.prometheus.{given} is given");
            check.refuse(&format!("recommender.prometheus.{missing}"), message);
        }
        if self.bearer_token_file.is_some() && self.username.is_some() {
            check.refuse(
                "recommender.prometheus.bearerTokenFile",
                "is given beside recommender.prometheus.username, but a request has one Authorization; leave one out",
            );
        }
        let names = self.headers.iter().map(|(name, _)| name.as_str());
        if (self.bearer_token_file.is_some() || self.username.is_some())
            && names.clone().any(|name| name == "authorization")
        {
            check.refuse(
                "recommender.prometheus.headers",
                "has Authorization, which the bearer token or the user name sets too; leave one out",
            );
        }
        if self.tls_only() && self.address.as_deref().is_some_and(|address| address.starts_with("http://")) {
            check.refuse(
                "recommender.prometheus.address",
                "begins with http://, but a CA or a client certificate is given, which only https:// uses",
            );
        }
        let text = duration_text;
        if self.history > Duration::ZERO && self.history < self.history_step {
            let message = format!(
                "{} is shorter than recommender.prometheus.historyStep ({}); write a longer one, or 0s for none",
                text(self.history),
                text(self.history_step)
            );
            check.refuse("recommender.prometheus.history", message);
        }
        let points = self.history_chunk.as_millis().checked_div(self.history_step.as_millis());
        if points.is_some_and(|points| !(1..=MOST_POINTS).contains(&points)) {
            let message = format!(
                "{} must be from once to {MOST_POINTS} times recommender.prometheus.historyStep ({}): a server gives \
                 no more points in one answer",
                text(self.history_chunk),
                text(self.history_step)
            );
            check.refuse("recommender.prometheus.historyChunk", message);
        }
    }

    fn tls_only(&self) -> bool {
        self.ca_file.is_some() || self.client_certificate.is_some()
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawRecommender) -> Recommender {
    let noted = check.count_noted();
    let recommender = Recommender {
        enabled: check.flag("recommender.enabled", &raw.enabled),
        source: check.choice(
            "recommender.source",
            &raw.source,
            &[
                ("MetricsServer", UsageSource::MetricsServer),
                ("Prometheus", UsageSource::Prometheus),
                ("File", UsageSource::File),
            ],
            UsageSource::MetricsServer,
        ),
        scan_interval: check.duration("recommender.scanInterval", &raw.scan_interval, SECOND..=HOUR),
        source_timeout: check.duration("recommender.sourceTimeout", &raw.source_timeout, SECOND..=5 * MINUTE),
        file: check.optional("recommender.file", &raw.file, Check::file),
        shards: number(check, "recommender.shards", &raw.shards, 64),
        checkpoint_interval: check.duration(
            "recommender.checkpointInterval",
            &raw.checkpoint_interval,
            10 * SECOND..=24 * HOUR,
        ),
        writes_per_second: number(check, "recommender.writesPerSecond", &raw.writes_per_second, 1000),
        lease_duration: check.duration(
            "recommender.leaseDuration",
            &raw.lease_duration,
            2 * SECOND..=5 * MINUTE,
        ),
        renew_interval: check.duration(
            "recommender.renewInterval",
            &raw.renew_interval,
            500 * MILLISECOND..=MINUTE,
        ),
        metrics_server: MetricsServer {
            per_namespace: check
                .flag("recommender.metricsServer.perNamespace", &raw.metrics_server.per_namespace),
        },
        prometheus: prometheus(check, &raw.prometheus),
    };
    if check.count_noted() == noted {
        recommender.check_together(check);
    }
    recommender
}

fn prometheus(check: &mut Check<'_>, raw: &RawPrometheus) -> Prometheus {
    let path = |key: &str| format!("recommender.prometheus.{key}");
    Prometheus {
        address: check.optional(&path("address"), &raw.address, url),
        cpu_query: check.text(&path("cpuQuery"), &raw.cpu_query),
        memory_query: check.text(&path("memoryQuery"), &raw.memory_query),
        namespace_label: label(check, &path("namespaceLabel"), &raw.namespace_label),
        pod_label: label(check, &path("podLabel"), &raw.pod_label),
        container_label: label(check, &path("containerLabel"), &raw.container_label),
        bearer_token_file: check.optional(&path("bearerTokenFile"), &raw.bearer_token_file, Check::file),
        username: check.optional(&path("username"), &raw.username, username),
        password_file: check.optional(&path("passwordFile"), &raw.password_file, Check::file),
        ca_file: check.optional(&path("caFile"), &raw.ca_file, Check::file),
        client_certificate: check.optional(&path("clientCertificate"), &raw.client_certificate, Check::file),
        client_key: check.optional(&path("clientKey"), &raw.client_key, Check::file),
        headers: check.list(&path("headers"), &raw.headers, header).into_iter().flatten().collect(),
        history: check.duration(&path("history"), &raw.history, Duration::ZERO..=90 * 24 * HOUR),
        history_step: check.duration(&path("historyStep"), &raw.history_step, SECOND..=24 * HOUR),
        history_chunk: check.duration(&path("historyChunk"), &raw.history_chunk, MINUTE..=90 * 24 * HOUR),
    }
}

fn number(check: &mut Check<'_>, path: &str, value: &Value, most: u32) -> u32 {
    u32::try_from(check.count(path, value, 1..=most.into())).unwrap_or(most)
}

/// A base URL, without a slash at the end.
fn url(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let right = "write http:// or https://, a host, and if need be a port and a path, as in \
                 http://prometheus.monitoring.svc:9090";
    let parsed = text.parse::<Uri>().ok();
    let scheme = parsed.as_ref().and_then(Uri::scheme_str);
    let authority = parsed.as_ref().and_then(Uri::authority);
    match authority.filter(|_| matches!(scheme, Some("http" | "https"))) {
        Some(authority) if authority.as_str().contains('@') => check.refuse(
            path,
            "holds a user name; write recommender.prometheus.username and passwordFile instead",
        ),
        Some(authority) if !authority.host().is_empty() => {
            if parsed.as_ref().is_some_and(|uri| uri.query().is_some()) || text.contains('#') {
                check.refuse(path, format!("{} has more than a path; {right}", shown(value)));
            }
        }
        _ => check.refuse(path, format!("{} is not a URL; {right}", shown(value))),
    }
    text.trim_end_matches('/').to_owned()
}

fn label(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    let inner = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    if name.is_empty() || !name.bytes().all(inner) || name.starts_with(|first: char| first.is_ascii_digit()) {
        let right = "write letters, digits and '_', as in namespace";
        check.refuse(path, format!("{} is not the name of a label; {right}", shown(value)));
    }
    name.to_owned()
}

fn username(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let name = check.text(path, value);
    // In basic authentication the first colon ends the name.
    if name.contains(':') || name.contains(char::is_control) {
        check.refuse(path, format!("{} is not a user name; ':' cannot be in one", shown(value)));
    }
    name
}

/// `{name, value}`; the name comes out in lower case. The value is shown in no message: it may be a secret.
fn header(check: &mut Check<'_>, path: &str, item: &Value) -> Option<(String, String)> {
    const OURS: [&str; 5] = ["host", "content-length", "content-type", "transfer-encoding", "connection"];
    let fields = item.as_object().filter(|fields| fields.len() == 2);
    let field = |key: &str| fields.and_then(|fields| fields.get(key)).and_then(Value::as_str);
    let (Some(name), Some(text)) = (field("name"), field("value")) else {
        check.refuse(path, "is not a header; write {name: X-Scope-OrgID, value: team-a}");
        return None;
    };
    let Ok(parsed) = name.parse::<HeaderName>() else {
        check.refuse(&format!("{path}.name"), format!("{name:?} is not the name of a header"));
        return None;
    };
    if OURS.contains(&parsed.as_str()) {
        check.refuse(&format!("{path}.name"), format!("{name:?} is set by the request itself; leave it out"));
    }
    if text.parse::<HeaderValue>().is_err() {
        check.refuse(&format!("{path}.value"), "has characters that cannot stand in a header");
    }
    Some((parsed.as_str().to_owned(), text.to_owned()))
}
