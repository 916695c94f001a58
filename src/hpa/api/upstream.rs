//! metrics-server, which knows the true values.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use crate::cluster;
use crate::files::read_regular;
use crate::metrics::{Metrics, UpstreamError};
use crate::recommender::sources::body::{causes, excerpt};
use crate::server::limit::{BodyMemory, Limits};
use crate::status::Part;

/// What may fail, as it is told.
const UPSTREAM: &str = "ask metrics-server";

/// The longest answer that is passed on: that of a cluster with 100,000 pods.
const MOST_BYTES: usize = 64 << 20;

/// Where metrics-server is.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Its Service.
    pub address: Uri,
    /// File of the CA certificates that its certificate must lead to.
    pub ca: Option<PathBuf>,
    /// Whether its certificate is not checked.
    pub insecure_skip_verify: bool,
    /// The longest that it may take.
    pub timeout: Duration,
}

/// An answer, whatever it says.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) body: Bytes,
}

/// A body with the memory that it takes, which is given back when the last part of it is sent.
struct Accounted {
    body: Bytes,
    _memory: BodyMemory,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Why there is none.
#[derive(Debug, Error)]
pub(super) enum UpstreamFailure {
    #[error("metrics-server at {address} did not answer within {limit:?}")]
    Slow { address: Uri, limit: Duration },
    #[error("metrics-server at {address} cannot be asked: {reason}")]
    NoAnswer { address: Uri, reason: String },
    #[error(
        "the answer of metrics-server at {address} is larger than {MOST_BYTES} bytes; ask for less at once"
    )]
    TooLarge { address: Uri },
    #[error("there is no memory for the answer of metrics-server now; try again")]
    NoRoom,
    #[error(
        "metrics-server at {address} refuses our own credentials ({status}): {message}; the service account of this \
         server needs get and list on pods and nodes of metrics.k8s.io"
    )]
    Credentials { address: Uri, status: StatusCode, message: String },
    #[error("metrics-server at {address} answers {status}; hpa.api.upstream must be its Service")]
    Elsewhere { address: Uri, status: StatusCode },
}

impl UpstreamFailure {
    const fn reason(&self) -> UpstreamError {
        match self {
            Self::Slow { .. } => UpstreamError::Timeout,
            Self::NoAnswer { .. } => UpstreamError::NoAnswer,
            Self::TooLarge { .. } | Self::NoRoom => UpstreamError::TooLarge,
            Self::Credentials { .. } => UpstreamError::Credentials,
            Self::Elsewhere { .. } => UpstreamError::BadAnswer,
        }
    }
}

/// Asks metrics-server with the credentials that the API server is asked with: the token of the service account, which
/// is read again as it is replaced, or what a kubeconfig says.
pub(super) struct Upstream {
    options: UpstreamOptions,
    credentials: Config,
    /// The connections, with the CA file's content that they were made with.
    client: Mutex<Option<(Option<Vec<u8>>, Client)>>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Upstream {
    pub(super) fn new(
        options: UpstreamOptions,
        credentials: Config,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { options, credentials, client: Mutex::default(), limits, metrics }
    }

    /// Gets a path with its query. What is not an answer of metrics-server about what was asked is a failure.
    pub(super) async fn get(
        &self,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<Fetched, UpstreamFailure> {
        let (address, limit) = (self.options.address.clone(), self.options.timeout);
        let began = Instant::now();
        let result = timeout(limit, self.call(path_and_query, accept)).await;
        self.metrics.hpa_api_upstream(began.elapsed());
        let result = result.unwrap_or(Err(UpstreamFailure::Slow { address, limit }));
        if let Err(failure) = &result {
            self.metrics.hpa_api_upstream_error(failure.reason());
            if self.metrics.health().failed(Part::HpaApi, UPSTREAM, failure.to_string()) {
                tracing::warn!(%failure, "no true values");
            }
        } else {
            self.metrics.health().works(Part::HpaApi, UPSTREAM);
        }
        result
    }

    /// Counts an answer that is not of the form that it should be.
    pub(super) fn not_understood(&self, body: &[u8], reason: &str) -> String {
        self.metrics.hpa_api_upstream_error(UpstreamError::BadAnswer);
        let (address, start) = (&self.options.address, excerpt(body));
        let message = format!("the answer of metrics-server at {address} {reason}; it begins with: {start}");
        tracing::warn!("{message}");
        message
    }

    async fn call(
        &self,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<Fetched, UpstreamFailure> {
        let address = || self.options.address.clone();
        let no_answer = |reason: String| UpstreamFailure::NoAnswer { address: address(), reason };
        let client = self.client().await.map_err(no_answer)?;
        let mut request = Request::get(path_and_query);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let request = request.body(Body::empty()).map_err(|error| no_answer(error.to_string()))?;
        let answer = client.send(request).await.map_err(|error| no_answer(causes(&error)))?;
        let (head, mut stream) = answer.into_parts();
        let mut memory = self.limits.memory();
        let mut body = BytesMut::new();
        while let Some(frame) = stream.frame().await {
            let Ok(data) = frame.map_err(|error| no_answer(causes(&error)))?.into_data() else { continue };
            if body.len() + data.len() > MOST_BYTES {
                return Err(UpstreamFailure::TooLarge { address: address() });
            }
            if !memory.grow(data.len()) {
                return Err(UpstreamFailure::NoRoom);
            }
            body.extend_from_slice(&data);
        }
        let status = head.status;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            // It is about us, not about whoever asks: they must not take it for theirs.
            let status_message = serde_json::from_slice::<serde_json::Value>(&body).ok();
            let message = status_message
                .and_then(|status| Some(status.get("message")?.as_str()?.to_owned()))
                .unwrap_or_else(|| excerpt(&body));
            return Err(UpstreamFailure::Credentials { address: address(), status, message });
        }
        if status.is_redirection() || status.is_informational() {
            return Err(UpstreamFailure::Elsewhere { address: address(), status });
        }
        let content_type = head.headers.get(CONTENT_TYPE).cloned();
        Ok(Fetched {
            status,
            content_type,
            body: Bytes::from_owner(Accounted { body: body.freeze(), _memory: memory }),
        })
    }

    /// Connections that trust what the CA file holds now.
    async fn client(&self) -> Result<Client, String> {
        let ca = match self.options.ca.clone() {
            Some(path) => {
                let read = tokio::task::spawn_blocking(move || {
                    read_regular(&path).map_err(|error| format!("CA file {}: {error}", path.display()))
                });
                Some(read.await.map_err(|error| error.to_string())??)
            }
            None => None,
        };
        let mut made = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((with, client)) = made.as_ref()
            && *with == ca
        {
            return Ok(client.clone());
        }
        let client = self.connect(ca.as_deref())?;
        *made = Some((ca, client.clone()));
        Ok(client)
    }

    fn connect(&self, ca: Option<&[u8]>) -> Result<Client, String> {
        let mut config = self.credentials.clone();
        config.cluster_url = self.options.address.clone();
        config.root_cert_file = None;
        config.root_cert = ca.map(|pem| certificates(pem, self.options.ca.as_deref())).transpose()?;
        config.accept_invalid_certs = self.options.insecure_skip_verify;
        config.tls_server_name = None;
        // It is a Service of the cluster.
        config.proxy_url = None;
        cluster::client(config).map_err(|error| error.to_string())
    }
}

fn certificates(pem: &[u8], path: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let place = path.map(|path| path.display().to_string()).unwrap_or_default();
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all.iter().map(|one| one.to_vec()).collect()),
        _ => Err(format!("CA file {place} holds no certificate; PEM text is right")),
    }
}
