//! One call to the HTTP API.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use super::answer::{self, Answer, NoSeries, Series};
use super::credentials::{Credentials, Secrets, TlsFiles};
use super::{Endpoint, PrometheusError};
use crate::recommender::sources::body::{NoBody, causes, collect, collect_error, excerpt, retry_after};

/// How long a TCP connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shorter than servers and load balancers wait, and than the time between scans.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Calls with longer parameters are sent as a form: servers and proxies limit the length of a URL. Short ones are
/// not, because some gateways let read-only users only GET.
const LONGEST_URL: usize = 4096;

type Http = HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// What is asked for, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    name: Cow<'static, str>,
    subject: Subject,
}

/// What each series of an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A container of a pod.
    Container,
    /// A node.
    Node,
}

impl Query {
    /// CPU usage of containers.
    pub const CPU: Self = Self { name: Cow::Borrowed("cpuQuery"), subject: Subject::Container };
    /// The working sets of containers.
    pub const MEMORY: Self = Self { name: Cow::Borrowed("memoryQuery"), subject: Subject::Container };

    /// One with the name of its setting.
    pub fn new(name: impl Into<Cow<'static, str>>, subject: Subject) -> Self {
        Self { name: name.into(), subject }
    }

    /// The name of its setting.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What each series is about.
    pub const fn subject(&self) -> Subject {
        self.subject
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container => "container",
            Self::Node => "node",
        })
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) query: &'a Query,
    /// `query` or `query_range`.
    pub(crate) endpoint: &'a str,
    pub(crate) parameters: &'a [(&'a str, String)],
    /// Most bytes of the answer.
    pub(crate) limit: usize,
    /// `vector` or `matrix`.
    pub(crate) expected: &'static str,
}

