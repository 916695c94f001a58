//! The front proxy: the API server, which passes a request on and says in headers whose it is.
//!
//! Headers are believed only where the connection was made with a certificate of the authority that the cluster keeps
//! for this, and with an allowed name in it. Anybody else may send the same headers; they mean nothing then.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use percent::decode;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde_json::Value;
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::identity::Identity;
use super::percent;
use crate::server::tls::provider;

/// So many certificates may stand above a client certificate.
const MOST_ABOVE: usize = 4;

const CA: &str = "requestheader-client-ca-file";
const ALLOWED_NAMES: &str = "requestheader-allowed-names";
const USERNAME: &str = "requestheader-username-headers";
const UID: &str = "requestheader-uid-headers";
const GROUP: &str = "requestheader-group-headers";
const EXTRA: &str = "requestheader-extra-headers-prefix";

/// Why the ConfigMap cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum FrontProxyError {
    /// The authority's certificates.
    #[error("data.{CA} {0}; PEM text with the certificates of --requestheader-client-ca-file is right")]
    Authority(String),
    /// A list.
    #[error("data.{key} is {found:.60}; a JSON list of texts is right")]
    List {
        /// Its key.
        key: &'static str,
        /// What stands there.
        found: String,
    },
    /// The name of a header.
    #[error("data.{key} has {found:?}, which is no name of a header")]
    Header {
        /// Its key.
        key: &'static str,
        /// What stands there.
        found: String,
    },
}

/// What the cluster says about its front proxy.
pub(super) struct FrontProxy {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Common names; empty: any.
    allowed_names: Vec<String>,
    username_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    /// In lower case.
    extra_prefixes: Vec<String>,
}

impl fmt::Debug for FrontProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxy").field("allowed_names", &self.allowed_names).finish_non_exhaustive()
    }
}

impl FrontProxy {
    /// Reads ConfigMap `kube-system/extension-apiserver-authentication`. `None` where the cluster has no front proxy.
    ///
    /// # Errors
    /// The ConfigMap says something that cannot be meant.
    pub(super) fn read(config_map: &Value) -> Result<Option<Self>, FrontProxyError> {
        let data =
            |key: &str| config_map.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
        let Some(pem) = data(CA).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
        let list = |key: &'static str| list(key, data(key));
        Ok(Some(Self {
            verifier: verifier(pem).map_err(FrontProxyError::Authority)?,
            allowed_names: list(ALLOWED_NAMES)?,
            username_headers: headers(USERNAME, list(USERNAME)?)?,
            uid_headers: headers(UID, list(UID)?)?,
            group_headers: headers(GROUP, list(GROUP)?)?,
            extra_prefixes: list(EXTRA)?.iter().map(|prefix| prefix.to_ascii_lowercase()).collect(),
        }))
    }

    /// Whose request it is, if the front proxy says so: nobody's unless the certificate, the first of `shown`, is one
    /// of the front proxy's at this time.
    pub(super) fn identity(
        &self,
        shown: &[CertificateDer<'_>],
        headers: &HeaderMap,
        now: UnixTime,
    ) -> Option<Identity> {
        let (leaf, chain) = shown.split_first()?;
        // To judge a long chain costs more than anybody should be able to make us pay.
        if chain.len() > MOST_ABOVE {
            return None;
        }
        if let Err(error) = self.verifier.verify_client_cert(leaf, chain, now) {
            tracing::debug!(%error, "a client certificate that is not the front proxy's");
            return None;
        }
        if !self.allowed_names.is_empty() {
            let name = common_name(leaf)?;
            if !self.allowed_names.contains(&name) {
                tracing::debug!(
                    name,
                    "a client certificate of the front proxy's authority with another name"
                );
                return None;
            }
        }
        self.named(headers)
    }

    /// Whom the headers name.
    fn named(&self, headers: &HeaderMap) -> Option<Identity> {
        let first = |names: &[HeaderName]| -> Option<String> {
            let texts = names.iter().filter_map(|name| headers.get(name)).map(|value| text(value.as_bytes()));
            texts.into_iter().find(|text| text.as_deref() != Some(""))?
        };
        let mut identity = Identity { user: first(&self.username_headers)?, ..Identity::default() };
        identity.uid = first(&self.uid_headers).unwrap_or_default();
        for name in &self.group_headers {
            for value in headers.get_all(name) {
                identity.groups.push(text(value.as_bytes())?);
            }
        }
        for (name, value) in headers {
            let key =
                self.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let Some(key) = key {
                // What is no percent-encoding was meant as it stands.
                let key = decode(key).unwrap_or_else(|| key.to_owned()).to_lowercase();
                identity.extra.entry(key).or_default().push(text(value.as_bytes())?);
            }
        }
        Some(identity)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn list(key: &'static str, text: Option<&str>) -> Result<Vec<String>, FrontProxyError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(Vec::new()) };
    // `null` is how Go writes a list that was never filled.
    let read = serde_json::from_str::<Option<Vec<String>>>(text);
    read.map(Option::unwrap_or_default).map_err(|_| FrontProxyError::List { key, found: text.to_owned() })
}

fn headers(key: &'static str, names: Vec<String>) -> Result<Vec<HeaderName>, FrontProxyError> {
    let header = |name: String| {
        HeaderName::try_from(name.as_str()).map_err(|_| FrontProxyError::Header { key, found: name.clone() })
    };
    names.into_iter().map(header).collect()
}

fn verifier(pem: &str) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "is no PEM text".to_owned())?;
        roots.add(certificate).map_err(|error| format!("has a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    verifier.map(|verifier| verifier as Arc<dyn ClientCertVerifier>).map_err(|error| error.to_string())
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        KeyUsagePurpose,
    };
    use serde_json::json;

    use super::*;

    pub(in crate::hpa::api) struct Authority(CertifiedIssuer<'static, KeyPair>);

    impl Authority {
        pub(in crate::hpa::api) fn new() -> Self {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, "front proxy CA");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
        }

        pub(in crate::hpa::api) fn client(
            &self,
            name: &str,
            usage: ExtendedKeyUsagePurpose,
        ) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.0).unwrap().der().clone()
        }
    }

