//! The settings of the aggregated API server: where it listens, whom it asks, whom it tells scaled usage.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use serde_json::Value;

use super::check::{Check, shown};
use super::checked::{HOUR, MILLISECOND, MINUTE, SECOND, Tls, TlsSource};
use super::raw::RawHpaApi;

/// The aggregated API server, which answers for `metrics.k8s.io`, `custom.metrics.k8s.io` and
/// `external.metrics.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HpaApi {
    /// Where to listen.
    pub address: SocketAddr,
    /// File of the certificate chain, PEM; `None`: that of `tls.certificate`.
    pub certificate: Option<PathBuf>,
    /// File of its private key, PEM; given together with [`certificate`](Self::certificate).
    pub key: Option<PathBuf>,
    /// metrics-server's Service: `https://host:port`, without a path.
    pub upstream: Uri,
    /// File of the CA certificates that the upstream's certificate must lead to, PEM.
    pub upstream_ca: Option<PathBuf>,
    /// Whether the upstream's certificate is not checked.
    pub upstream_insecure_skip_verify: bool,
    /// The longest that the upstream may take for one answer.
    pub upstream_timeout: Duration,
    /// The users who are told scaled usage.
    pub identities: Vec<String>,
    /// How often it is looked whose client certificates may speak for others.
    pub front_proxy_interval: Duration,
}

impl HpaApi {
    /// What no setting shows on its own; only of interest where the server is on.
    pub(super) fn check_together(&self, check: &mut Check<'_>, tls: &Tls) {
        if tls.source == TlsSource::Ephemeral && self.certificate.is_none() {
            let message = "is needed because tls.source is Ephemeral: the API server must be told once and for all whose \
                           certificate it is; give hpa.api.certificate and hpa.api.key";
            check.refuse("hpa.api.certificate", message);
        }
        if self.upstream_ca.is_none() && !self.upstream_insecure_skip_verify {
            let message = "is needed to know metrics-server by its certificate; give its CA, or set \
                           hpa.api.upstreamInsecureSkipVerify to true where its APIService has insecureSkipTLSVerify";
            check.refuse("hpa.api.upstreamCa", message);
        }
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawHpaApi) -> HpaApi {
    let api = HpaApi {
        address: check.address("hpa.api.address", &raw.address),
        certificate: check.optional("hpa.api.certificate", &raw.certificate, Check::file),
        key: check.optional("hpa.api.key", &raw.key, Check::file),
        upstream: upstream(check, "hpa.api.upstream", &raw.upstream),
        upstream_ca: check.optional("hpa.api.upstreamCa", &raw.upstream_ca, Check::file),
        upstream_insecure_skip_verify: check
            .flag("hpa.api.upstreamInsecureSkipVerify", &raw.upstream_insecure_skip_verify),
        upstream_timeout: check.duration(
            "hpa.api.upstreamTimeout",
            &raw.upstream_timeout,
            100 * MILLISECOND..=MINUTE,
        ),
        identities: check.list("hpa.api.identities", &raw.identities, Check::text),
        front_proxy_interval: check.duration(
            "hpa.api.frontProxyInterval",
            &raw.front_proxy_interval,
            SECOND..=HOUR,
        ),
    };
    match (&api.certificate, &api.key) {
        (Some(_), None) => check.refuse("hpa.api.key", "is needed beside hpa.api.certificate"),
        (None, Some(_)) => check.refuse("hpa.api.certificate", "is needed beside hpa.api.key"),
        _ => {}
    }
    if api.upstream_ca.is_some() && api.upstream_insecure_skip_verify {
        check.refuse(
            "hpa.api.upstreamInsecureSkipVerify",
            "is true, so that hpa.api.upstreamCa would never be looked at; leave one out",
        );
    }
    api
}

fn upstream(check: &mut Check<'_>, path: &str, value: &Value) -> Uri {
    let uri = value.as_str().and_then(|text| text.parse::<Uri>().ok()).filter(|uri| {
        let host = uri
            .authority()
            .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
        uri.scheme_str() == Some("https") && host && uri.path() == "/" && uri.query().is_none()
    });
    uri.unwrap_or_else(|| {
        let right = "write https://, a host and a port, as in https://metrics-server.kube-system.svc:443";
        check.refuse(path, format!("{} is not the address of a Service; {right}", shown(value)));
        Uri::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    type Change = fn(&mut RawHpaApi);

    fn problems(change: impl FnOnce(&mut RawHpaApi)) -> Vec<String> {
        let mut raw = RawHpaApi::default();
        change(&mut raw);
        let origins = BTreeMap::new();
        let mut noted = Check::new(&origins);
        check(&mut noted, &raw);
        noted
            .into_violations()
            .iter()
            .map(|violation| format!("{}: {}", violation.path, violation.message))
            .collect()
    }

    #[test]
    fn what_cannot_be_right_is_named() {
        assert_eq!(problems(|_| ()), Vec::<String>::new());
        let rows: [(&str, Change, &str); 8] = [
            ("plain HTTP", |raw| raw.upstream = json!("http://metrics-server:80"), "hpa.api.upstream: "),
            ("a path", |raw| raw.upstream = json!("https://metrics-server/apis"), "hpa.api.upstream: "),
            ("no host", |raw| raw.upstream = json!("https://"), "hpa.api.upstream: "),
            ("a password", |raw| raw.upstream = json!("https://a:b@metrics-server"), "hpa.api.upstream: "),
            ("no key", |raw| raw.certificate = json!("tls.crt"), "hpa.api.key: is needed"),
            ("no certificate", |raw| raw.key = json!("tls.key"), "hpa.api.certificate: is needed"),
            ("nobody", |raw| raw.identities = json!([""]), "hpa.api.identities[0]: "),
            (
                "both",
                |raw| {
                    raw.upstream_ca = json!("ca.crt");
                    raw.upstream_insecure_skip_verify = json!(true);
                },
                "hpa.api.upstreamInsecureSkipVerify: is true",
            ),
        ];
        for (rule, change, begins) in rows {
            let found = problems(change);
            assert!(found.len() == 1 && found[0].starts_with(begins), "{rule}: {found:?}");
        }
    }
}
