//! An authority and its certificates, made in memory and never written.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::pem::Pair;
use super::tls::TlsError;

const DAY: i64 = 24 * 60 * 60;
/// How long a certificate is valid.
const LEAF_SECONDS: i64 = 365 * DAY;
/// How long before its end it is replaced.
const RENEW_SECONDS: i64 = LEAF_SECONDS / 3;
/// How long the authority is valid: longer than a process lives.
const CA_SECONDS: i64 = 10 * LEAF_SECONDS;
/// Clients whose clocks are this far behind still accept the certificate.
const SKEW_SECONDS: i64 = 60 * 60;

/// An authority that signs certificates for fixed names.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    ca_pem: String,
    names: Vec<String>,
}

impl Authority {
    pub(super) fn new(names: &[String], now: Timestamp) -> Result<Self, TlsError> {
        if names.is_empty() {
            return Err(TlsError::Generate(
                "no name to be valid for; give at least one DNS name or IP".to_owned(),
            ));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "plimsoll ephemeral CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut params, now, CA_SECONDS)?;
        let issuer = CertifiedIssuer::self_signed(params, generate_key()?).map_err(failed)?;
        let ca_pem = issuer.pem();
        Ok(Self { issuer, ca_pem, names: names.to_vec() })
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Whether a certificate that ends at `not_after` should be replaced.
    pub(super) fn is_due(not_after: Timestamp, now: Timestamp) -> bool {
        not_after.as_second() - now.as_second() < RENEW_SECONDS
    }

    /// Signs a new certificate with a new key.
    pub(super) fn issue(&self, now: Timestamp) -> Result<Pair, TlsError> {
        let mut params = CertificateParams::new(self.names.clone())
            .map_err(|error| TlsError::Generate(format!("names {:?}: {error}", self.names)))?;
        params.distinguished_name.push(DnType::CommonName, "plimsoll");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        validity(&mut params, now, LEAF_SECONDS)?;
        let key = generate_key()?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Pair::new(vec![certificate.der().clone()], key, Vec::new()).map_err(TlsError::Generate)
    }
}

fn generate_key() -> Result<KeyPair, TlsError> {
    KeyPair::generate().map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn failed(error: rcgen::Error) -> TlsError {
    TlsError::Generate(error.to_string())
}

fn validity(params: &mut CertificateParams, now: Timestamp, seconds: i64) -> Result<(), TlsError> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |second: i64| {
        let offset = u64::try_from(second).ok().map(Duration::from_secs);
        // 9999 is the last year that X.509 can say.
        offset
            .filter(|_| second < 253_402_300_800)
            .map(|offset| epoch + offset)
            .ok_or_else(|| TlsError::Generate(format!("the clock says {now}; set it right")))
    };
    params.not_before = at(now.as_second().saturating_sub(SKEW_SECONDS))?;
    params.not_after = at(now.as_second().saturating_add(seconds))?;
    Ok(())
}
