use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::recommender::sources::{Prometheus, PrometheusOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::support::{Reply, Server};

const EMPTY: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key, in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

fn acceptor(authority: &Authority, client_ca: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.0.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (certificate, key) = authority.issue("127.0.0.1");
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

fn options(server: &Server) -> PrometheusOptions {
    let address = format!("https://{}", server.address);
    PrometheusOptions { timeout: Duration::from_secs(5), ..PrometheusOptions::new(address) }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The message of the first failure, if there is one.
async fn failure(source: &Prometheus) -> Option<String> {
    source.scan(0, &mut |_| ()).await.failures.into_iter().next().map(|failure| failure.message)
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(), Authority::new());
    let server = Server::start_with(Some(acceptor(&ours, None)), |_| Reply::ok(EMPTY)).await;
    let ca = write(folder.path(), "ca.pem", &others.0.pem());
    let source =
        Prometheus::new(PrometheusOptions { ca_file: Some(ca.clone()), ..options(&server) }).unwrap();
    let message = failure(&source).await.unwrap();
    assert!(message.contains("does not answer") && message.contains("certificate"), "{message}");
    assert!(server.asked().is_empty());

    fs::write(&ca, ours.0.pem()).unwrap();
    assert_eq!(failure(&source).await, None, "the file is read anew");
    assert_eq!(server.asked().len(), 2);

    for (rule, text, words) in [
        ("no PEM", "hello", "holds no certificate"),
        ("cut off", "-----BEGIN CERTIFICATE-----\nAAAA\n", "is not PEM text"),
        (
            "no certificate",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "cannot be used",
        ),
    ] {
        fs::write(&ca, text).unwrap();
        let message = failure(&source).await.unwrap();
        assert!(message.contains("caFile") && message.contains(words), "{rule}: {message}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = Server::start_with(Some(acceptor(&authority, Some(&authority))), |_| Reply::ok(EMPTY)).await;
    let ca_file = Some(write(folder.path(), "ca.pem", &authority.0.pem()));
    let without = PrometheusOptions { ca_file: ca_file.clone(), ..options(&server) };
    assert!(failure(&Prometheus::new(without).unwrap()).await.is_some());
    assert!(server.asked().is_empty(), "the server wants a certificate");

    let (certificate, key) = authority.issue("plimsoll");
    let with = PrometheusOptions {
        ca_file,
        client_certificate: Some(write(folder.path(), "client.pem", &certificate)),
        client_key: Some(write(folder.path(), "client-key.pem", &key)),
        ..options(&server)
    };
    let source = Prometheus::new(with).unwrap();
    assert_eq!(failure(&source).await, None);
    assert_eq!(server.asked().len(), 2);

    let (_, other) = authority.issue("plimsoll");
    for (rule, text, words) in [
        ("the key of another certificate", &*other, "does not go with the certificate"),
        ("no key", "hello", "holds no private key"),
    ] {
        write(folder.path(), "client-key.pem", text);
        let message = failure(&source).await.unwrap();
        assert!(message.contains("clientKey") && message.contains(words), "{rule}: {message}");
    }
}
