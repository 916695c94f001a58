//! Usage from `metrics.k8s.io/v1beta1`, as metrics-server and its like serve it through the API server.

mod answer;
mod nodes;

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use http::header::ACCEPT;
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};

pub use self::answer::{PodMetricsError, read_pod_metrics};
pub(crate) use self::nodes::NodeUse;
use self::nodes::read_node_metrics;
use super::body::{NoBody, causes, collect, collect_error, excerpt, retry_after};
use super::{Failure, Scan, Sink};

const ALL_NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
const ALL_PODS: &str = "/apis/metrics.k8s.io/v1beta1/pods";
/// Namespaces that are asked for at the same time.
const AT_ONCE: usize = 4;
/// An answer of 100,000 pods is about 50 MB.
const BODY_BYTES: usize = 256 << 20;

/// How metrics-server is asked.
#[derive(Clone, Debug)]
pub struct MetricsServerOptions {
    /// One call for each namespace instead of one for all; for clusters in which rights are given by namespace.
    pub per_namespace: bool,
    /// For one call.
    pub timeout: Duration,
}

impl Default for MetricsServerOptions {
    fn default() -> Self {
        Self { per_namespace: false, timeout: Duration::from_secs(30) }
    }
}

/// Why a call brought nothing.
#[derive(Debug, Error)]
enum MetricsServerError {
    #[error(
        "GET {path}: no answer within {limit:?}; look at the load of metrics-server, or raise the timeout"
    )]
    Slow { path: String, limit: Duration },
    #[error("GET {path}: {reason}")]
    NoAnswer { path: String, reason: String },
    #[error("GET {path}: the answer broke off: {reason}")]
    CutOff { path: String, reason: String },
    #[error("GET {path}: the answer is larger than {BODY_BYTES} bytes; ask per namespace")]
    TooLarge { path: String },
    #[error("GET {path}: {code}: {message}{}", hint(*.code))]
    Status { path: String, code: StatusCode, message: String, retry_after: Option<Duration> },
    #[error("GET {path}: the answer {source}; it begins with: {start}")]
    Answer { path: String, source: PodMetricsError, start: String },
}

impl MetricsServerError {
    fn failure(&self, scope: &str) -> Failure {
        let retry_after = match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        Failure { scope: scope.to_owned(), message: self.to_string(), retry_after }
    }
}

/// What an operator can do about a status.
fn hint(code: StatusCode) -> &'static str {
    match code.as_u16() {
        401 => "; check the credentials of the service account",
        403 => "; grant list on pods, or on nodes, of metrics.k8s.io to the service account",
        404 => "; install metrics-server, or choose another source",
        429 => "; the API server asks to wait",
        502..=504 => "; see `kubectl get apiservice v1beta1.metrics.k8s.io`",
        _ => "",
    }
}

/// `kind: Status`, of which the message is wanted.
#[derive(Deserialize)]
struct Status {
    message: String,
}

impl std::fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsServer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Usage from metrics-server. The time of a sample is that of the item, so an item that was not refreshed between
/// two scans is delivered again with the same time.
pub struct MetricsServer {
    client: Client,
    options: MetricsServerOptions,
    namespaces: Vec<String>,
}

impl MetricsServer {
    /// Nothing is called yet.
    pub const fn new(client: Client, options: MetricsServerOptions) -> Self {
        Self { client, options, namespaces: Vec::new() }
    }

    /// The namespaces of which usage is wanted. They are asked for one by one if the options say so; else the answer
    /// is about all there are.
    pub fn set_namespaces(&mut self, namespaces: Vec<String>) {
        self.namespaces = namespaces;
    }