/// Prometheus, as it is reached.
pub(crate) struct Client {
    /// Without a slash at its end.
    base: String,
    headers: HeaderMap,
    credentials: Credentials,
    timeout: Duration,
    /// Connections, with what they were made of.
    http: Mutex<Option<(TlsFiles, Http)>>,
    /// Warnings that were logged, so that one that comes with each answer is logged once.
    warned: Mutex<HashSet<String>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    /// Nothing is called, and no file read, yet.
    pub(crate) fn new(options: &Endpoint) -> Result<Self, PrometheusError> {
        let (base, https) = base(&options.address)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &options.headers {
            let wrong = |reason: &str| PrometheusError::Setting {
                setting: format!("headers: {name}"),
                reason: reason.to_owned(),
            };
            let name = HeaderName::try_from(name).map_err(|_| wrong("is no name of a header"))?;
            let mut value =
                HeaderValue::try_from(value).map_err(|_| wrong("has a value that no header can have"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))));
        let credentials = Credentials::new(options, https)?;
        Ok(Self {
            base,
            headers,
            credentials,
            timeout: options.timeout,
            http: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    fn url(&self, endpoint: &str) -> String {
        format!("{}/api/v1/{endpoint}", self.base)
    }

    /// Calls an endpoint and gives what Prometheus says to `series`.
    ///
    /// # Errors
    /// A part of the series may have been given then.
    pub(crate) async fn ask(&self, ask: Ask<'_>, series: &mut impl Series) -> Result<(), PrometheusError> {
        let body = self.call(ask).await?;
        let answer = answer::read(&body, series);
        let answer = answer.map_err(|error| self.not_understood(ask.query, &error, &body))?;
        drop(body);
        self.warn(ask.query, &answer);
        self.check(ask.query, answer, ask.expected)
    }

    fn warn(&self, query: &Query, answer: &Answer) {
        /// Warnings may name what changes each time.
        const MOST: usize = 100;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in &answer.warnings {
            if warned.len() < MOST && warned.insert(warning.clone()) {
                tracing::warn!(%query, warning, "Prometheus warns; what it sent is used");
            }
        }
        for info in &answer.infos {
            tracing::debug!(%query, info, "Prometheus remarks");
        }
    }

    /// The result is the body of an answer that Prometheus says is good.
    async fn call(&self, ask: Ask<'_>) -> Result<Vec<u8>, PrometheusError> {
        let url = self.url(ask.endpoint);
        let slow =
            |_| PrometheusError::Slow { query: ask.query.clone(), url: url.clone(), limit: self.timeout };
        timeout(self.timeout, self.exchange(ask, &url)).await.map_err(slow)?
    }

    async fn exchange(&self, ask: Ask<'_>, url: &str) -> Result<Vec<u8>, PrometheusError> {
        let Ask { query, limit, .. } = ask;
        let no_answer =
            |reason| PrometheusError::NoAnswer { query: query.clone(), url: url.to_owned(), reason };
        let (http, authorization) = self.connection().await?;
        let mut form = form(ask.parameters);
        // The server need not go on when nobody waits any more.
        let _ = write!(form, "&timeout={}ms", self.timeout.as_millis());
        let mut request = if url.len() + form.len() < LONGEST_URL {
            Request::get(format!("{url}?{form}")).body(Full::default())
        } else {
            Request::post(url)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::from(form))
        }
        .map_err(|error| no_answer(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        if let Some(authorization) = authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        let answer = http.request(request).await.map_err(|error| no_answer(causes(&error)))?;
        if !answer.status().is_success() {
            return Err(refused(query, url, answer).await);
        }
        collect(answer.into_body(), limit).await.map_err(|error| match error {
            NoBody::TooLarge => {
                PrometheusError::TooLarge { query: query.clone(), url: url.to_owned(), limit }
            }
            NoBody::CutOff(error) => {
                PrometheusError::CutOff { query: query.clone(), url: url.to_owned(), reason: causes(&error) }
            }
        })
    }

    /// Connections that are made with the files as they are now, and the value of `Authorization`.
    async fn connection(&self) -> Result<(Http, Option<HeaderValue>), PrometheusError> {
        let credentials = self.credentials.clone();
        let read = tokio::task::spawn_blocking(move || credentials.read());
        let Secrets { authorization, tls } = read.await.map_err(|error| PrometheusError::Setting {
            setting: "credentials".to_owned(),
            reason: error.to_string(),
        })??;
        let mut known = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((files, http)) = known.as_ref()
            && *files == tls
        {
            return Ok((http.clone(), authorization));
        }
        let http = self.connect(&tls)?;
        *known = Some((tls, http.clone()));
        Ok((http, authorization))
    }

    fn connect(&self, files: &TlsFiles) -> Result<Http, PrometheusError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        let https = self.base.starts_with("https:");
        let config = if https { self.credentials.tls(files)? } else { Credentials::no_tls()? };
        let connector = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = if https { connector.https_only() } else { connector.https_or_http() };
        let connector = connector.enable_http1().wrap_connector(tcp);
        Ok(HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector))
    }

    /// What is wrong with a body that was not understood.
    fn not_understood(&self, query: &Query, error: &serde_json::Error, body: &[u8]) -> PrometheusError {
        let (query, url) = (query.clone(), self.base.clone());
        let start = excerpt(body);
        match looks_like(body) {
            Some(what) => PrometheusError::NotJson { query, url, what, start },
            None => PrometheusError::NotUnderstood { query, url, reason: error.to_string(), start },
        }
    }

    /// Whether an answer is a success and of the kind that is wanted.
    fn check(&self, query: &Query, answer: Answer, expected: &'static str) -> Result<(), PrometheusError> {
        let (query, url) = (query.clone(), self.base.clone());
        match (answer.status.as_deref(), answer.result_type) {
            (Some("success"), Some(found)) if found == expected => Ok(()),
            (Some("success"), found) => {
                let found = found.unwrap_or_else(|| "thing without resultType".to_owned());
                Err(PrometheusError::Kind { query, url, found, expected })
            }
            _ => Err(PrometheusError::Refused {
                query,
                url,
                code: StatusCode::OK,
                error_type: answer.error_type,
                message: answer.error.unwrap_or_else(|| "the answer has no status of success".to_owned()),
                retry_after: None,
            }),
        }
    }
}

/// The address in the form to which a path can be added, and whether it is one of https.
fn base(address: &str) -> Result<(String, bool), PrometheusError> {
    let wrong = |reason: &str| {
        // What is before an @ may be a password.
        let address = address.rsplit_once('@').map_or(address, |(_, rest)| rest).to_owned();
        Err(PrometheusError::Address { address, reason: reason.to_owned() })
    };
    let Ok(uri) = address.parse::<Uri>() else { return wrong("is no URL") };
    let https = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(_) => return wrong("is neither http nor https"),
        None => return wrong("has no http:// or https://"),
    };
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            return wrong("has a name and password; give them by username and passwordFile");
        }
        Some(authority) if !authority.host().is_empty() => {}
        _ => return wrong("has no host"),
    }
    if uri.query().is_some() {
        return wrong("has a query");
    }
    Ok((address.trim_end_matches('/').to_owned(), https))
}

/// `application/x-www-form-urlencoded`
fn form(parameters: &[(&str, String)]) -> String {
    let mut form = String::new();
    for (name, value) in parameters {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                form.push(char::from(byte));
            } else {
                let _ = write!(form, "%{byte:02X}");
            }
        }
    }
    form
}

/// What an answer is that is no JSON.
fn looks_like(body: &[u8]) -> Option<&'static str> {
    match body.trim_ascii_start() {
        [] => Some("nothing"),
        [b'<', ..] => Some("HTML"),
        [b'{' | b'[', ..] => None,
        _ => Some("text"),
    }
}

async fn refused(query: &Query, url: &str, answer: Response<Incoming>) -> PrometheusError {
    let (code, query, url) = (answer.status(), query.clone(), url.to_owned());
    if let Some(location) = answer.headers().get(LOCATION)
        && code.is_redirection()
    {
        let location = excerpt(location.as_bytes());
        return PrometheusError::Redirect { query, url, code, location };
    }
    let retry_after = retry_after(answer.headers());
    let body = collect_error(answer.into_body()).await;
    let said = answer::read(&body, &mut NoSeries);
    let Answer { error, error_type, .. } = said.unwrap_or_default();
    let message = error.unwrap_or_else(|| excerpt(&body));
    PrometheusError::Refused { query, url, code, error_type, message, retry_after }
}
