//! PEM text to certificates and keys, with errors that say what would be right.

use jiff::Timestamp;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::reload::Piece;
use super::tls::TlsError;

/// A certificate with its chain, its key, and the authorities of client certificates.
pub(super) struct Pair {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) client_ca: Vec<CertificateDer<'static>>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) serial: String,
}

impl Pair {
    /// Puts the parts together; reads validity and serial from the chain's first certificate.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        client_ca: Vec<CertificateDer<'static>>,
    ) -> Result<Self, String> {
        let leaf = parse(chain.first().ok_or("there is no certificate")?)?;
        // X.509 ends in the year 9999, as timestamps do.
        let not_after =
            Timestamp::from_second(leaf.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
        let not_before =
            Timestamp::from_second(leaf.validity().not_before.timestamp()).unwrap_or(Timestamp::MIN);
        let serial = leaf.raw_serial_as_string();
        Ok(Self { chain, key, client_ca, not_before, not_after, serial })
    }
}

/// All certificates of a file, in order.
pub(super) fn certificates(piece: &Piece) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&piece.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| piece.problem(describe(&error)))?;
    if chain.is_empty() {
        return Err(piece.problem("holds no certificate; expected `-----BEGIN CERTIFICATE-----`"));
    }
    for (index, certificate) in chain.iter().enumerate() {
        parse(certificate)
            .map_err(|problem| piece.problem(format!("certificate {}: {problem}", index + 1)))?;
    }
    Ok(chain)
}

/// The first private key of a file.
pub(super) fn private_key(piece: &Piece) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&piece.bytes).map_err(|error| match error {
        _ if piece.bytes.windows(9).any(|window| window == b"ENCRYPTED") => {
            piece.problem("is encrypted; expected a key without a passphrase")
        }
        pem::Error::NoItemsFound => {
            piece.problem("holds no private key that can be used; expected PKCS#8, SEC1 or PKCS#1 in PEM")
        }
        error => piece.problem(describe(&error)),
    })
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(certificate) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("has bytes after its end".to_owned()),
        Err(error) => Err(format!("is not X.509: {error}")),
    }
}

/// What is wrong with PEM text. Says nothing of its content, which may be a key.
fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "is cut off: an `-----END` line is missing".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "has a malformed `-----BEGIN` line".to_owned(),
        pem::Error::Base64Decode(_) => "has a PEM section that is not base64".to_owned(),
        _ => "is not PEM text".to_owned(),
    }
}