    fn config_map(authority: &Authority, names: &str) -> Value {
        json!({"data": {
            CA: authority.0.pem(),
            ALLOWED_NAMES: names,
            USERNAME: r#"["X-Remote-User"]"#,
            UID: r#"["X-Remote-Uid"]"#,
            GROUP: r#"["X-Remote-Group"]"#,
            EXTRA: r#"["X-Remote-Extra-"]"#,
        }})
    }

    fn sent(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_the_front_proxy_is_believed() {
        let (ours, other) = (Authority::new(), Authority::new());
        let client = ExtendedKeyUsagePurpose::ClientAuth;
        let good = ours.client("front-proxy-client", client.clone());
        let headers = sent(&[("x-remote-user", "alice")]);
        let named = FrontProxy::read(&config_map(&ours, r#"["front-proxy-client"]"#)).unwrap().unwrap();
        let any = FrontProxy::read(&config_map(&ours, "[]")).unwrap().unwrap();
        let rows = [
            ("its own", &named, vec![good.clone()], true),
            ("no certificate", &named, vec![], false),
            ("another name", &named, vec![ours.client("kubelet", client.clone())], false),
            ("any name", &any, vec![ours.client("kubelet", client.clone())], true),
            ("another authority", &any, vec![other.client("front-proxy-client", client.clone())], false),
            (
                "another authority, with our authority's certificate behind it",
                &any,
                vec![other.client("front-proxy-client", client), ours.0.der().clone()],
                false,
            ),
            (
                "a server's certificate",
                &any,
                vec![ours.client("front-proxy-client", ExtendedKeyUsagePurpose::ServerAuth)],
                false,
            ),
            ("no X.509", &any, vec![CertificateDer::from(vec![1, 2, 3])], false),
        ];
        let now = UnixTime::now();
        for (rule, proxy, shown, believed) in rows {
            assert_eq!(proxy.identity(&shown, &headers, now).is_some(), believed, "{rule}");
        }
        let much_later = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1 << 40));
        assert_eq!(any.identity(&[good], &headers, much_later), None, "expired");
    }

    #[test]
    fn headers_make_an_identity() {
        let ours = Authority::new();
        let proxy = FrontProxy::read(&config_map(&ours, "[]")).unwrap().unwrap();
        let headers = sent(&[
            ("x-remote-user", "system:serviceaccount:a:b"),
            ("x-remote-uid", "u-1"),
            ("x-remote-group", "one"),
            ("x-remote-group", "two"),
            ("x-remote-extra-authentication.kubernetes.io%2fpod-name", "p-1"),
            ("x-remote-extra-scopes", "a"),
            ("x-remote-extra-scopes", "b"),
            ("x-other", "x"),
        ]);
        let identity = proxy.named(&headers).unwrap();
        assert_eq!(identity.user, "system:serviceaccount:a:b");
        assert_eq!(identity.uid, "u-1");
        assert_eq!(identity.groups, ["one", "two"]);
        let extra: Vec<_> =
            identity.extra.iter().map(|(key, values)| (key.as_str(), values.join(","))).collect();
        let expected =
            [("authentication.kubernetes.io/pod-name", "p-1".to_owned()), ("scopes", "a,b".to_owned())];
        assert_eq!(extra, expected);
        assert_eq!(proxy.named(&sent(&[("x-remote-group", "system:masters")])), None, "a group is nobody");
        assert_eq!(proxy.named(&sent(&[("x-remote-user", "")])), None, "nobody");
    }

    #[test]
    fn config_maps() {
        let ours = Authority::new();
        assert!(FrontProxy::read(&json!({"data": {"client-ca-file": "x"}})).unwrap().is_none());
        assert!(FrontProxy::read(&json!({})).unwrap().is_none());
        let with = |key: &str, text: &str| {
            let mut map = config_map(&ours, "[]");
            map["data"][key] = json!(text);
            FrontProxy::read(&map).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(with(ALLOWED_NAMES, ""), Ok(()));
        assert_eq!(with(ALLOWED_NAMES, "null"), Ok(()));
        for (key, text, said) in [
            (CA, "no PEM", "holds no certificate"),
            (CA, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be used"),
            (ALLOWED_NAMES, "front-proxy-client", "a JSON list of texts is right"),
            (GROUP, "[1]", "a JSON list of texts is right"),
            (USERNAME, r#"["X Remote User"]"#, "no name of a header"),
        ] {
            let error = with(key, text).unwrap_err();
            assert!(error.contains(said), "{key} {text}: {error}");
        }
    }
}
