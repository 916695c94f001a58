//! Reading the certificate files and telling whether they changed.
//!
//! The content is compared, not times or names: the kubelet replaces a symlink two steps away from the files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::pem::{self, Pair};
use super::tls::{CertificateSource, TlsError};
use crate::files::open_regular;

/// The most bytes a certificate file may have. A Secret is never larger.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Identifies the content of all files of a source together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Identifies an error, so that the same one is reported once.
    pub(super) fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Identifies several contents together.
    pub(super) fn of_parts<'a>(parts: impl IntoIterator<Item = Option<&'a [u8]>>) -> Self {
        let mut hash = Sha256::new();
        for part in parts.into_iter().flatten() {
            // The length keeps apart what would otherwise run together.
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// One file as it was read.
pub(super) struct Piece {
    pub(super) what: &'static str,
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Piece {
    pub(super) fn read(what: &'static str, path: &Path) -> Result<Self, TlsError> {
        let mut bytes = Vec::new();
        open_regular(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|reason| TlsError::Read { what, path: path.to_owned(), reason })?;
        let piece = Self { what, path: path.to_owned(), bytes };
        if piece.bytes.is_empty() {
            return Err(piece.problem("is empty; expected PEM text"));
        }
        if u64::try_from(piece.bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
            return Err(piece.problem("is larger than 1 MiB; expected PEM text"));
        }
        Ok(piece)
    }

    pub(super) fn problem(&self, problem: impl Into<String>) -> TlsError {
        TlsError::Content { what: self.what, path: self.path.clone(), problem: problem.into() }
    }
}

/// All files of a source as they were read.
pub(super) struct Content {
    certificate: Piece,
    key: Piece,
    client_ca: Option<Piece>,
}

impl Content {
    /// Reads the files of `source`.
    pub(super) fn read(source: &CertificateSource) -> Result<Self, TlsError> {
        let CertificateSource::Files { certificate, key, client_ca } = source else {
            return Err(TlsError::Generate("this certificate comes from no files".to_owned()));
        };
        Ok(Self {
            certificate: Piece::read("certificate", certificate)?,
            key: Piece::read("key", key)?,
            client_ca: client_ca.as_deref().map(|path| Piece::read("client CA", path)).transpose()?,
        })
    }

    /// Identifies the content.
    pub(super) fn digest(&self) -> Digest {
        let pieces = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        Digest::of_parts(pieces.map(|piece| piece.map(|piece| &piece.bytes[..])))
    }

    /// Parses the files.
    pub(super) fn pair(&self) -> Result<Pair, TlsError> {
        let chain = pem::certificates(&self.certificate)?;
        let client_ca = self.client_ca.as_ref().map(pem::certificates).transpose()?;
        let key = pem::private_key(&self.key)?;
        Pair::new(chain, key, client_ca.unwrap_or_default())
            .map_err(|problem| self.certificate.problem(problem))
    }
}
