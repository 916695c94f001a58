//! An authority and its certificates, made at the start, kept in memory and never written.

use std::time::Duration;

use jiff::Timestamp;

use super::pem::Pair;
use super::tls::TlsError;
use crate::certificates::authority::{self, AuthorityError, later};

const DAY: u64 = 24 * 60 * 60;
/// How long a certificate is valid.
const LEAF: Duration = Duration::from_secs(365 * DAY);
/// How long before its end it is replaced.
const RENEW: Duration = Duration::from_secs(365 * DAY / 3);
/// How long the authority is valid: longer than a process lives.
const CA: Duration = Duration::from_secs(10 * 365 * DAY);

/// An authority that signs certificates for fixed names.
pub(super) struct Authority {
    signer: authority::Authority,
    ca_pem: String,
    names: Vec<String>,
}

impl Authority {
    pub(super) fn new(names: &[String], now: Timestamp) -> Result<Self, TlsError> {
        if names.is_empty() {
            return Err(AuthorityError::NoName.into());
        }
        let signer = authority::Authority::make("plimsoll ephemeral CA", CA, now)?;
        let ca_pem = signer.root().pem();
        Ok(Self { signer, ca_pem, names: names.to_vec() })
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// When a certificate that ends at `not_after` is replaced.
    pub(super) fn due(not_after: Timestamp) -> Timestamp {
        not_after.checked_sub(RENEW).unwrap_or(Timestamp::MIN)
    }

    /// Signs a new certificate with a new key.
    pub(super) fn issue(&self, now: Timestamp) -> Result<Pair, TlsError> {
        let signed = self.signer.issue(&self.names, now, later(now, LEAF)?)?;
        Pair::new(vec![signed.certificate], signed.key, Vec::new()).map_err(TlsError::Generate)
    }
}
