//! Who we are to Prometheus, and whom we trust: files that may be replaced at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Endpoint, PrometheusError};
use crate::files::read_regular;

const TOKEN: &str = "bearerTokenFile";
const PASSWORD: &str = "passwordFile";
const CA: &str = "caFile";
const CERTIFICATE: &str = "clientCertificate";
const KEY: &str = "clientKey";

/// The files that a call needs.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    token: Option<PathBuf>,
    basic: Option<(String, PathBuf)>,
    ca: Option<PathBuf>,
    pair: Option<(PathBuf, PathBuf)>,
}

/// What was in them at one time. No `Debug`: they are secrets.
pub(super) struct Secrets {
    /// The value of `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// What the connection's TLS is made of.
    pub(super) tls: TlsFiles,
}

/// The content of the files of TLS.
#[derive(Clone, Default, PartialEq)]
pub(super) struct TlsFiles {
    ca: Option<Vec<u8>>,
    pair: Option<(Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Takes the paths; nothing is read yet.
    pub(super) fn new(options: &Endpoint, https: bool) -> Result<Self, PrometheusError> {
        let wrong = |setting: &str, reason: &str| {
            Err(PrometheusError::Setting { setting: setting.to_owned(), reason: reason.to_owned() })
        };
        let basic = match (&options.username, &options.password_file) {
            (Some(name), Some(file)) if !name.contains(':') => Some((name.clone(), file.clone())),
            (Some(_), Some(_)) => {
                return wrong("username", "has a colon, which basic authentication cannot send");
            }
            (None, None) => None,
            (Some(_), None) => return wrong("username", "needs passwordFile"),
            (None, Some(_)) => return wrong("passwordFile", "needs username"),
        };
        if basic.is_some() && options.bearer_token_file.is_some() {
            return wrong(TOKEN, "and username exclude each other; leave one out");
        }
        let pair = match (&options.client_certificate, &options.client_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return wrong(CERTIFICATE, "needs clientKey"),
            (None, Some(_)) => return wrong(KEY, "needs clientCertificate"),
        };
        if !https && (pair.is_some() || options.ca_file.is_some()) {
            let setting = if pair.is_some() { CERTIFICATE } else { CA };
            return wrong(setting, "has no use with an address of http://; https:// is right");
        }
        let (token, ca) = (options.bearer_token_file.clone(), options.ca_file.clone());
        Ok(Self { token, basic, ca, pair })
    }

    /// Reads all files.
    pub(super) fn read(&self) -> Result<Secrets, PrometheusError> {
        let token =
            self.token.as_deref().map(|path| line(TOKEN, path).map(|token| format!("Bearer {token}")));
        let basic = self.basic.as_ref().map(|(name, path)| {
            line(PASSWORD, path)
                .map(|password| format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
        });
        let authorization = match token.or(basic).transpose()? {
            Some(text) => {
                let mut value = HeaderValue::try_from(text).map_err(|_| self.unfit())?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let ca = self.ca.as_deref().map(|path| bytes(CA, path)).transpose()?;
        let pair = self
            .pair
            .as_ref()
            .map(|(certificate, key)| Ok((bytes(CERTIFICATE, certificate)?, bytes(KEY, key)?)))
            .transpose()?;
        Ok(Secrets { authorization, tls: TlsFiles { ca, pair } })
    }

    /// For connections without TLS, whose maker wants to know all the same.
    pub(super) fn no_tls() -> Result<ClientConfig, PrometheusError> {
        Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }

    fn unfit(&self) -> PrometheusError {
        let path = self.token.clone().unwrap_or_default();
        let reason = "has characters that no header can have; one line with a token is right";
        PrometheusError::File { setting: TOKEN, path, reason: reason.to_owned() }
    }

    /// How connections are made with these files.
    pub(super) fn tls(&self, files: &TlsFiles) -> Result<ClientConfig, PrometheusError> {
        let failed =
            |setting: &str, reason: String| PrometheusError::Setting { setting: setting.to_owned(), reason };
        let builder = builder()?;
        let builder = if let (Some(bytes), Some(path)) = (&files.ca, &self.ca) {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(CA, path, bytes)? {
                roots
                    .add(certificate)
                    .map_err(|error| file(CA, path, format!("a certificate cannot be used: {error}")))?;
            }
            builder.with_root_certificates(roots)
        } else {
            builder.with_native_roots().map_err(|error| {
                failed(CA, format!("is not given, and the system has no authorities to trust: {error}"))
            })?
        };
        let (Some((chain, key)), Some((chain_path, key_path))) = (&files.pair, &self.pair) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(CERTIFICATE, chain_path, chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            let reason = match error {
                pem::Error::NoItemsFound => {
                    "holds no private key that can be used; PKCS#8, SEC1 or PKCS#1 in PEM is right"
                }
                _ => "is not PEM text",
            };
            file(KEY, key_path, reason.to_owned())
        })?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| file(KEY, key_path, format!("does not go with the certificate: {error}")))
    }
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, PrometheusError> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| PrometheusError::Setting {
            setting: "address".to_owned(),
            reason: error.to_string(),
        })
}

fn certificates(
    setting: &'static str,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, PrometheusError> {
    let all = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| file(setting, path, "is not PEM text".to_owned()))?;
    if all.is_empty() {
        let reason = "holds no certificate; `-----BEGIN CERTIFICATE-----` is right".to_owned();
        return Err(file(setting, path, reason));
    }
    Ok(all)
}

fn file(setting: &'static str, path: &Path, reason: String) -> PrometheusError {
    PrometheusError::File { setting, path: path.to_owned(), reason }
}

fn bytes(setting: &'static str, path: &Path) -> Result<Vec<u8>, PrometheusError> {
    read_regular(path).map_err(|error| file(setting, path, error.to_string()))
}

/// The text of a file without the end of its line.
fn line(setting: &'static str, path: &Path) -> Result<String, PrometheusError> {
    let text = String::from_utf8(bytes(setting, path)?)
        .map_err(|_| file(setting, path, "is not UTF-8".to_owned()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err(file(setting, path, "is empty".to_owned())) } else { Ok(text.to_owned()) }
}
