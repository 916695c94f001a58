//! Writes `APIService`s, and looks whether what they point at answers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, SERVER};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use plimsoll_core::hpa::{MetricsGroup, ServiceRef, Step, api_service_name};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster;
use crate::recommender::sources::body::causes;

const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The pause between two looks whether it answers.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it is tried to write what others write too.
const TRIES: usize = 5;
/// So much of an answer is read.
const MOST_BYTES: usize = 4 << 20;

/// Why something could not be read, written or reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The API server does not do it.
    #[error("{what}: {message}")]
    Refused {
        /// The call.
        what: String,
        /// What it says.
        message: String,
        /// The status.
        code: StatusCode,
    },
    /// No answer.
    #[error("{what}: {reason}")]
    NoAnswer {
        /// The call.
        what: String,
        /// Why not.
        reason: String,
    },
    /// Nothing tells by whose authority our certificate is.
    #[error(
        "MutatingWebhookConfiguration {0} has no caBundle to take over; give the CA of the server's certificate by --ca-file"
    )]
    NoBundle(String),
    /// The CA is none.
    #[error("the CA is no PEM text with certificates")]
    Bundle,
}

/// An answer.
struct Answer {
    status: StatusCode,
    server: String,
    body: Vec<u8>,
}

impl Answer {
    fn message(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let message = status.get("message").and_then(Value::as_str).map(str::to_owned);
        message.unwrap_or_else(|| self.status.to_string())
    }

    /// Whether it is one of this program's.
    fn is_ours(&self) -> bool {
        self.server.starts_with("plimsoll/")
    }
}

/// Reads and writes `APIService`s with somebody's rights.
pub struct Installer {
    client: Client,
    dry_run: bool,
}

impl Installer {
    /// With `dry_run` the API server checks what is written, and stores nothing.
    pub const fn new(client: Client, dry_run: bool) -> Self {
        Self { client, dry_run }
    }

    /// An `APIService`, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, InstallError> {
        let what = format!("get APIService {name}");
        self.read(&what, format!("{PATH}/{name}")).await
    }

    /// Does what `decide` says about an `APIService`, and again if it changed in the meantime. The step that was done.
    ///
    /// # Errors
    /// `decide` refuses, or it cannot be written.
    pub async fn apply<E: From<InstallError>>(
        &self,
        name: &str,
        decide: impl Fn(Option<&Value>) -> Result<Step, E>,
    ) -> Result<Step, E> {
        let mut tries = TRIES;
        loop {
            let found = self.get(name).await?;
            let step = decide(found.as_ref())?;
            tries -= 1;
            match self.write(name, &step, found.as_ref()).await {
                Err(InstallError::Refused { code: StatusCode::CONFLICT, .. }) if tries > 0 => {}
                result => return result.map(|()| step).map_err(E::from),
            }
        }
    }

    async fn write(&self, name: &str, step: &Step, found: Option<&Value>) -> Result<(), InstallError> {
        let query = if self.dry_run { "?dryRun=All&fieldManager=plimsoll" } else { "?fieldManager=plimsoll" };
        let one = format!("{PATH}/{name}");
        let (what, method, path, body) = match step {
            Step::Nothing => return Ok(()),
            Step::Create(object) => ("create", Method::POST, format!("{PATH}{query}"), object.clone()),
            Step::Replace(object) => ("update", Method::PUT, format!("{one}{query}"), object.clone()),
            Step::Delete => {
                let metadata =
                    |key: &str| found.and_then(|found| found.pointer("/metadata")?.get(key).cloned());
                let same = json!({"uid": metadata("uid"), "resourceVersion": metadata("resourceVersion")});
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": same});
                if let (true, Some(options)) = (self.dry_run, options.as_object_mut()) {
                    options.insert("dryRun".to_owned(), json!(["All"]));
                }
                ("delete", Method::DELETE, one, options)
            }
        };
        let what = format!("{what} APIService {name}");
        let answer = ask(&self.client, &what, method, &path, Some(&body)).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refused(what, &answer)) }
    }

    async fn read(&self, what: &str, path: String) -> Result<Option<Value>, InstallError> {
        let answer = ask(&self.client, what, Method::GET, &path, None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|error| InstallError::NoAnswer { what: what.to_owned(), reason: error.to_string() }),
            _ => Err(refused(what.to_owned(), &answer)),
        }
    }

    /// What our webhook configuration says about the authority of our certificate: the bundle, in base64, and the
    /// Certificate from which cert-manager keeps it up to date.
    ///
    /// # Errors
    /// There is none.
    pub async fn bundle(&self, webhook: &str) -> Result<(String, Option<String>), InstallError> {
        let what = format!("get MutatingWebhookConfiguration {webhook}");
        let found = self.read(&what, format!("{WEBHOOKS}/{webhook}")).await?.unwrap_or_default();
        let bundle = found.pointer("/webhooks/0/clientConfig/caBundle").and_then(Value::as_str);
        let bundle = bundle.filter(|bundle| !bundle.is_empty());
        let bundle = bundle.ok_or_else(|| InstallError::NoBundle(webhook.to_owned()))?;
        let from = found.pointer("/metadata/annotations/cert-manager.io~1inject-ca-from");
        Ok((bundle.to_owned(), from.and_then(Value::as_str).map(str::to_owned)))
    }

    /// Asks our Service for a group through the API server, which finds its endpoints. That nobody is told who asks is
    /// as good an answer as any.
    ///
    /// # Errors
    /// Nobody answers, or somebody else.
    pub async fn probe_service(
        &self,
        service: &ServiceRef,
        group: MetricsGroup,
        version: &str,
    ) -> Result<(), InstallError> {
        let ServiceRef { namespace, name, port } = service;
        let path = format!(
            "/api/v1/namespaces/{namespace}/services/https:{name}:{port}/proxy/apis/{}/{version}",
            group.name()
        );
        let what = format!("ask Service {service} at port {port}");
        judge(&what, &ask(&self.client, &what, Method::GET, &path, None).await?)
    }

    /// Whether metrics are told now, by whoever tells them.
    ///
    /// # Errors
    /// They are not.
    pub async fn probe_metrics(&self) -> Result<(), InstallError> {
        let what = "ask for the usage of nodes through the API server";
        let path = "/apis/metrics.k8s.io/v1beta1/nodes?limit=1";
        let answer = ask(&self.client, what, Method::GET, path, None).await?;
        if answer.status == StatusCode::OK { Ok(()) } else { Err(refused(what.to_owned(), &answer)) }
    }

    /// Waits until the API server passes requests for a group on to us, and we answer them.
    ///
    /// # Errors
    /// That did not come true in time; with what was the matter last.
    pub async fn wait_for(
        &self,
        group: MetricsGroup,
        version: &str,
        patience: Duration,
    ) -> Result<(), InstallError> {
        let deadline = Instant::now() + patience;
        loop {
            let problem = match self.reaches_us(group, version).await {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            if Instant::now() + PAUSE > deadline {
                return Err(problem);
            }
            sleep(PAUSE).await;
        }
    }

    async fn reaches_us(&self, group: MetricsGroup, version: &str) -> Result<(), InstallError> {
        let what = format!("ask for {}/{version} through the API server", group.name());
        let path = format!("/apis/{}/{version}", group.name());
        let answer = ask(&self.client, &what, Method::GET, &path, None).await?;
        if !answer.status.is_success() {
            return Err(refused(what, &answer));
        }
        judge(&what, &answer)?;
        if group == MetricsGroup::Metrics {
            self.probe_metrics().await?;
        }
        let name = api_service_name(group, version);
        let found = self.get(&name).await?.unwrap_or_default();
        let conditions = found.pointer("/status/conditions").and_then(Value::as_array);
        let available = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Available"));
        let text =
            |key: &str| available.and_then(|condition| condition.get(key)?.as_str()).unwrap_or_default();
        if text("status") == "True" {
            return Ok(());
        }
        let reason = format!("it is not available yet: {}", text("message"));
        Err(InstallError::NoAnswer { what: format!("look at APIService {name}"), reason })
    }
}