    /// Asks once, and delivers what comes. A namespace that fails does not stop the others.
    pub async fn scan(&self, sink: &mut Sink<'_>) -> Scan {
        let mut scan = Scan::default();
        if !self.options.per_namespace {
            take(&mut scan, "metrics-server", self.fetch(ALL_PODS.to_owned()).await, sink);
            return scan;
        }
        // Boxed, so that what scans may run on any thread.
        let asked: Vec<BoxFuture<'_, _>> =
            self.namespaces.iter().map(|name| self.ask(name).boxed()).collect();
        let mut answers = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE);
        // A server that answers none of them in time must not keep the loop for hours.
        let deadline = Instant::now() + 2 * self.options.timeout;
        let mut missing = self.namespaces.len();
        loop {
            match timeout_at(deadline, answers.next()).await {
                Ok(Some((name, answer))) => take(&mut scan, &format!("namespace {name}"), answer, sink),
                Ok(None) => return scan,
                Err(_) => break,
            }
            missing -= 1;
        }
        scan.failures.push(Failure {
            scope: "metrics-server".to_owned(),
            message: format!(
                "{missing} of {} namespaces were not answered in the time there is; ask for all at once, or raise \
                 the timeout",
                self.namespaces.len()
            ),
            retry_after: None,
        });
        scan
    }

    async fn ask<'a>(&self, namespace: &'a str) -> (&'a str, Result<(String, Vec<u8>), MetricsServerError>) {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        (namespace, self.fetch(path).await)
    }

    /// Asks once for all nodes.
    pub(crate) async fn nodes(&self, each: &mut (dyn FnMut(NodeUse<'_>) + Send)) -> Result<(), Failure> {
        let read = |(path, body): (String, Vec<u8>)| {
            read_node_metrics(&body, each).map_err(|source| MetricsServerError::Answer {
                path,
                source,
                start: excerpt(&body),
            })
        };
        let answer = self.fetch(ALL_NODES.to_owned()).await.and_then(read);
        answer.map_err(|error| error.failure("nodes"))
    }

    async fn fetch(&self, path: String) -> Result<(String, Vec<u8>), MetricsServerError> {
        let limit = self.options.timeout;
        timeout(limit, self.call(&path))
            .await
            .unwrap_or_else(|_| Err(MetricsServerError::Slow { path: path.clone(), limit }))
            .map(|body| (path, body))
    }

    async fn call(&self, path: &str) -> Result<Vec<u8>, MetricsServerError> {
        let owned = || path.to_owned();
        let no_answer = |reason| MetricsServerError::NoAnswer { path: owned(), reason };
        let request = Request::get(path).header(ACCEPT, "application/json").body(Body::empty());
        let request = request.map_err(|error| no_answer(error.to_string()))?;
        let answer = self.client.send(request).await.map_err(|error| no_answer(causes(&error)))?;
        let code = answer.status();
        if !code.is_success() {
            let retry_after = retry_after(answer.headers());
            let body = collect_error(answer.into_body()).await;
            let message = serde_json::from_slice::<Status>(&body)
                .map_or_else(|_| excerpt(&body), |status| status.message);
            return Err(MetricsServerError::Status { path: owned(), code, message, retry_after });
        }
        collect(answer.into_body(), BODY_BYTES).await.map_err(|error| match error {
            NoBody::TooLarge => MetricsServerError::TooLarge { path: owned() },
            NoBody::CutOff(error) => MetricsServerError::CutOff { path: owned(), reason: causes(&error) },
        })
    }
}

fn take(
    scan: &mut Scan,
    scope: &str,
    answer: Result<(String, Vec<u8>), MetricsServerError>,
    sink: &mut Sink<'_>,
) {
    let mut samples = 0;
    let result = answer.and_then(|(path, body)| {
        let mut counting = |sample: &super::Sample<'_>| {
            samples += 1;
            sink(sample);
        };
        read_pod_metrics(&body, &mut scan.skipped, &mut counting)
            .map_err(|source| MetricsServerError::Answer { path, source, start: excerpt(&body) })
    });
    scan.samples += samples;
    if let Err(error) = result {
        scan.failures.push(error.failure(scope));
    }
}
