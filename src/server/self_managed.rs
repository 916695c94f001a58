//! Certificates that this replica signs for itself, with an authority that all replicas share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::pem::{self, Pair};
use super::reload::{Digest, Piece};
use super::tls::TlsError;
use crate::certificates::leaf::Validity;
use crate::certificates::{Authority, Held};

/// What a replica needs to sign for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfManaged {
    /// What it may sign with.
    pub held: Held,
    /// The DNS names to be valid for.
    pub names: Vec<String>,
    /// How long a certificate is valid.
    pub lifetime: Duration,
    /// The authorities that client certificates must come from: a PEM file, which is polled for changes.
    pub client_ca: Option<PathBuf>,
}

/// A certificate that was signed now.
pub(super) struct Leaf {
    pub(super) pair: Pair,
    pub(super) validity: Validity,
    pub(super) digest: Digest,
}

/// The file of the authorities of clients, as it is now.
pub(super) fn client_ca(path: Option<&Path>) -> Result<Option<Piece>, TlsError> {
    path.map(|path| Piece::read("client CA", path)).transpose()
}

/// What a certificate is made from: another authority, or other clients, make another one due.
pub(super) fn digest(authority: &Authority, client_ca: Option<&Piece>) -> Digest {
    Digest::of_parts([Some(authority.root().der()), client_ca.map(|piece| &piece.bytes[..])])
}

impl SelfManaged {
    /// Signs.
    pub(super) fn sign(
        &self,
        authority: &Authority,
        client_ca: Option<&Piece>,
        now: Timestamp,
    ) -> Result<Leaf, TlsError> {
        let validity = Validity::of_new(authority, self.lifetime, now)?;
        let signed = authority.issue(&self.names, now, validity.until)?;
        let clients = client_ca.map(pem::certificates).transpose()?.unwrap_or_default();
        let pair = Pair::new(vec![signed.certificate], signed.key, clients).map_err(TlsError::Generate)?;
        Ok(Leaf { pair, validity, digest: digest(authority, client_ca) })
    }
}
