//! What a server serves, and whether those who call it would trust it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::certificates::authority::Root;
use crate::cli::{CliError, Context, table};

/// How long a server may take to show its certificate.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found at an address.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli::certs) struct Served {
    address: String,
    /// The name that it is to be for.
    name: String,
    subject: String,
    fingerprint: String,
    not_before: String,
    not_after: String,
    /// Why a caller would not go on.
    pub(super) problem: Option<String>,
}

impl Served {
    pub(super) fn write_table(&self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let mut rows = table(["SERVED AT", "NAME", "FINGERPRINT", "NOT AFTER", "TRUSTED"]);
        let short = self.fingerprint.get(..12).unwrap_or("-");
        let trusted = if self.problem.is_none() { "yes" } else { "no" };
        let not_after = if self.not_after.is_empty() { "-" } else { &self.not_after };
        rows.add_row([&self.address, &self.name, short, not_after, trusted]);
        ctx.write_table(&mut rows)?;
        if let Some(problem) = &self.problem {
            ctx.line(&format!("{}: {problem}", self.address))?;
        }
        Ok(())
    }
}

/// Looks.
pub(super) async fn look(address: &str, name: &str, roots: &[Root]) -> Served {
    let mut served = Served {
        address: address.to_owned(),
        name: name.to_owned(),
        subject: String::new(),
        fingerprint: String::new(),
        not_before: String::new(),
        not_after: String::new(),
        problem: None,
    };
    let looked = timeout(PATIENCE, shake_hands(address, name, roots)).await;
    let found = looked.unwrap_or_else(|_| Err(format!("no certificate within {} s", PATIENCE.as_secs())));
    match found {
        Err(problem) => served.problem = Some(problem),
        Ok((certificate, problem)) => {
            served.problem = problem;
            match Root::from_der(&certificate) {
                Err(error) => served.problem = Some(error.to_string()),
                Ok(leaf) => {
                    served.subject = leaf.subject();
                    served.fingerprint = leaf.fingerprint();
                    served.not_before = leaf.not_before().to_string();
                    served.not_after = leaf.not_after().to_string();
                }
            }
        }
    }
    served
}

/// The certificate, and why it would not be trusted.
async fn shake_hands(
    address: &str,
    name: &str,
    roots: &[Root],
) -> Result<(CertificateDer<'static>, Option<String>), String> {
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let witness = Arc::new(Witness::new(roots, &provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&witness) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await.map_err(|error| format!("cannot be reached: {error}"))?;
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    // One that asks for a certificate of ours has shown its own before it refuses.
    let seen = witness.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (seen, shaken) {
        (Some(seen), _) => Ok(seen),
        (None, Err(error)) => Err(format!("shows no certificate: {error}")),
        (None, Ok(_)) => Err("shows no certificate".to_owned()),
    }
}

/// Takes any certificate, to look at it, and notes what a careful client would say.
#[derive(Debug)]
struct Witness {
    careful: Result<Arc<WebPkiServerVerifier>, String>,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Option<(CertificateDer<'static>, Option<String>)>>,
}

impl Witness {
    fn new(roots: &[Root], provider: &Arc<CryptoProvider>) -> Self {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().map(|root| CertificateDer::from(root.der().to_vec())));
        let careful = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
        let careful = careful.build().map_err(|_| "nothing is trusted: there is no CA".to_owned());
        Self { careful, provider: Arc::clone(provider), seen: Mutex::default() }
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.careful.as_ref().map_err(Clone::clone).and_then(|careful| {
            careful
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
                .map_err(|error| format!("is not trusted: {error}"))
        });
        let seen = (end_entity.clone().into_owned(), judged.err());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
