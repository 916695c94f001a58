//! Usage from the HTTP API of Prometheus, or of what speaks it.
//!
//! CPU and memory are two queries. Both are evaluated for the same time and joined by namespace, pod and container, so
//! that a container has one sample with both. Where several series have the same names (two replicas of Prometheus, a
//! container that was restarted), the greatest value of a time counts: they tell of the same container, and too much
//! is the safer mistake.

mod answer;
mod client;
mod containers;
mod credentials;
mod error;
mod history;
mod queries;
mod table;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::answer::{Series, read as read_answer};
pub(crate) use self::client::{Ask, Client};
pub use self::client::{Query, Subject};
use self::containers::Containers;
pub use self::containers::Labels;
pub use self::error::PrometheusError;
pub use self::history::Progress;
use self::queries::{Queries, Template};
use self::table::{Table, join};
pub use self::workload::{Line, Past};
use super::{Failure, Scan, Sink, Skipped};

/// CPU in cores, unless another query is configured.
pub const CPU_QUERY: &str = "rate(container_cpu_usage_seconds_total\
    {namespace=~\"$namespace\",container!=\"\",container!=\"POD\"}[5m])";
/// The working set in bytes, unless another query is configured.
pub const MEMORY_QUERY: &str = "container_memory_working_set_bytes\
    {namespace=~\"$namespace\",container!=\"\",container!=\"POD\"}";

/// Most bytes of an instant answer: about 100,000 containers with all of cAdvisor's labels.
const INSTANT_BYTES: usize = 128 << 20;

/// How Prometheus is asked.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// `http(s)://host:port[/path]`, to which `/api/v1/query` is added.
    pub address: String,
    /// `PromQL` for cores. `$namespace` in it becomes a regular expression of the namespaces that are asked for.
    pub cpu_query: String,
    /// `PromQL` for the working set in bytes; the same.
    pub memory_query: String,
    /// The labels that name a container.
    pub labels: Labels,
    /// A file with a token that is sent as `Authorization: Bearer`; it is read for each call.
    pub bearer_token_file: Option<PathBuf>,
    /// For basic authentication.
    pub username: Option<String>,
    /// A file with the password for it; it is read for each call.
    pub password_file: Option<PathBuf>,
    /// Authorities to trust instead of the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// A certificate to show, in PEM, with its chain.
    pub client_certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub client_key: Option<PathBuf>,
    /// Sent with each call, such as `X-Scope-OrgID`.
    pub headers: Vec<(String, String)>,
    /// For one call, from connecting to the last byte.
    pub timeout: Duration,
    /// Between the points of history.
    pub history_step: Duration,
    /// How much time one call for history covers, at most.
    pub history_chunk: Duration,
    /// The pause before a call for history is made again; it doubles.
    pub first_pause: Duration,
    /// The longest pause. A `Retry-After` may be longer.
    pub longest_pause: Duration,
}

impl PrometheusOptions {
    /// The defaults for an address.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            cpu_query: CPU_QUERY.to_owned(),
            memory_query: MEMORY_QUERY.to_owned(),
            labels: Labels::default(),
            bearer_token_file: None,
            username: None,
            password_file: None,
            ca_file: None,
            client_certificate: None,
            client_key: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
            history_step: Duration::from_secs(300),
            history_chunk: Duration::from_secs(12 * 3600),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// Where Prometheus is, who we are to it, and whom we trust.
#[derive(Clone)]
pub struct Endpoint {
    /// `http(s)://host:port[/path]`, to which `/api/v1/query` is added.
    pub address: String,
    /// A file with a token that is sent as `Authorization: Bearer`; it is read for each call.
    pub bearer_token_file: Option<PathBuf>,
    /// For basic authentication.
    pub username: Option<String>,
    /// A file with the password for it; it is read for each call.
    pub password_file: Option<PathBuf>,
    /// Authorities to trust instead of the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// A certificate to show, in PEM, with its chain.
    pub client_certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub client_key: Option<PathBuf>,
    /// Sent with each call, such as `X-Scope-OrgID`.
    pub headers: Vec<(String, String)>,
    /// For one call, from connecting to the last byte.
    pub timeout: Duration,
}

/// Values of headers are often secrets.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// One that is called without credentials.
    pub fn new(address: impl Into<String>) -> Self {
        PrometheusOptions::new(address).endpoint()
    }
}

impl PrometheusOptions {
    /// What of it says how Prometheus is reached.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.address.clone(),
            bearer_token_file: self.bearer_token_file.clone(),
            username: self.username.clone(),
            password_file: self.password_file.clone(),
            ca_file: self.ca_file.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
            headers: self.headers.clone(),
            timeout: self.timeout,
        }
    }
}

/// Usage from Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    options: PrometheusOptions,
    queries: Queries,
}

impl Prometheus {
    /// Nothing is called, and no file read, yet.
    ///
    /// # Errors
    /// The address or a header cannot be used, or options contradict each other.
    pub fn new(options: PrometheusOptions) -> Result<Self, PrometheusError> {
        let queries = Queries {
            cpu: Template::new(Query::CPU, &options.cpu_query)?,
            memory: Template::new(Query::MEMORY, &options.memory_query)?,
        };
        let client = Client::new(&options.endpoint())?;
        Ok(Self { client, options, queries })
    }

    /// Asks for the usage at `now`. If one of the queries fails, samples have what the other brought.
    pub async fn scan(&self, now: i64, sink: &mut Sink<'_>) -> Scan {
        let mut scan = Scan::default();
        let at = queries::time(now);
        let (mut cpu_skipped, mut memory_skipped) = (Skipped::default(), Skipped::default());
        let (cpu, memory) = tokio::join!(
            self.instant(&self.queries.cpu, &at, &mut cpu_skipped),
            self.instant(&self.queries.memory, &at, &mut memory_skipped),
        );
        scan.skipped.add(&cpu_skipped);
        scan.skipped.add(&memory_skipped);
        let mut table = |result: Result<Table, PrometheusError>, query: &Query| {
            result.unwrap_or_else(|error| {
                scan.failures.push(error.failure(query.name()));
                Table::default()
            })
        };
        let (cpu, memory) = (table(cpu, &Query::CPU), table(memory, &Query::MEMORY));
        scan.samples = join(&cpu, &memory, &mut scan.skipped, sink);
        scan
    }

    async fn instant(
        &self,
        template: &Template,
        at: &str,
        skipped: &mut Skipped,
    ) -> Result<Table, PrometheusError> {
        let parameters = [("query", template.whole()), ("time", at.to_owned())];
        let query = &template.query;
        let ask = Ask {
            query,
            endpoint: "query",
            parameters: &parameters,
            limit: INSTANT_BYTES,
            expected: "vector",
        };
        self.ask(ask, skipped).await
    }

    /// One call, to the table of its points.
    async fn ask(&self, ask: Ask<'_>, skipped: &mut Skipped) -> Result<Table, PrometheusError> {
        let mut table = Table::default();
        let mut counted = Skipped::default();
        let mut containers =
            Containers { labels: &self.options.labels, table: &mut table, skipped: &mut counted, points: 0 };
        self.client.ask(ask, &mut containers).await?;
        skipped.add(&counted);
        Ok(table)
    }
}

impl PrometheusError {
    pub(crate) fn failure(&self, scope: &str) -> Failure {
        Failure { scope: scope.to_owned(), message: self.to_string(), retry_after: self.retry_after() }
    }
}
