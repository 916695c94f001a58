//! Who may call: the verifier of client certificates.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;

use super::any_client::AnyClient;
use super::tls::{ClientAuth, TlsError};

/// The one cryptographic provider of the process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The verifier that asks clients as it is configured; none: they are not asked.
pub(super) fn client_verifier(
    auth: ClientAuth,
    authorities: &[CertificateDer<'static>],
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    match auth {
        ClientAuth::None => return Ok(None),
        ClientAuth::Unjudged => return Ok(Some(Arc::new(AnyClient::new(provider())))),
        ClientAuth::Optional | ClientAuth::Required => {}
    }
    if authorities.is_empty() {
        return Err(TlsError::NoClientCa);
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let builder = if auth == ClientAuth::Optional { builder.allow_unauthenticated() } else { builder };
    let verifier = builder.build().map_err(|error| rustls::Error::General(error.to_string()))?;
    Ok(Some(verifier))
}
