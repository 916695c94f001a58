//! How a Prometheus is reached, and who we are to it: the settings that several sections have.

use std::path::PathBuf;

use http::{HeaderName, HeaderValue, Uri};
use serde_json::Value;

use super::check::{Check, shown};
use super::raw::{RawAccess, RawPrometheus};

/// How a Prometheus, or what speaks its API, is reached.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrometheusAccess {
    /// Such as `http://prometheus.monitoring.svc:9090`, without a slash at the end.
    pub address: Option<String>,
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
}

/// Values of headers are often secrets; who logs a configuration must not tell them.
impl std::fmt::Debug for PrometheusAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("PrometheusAccess")
            .field("address", &self.address)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl PrometheusAccess {
    /// What no setting of the section shows on its own.
    pub(super) fn check_together(&self, check: &mut Check<'_>, section: &str) {
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
            let message = format!("is needed because {section}.{given} is given");
            check.refuse(&format!("{section}.{missing}"), message);
        }
        if self.bearer_token_file.is_some() && self.username.is_some() {
            let message = format!(
                "is given beside {section}.username, but a request has one Authorization; leave one out"
            );
            check.refuse(&format!("{section}.bearerTokenFile"), message);
        }
        let mut names = self.headers.iter().map(|(name, _)| name.as_str());
        if (self.bearer_token_file.is_some() || self.username.is_some())
            && names.any(|name| name == "authorization")
        {
            check.refuse(
                &format!("{section}.headers"),
                "has Authorization, which the bearer token or the user name sets too; leave one out",
            );
        }
        let tls_only = self.ca_file.is_some() || self.client_certificate.is_some();
        if tls_only && self.address.as_deref().is_some_and(|address| address.starts_with("http://")) {
            check.refuse(
                &format!("{section}.address"),
                "begins with http://, but a CA or a client certificate is given, which only https:// uses",
            );
        }
    }

    /// Whether anything but the address is given.
    pub(super) fn has_credentials(&self) -> bool {
        *self != Self { address: self.address.clone(), ..Self::default() }
    }
}

/// The settings as written, by section.
pub(super) struct Written<'a> {
    section: &'static str,
    address: &'a Value,
    bearer_token_file: &'a Value,
    username: &'a Value,
    password_file: &'a Value,
    ca_file: &'a Value,
    client_certificate: &'a Value,
    client_key: &'a Value,
    headers: &'a Value,
}

macro_rules! written {
    ($section:expr, $raw:ident) => {
        Written {
            section: $section,
            address: &$raw.address,
            bearer_token_file: &$raw.bearer_token_file,
            username: &$raw.username,
            password_file: &$raw.password_file,
            ca_file: &$raw.ca_file,
            client_certificate: &$raw.client_certificate,
            client_key: &$raw.client_key,
            headers: &$raw.headers,
        }
    };
}

impl<'a> Written<'a> {
    pub(super) fn of_recommender(raw: &'a RawPrometheus) -> Self {
        written!("recommender.prometheus", raw)
    }

    pub(super) fn of_placement(raw: &'a RawAccess) -> Self {
        written!("placement.load.prometheus", raw)
    }
}

pub(super) fn check(check: &mut Check<'_>, written: &Written<'_>) -> PrometheusAccess {
    let path = |key: &str| format!("{}.{key}", written.section);
    PrometheusAccess {
        address: check.optional(&path("address"), written.address, |check, path, value| {
            url(check, path, value, written.section)
        }),
        bearer_token_file: check.optional(&path("bearerTokenFile"), written.bearer_token_file, Check::file),
        username: check.optional(&path("username"), written.username, username),
        password_file: check.optional(&path("passwordFile"), written.password_file, Check::file),
        ca_file: check.optional(&path("caFile"), written.ca_file, Check::file),
        client_certificate: check.optional(
            &path("clientCertificate"),
            written.client_certificate,
            Check::file,
        ),
        client_key: check.optional(&path("clientKey"), written.client_key, Check::file),
        headers: check.list(&path("headers"), written.headers, header).into_iter().flatten().collect(),
    }
}

/// A base URL, without a slash at the end.
fn url(check: &mut Check<'_>, path: &str, value: &Value, section: &str) -> String {
    let text = value.as_str().unwrap_or_default();
    let right = "write http:// or https://, a host, and if need be a port and a path, as in \
                 http://prometheus.monitoring.svc:9090";
    let parsed = text.parse::<Uri>().ok();
    let scheme = parsed.as_ref().and_then(Uri::scheme_str);
    let authority = parsed.as_ref().and_then(Uri::authority);
    match authority.filter(|_| matches!(scheme, Some("http" | "https"))) {
        Some(authority) if authority.as_str().contains('@') => check
            .refuse(path, format!("holds a user name; write {section}.username and passwordFile instead")),
        Some(authority) if !authority.host().is_empty() => {
            if parsed.as_ref().is_some_and(|uri| uri.query().is_some()) || text.contains('#') {
                check.refuse(path, format!("{} has more than a path; {right}", shown(value)));
            }
        }
        _ => check.refuse(path, format!("{} is not a URL; {right}", shown(value))),
    }
    text.trim_end_matches('/').to_owned()
}

/// The name of a label of a series.
pub(super) fn label(check: &mut Check<'_>, path: &str, value: &Value) -> String {
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