/// Asks our server at an address of its own, as the API server would: by the authority and the name of the Service.
///
/// # Errors
/// Nobody answers, somebody else, or not by that authority.
pub async fn probe_address(
    address: &Uri,
    service: &ServiceRef,
    ca_bundle: &str,
    group: MetricsGroup,
    version: &str,
) -> Result<(), InstallError> {
    let what = format!("ask {address}");
    let no_answer = |reason: String| InstallError::NoAnswer { what: what.clone(), reason };
    let pem = STANDARD.decode(ca_bundle).map_err(|_| InstallError::Bundle)?;
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let roots = roots.ok().filter(|roots| !roots.is_empty()).ok_or(InstallError::Bundle)?;
    let mut config = Config::new(address.clone());
    config.root_cert = Some(roots.iter().map(|root| root.to_vec()).collect());
    config.tls_server_name = Some(format!("{}.{}.svc", service.name, service.namespace));
    let client = cluster::client(config).map_err(|error| no_answer(error.to_string()))?;
    let path = format!("/apis/{}/{version}", group.name());
    judge(&what, &ask(&client, &what, Method::GET, &path, None).await?)
}

fn judge(what: &str, answer: &Answer) -> Result<(), InstallError> {
    if answer.is_ours() && (answer.status.is_success() || answer.status == StatusCode::UNAUTHORIZED) {
        return Ok(());
    }
    let reason = if answer.is_ours() {
        format!(
            "{}: {}; hpa.shim.enabled or hpa.external.enabled must be true",
            answer.status,
            answer.message()
        )
    } else {
        format!("it is not this server that answers: {}: {}", answer.status, answer.message())
    };
    Err(InstallError::NoAnswer { what: what.to_owned(), reason })
}

fn refused(what: String, answer: &Answer) -> InstallError {
    InstallError::Refused { what, message: answer.message(), code: answer.status }
}

async fn ask(
    client: &Client,
    what: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Answer, InstallError> {
    let no_answer = |reason: String| InstallError::NoAnswer { what: what.to_owned(), reason };
    let body = body.map(|body| body.to_string().into_bytes());
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    let request = request.body(body.map_or_else(Body::empty, Body::from));
    let request = request.map_err(|error| no_answer(error.to_string()))?;
    let call = async {
        let answer = client.send(request).await.map_err(|error| causes(&error))?;
        let (head, mut stream) = answer.into_parts();
        let mut body = Vec::new();
        while let Some(frame) = stream.frame().await {
            let Ok(data) = frame.map_err(|error| causes(&error))?.into_data() else { continue };
            if body.len() + data.len() > MOST_BYTES {
                break;
            }
            body.extend_from_slice(&data);
        }
        let server = head.headers.get(SERVER).and_then(|server| server.to_str().ok());
        Ok(Answer { status: head.status, server: server.unwrap_or_default().to_owned(), body })
    };
    let answer = timeout(LIMIT, call).await.unwrap_or_else(|_| Err(format!("no answer within {LIMIT:?}")));
    answer.map_err(no_answer)
}
