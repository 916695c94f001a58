//! Why there is no certificate.

use std::path::PathBuf;

use crate::certificates::authority::AuthorityError;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("the {what} {}: {reason}; check that the file is mounted and readable", path.display())]
    Read {
        /// What the file is for.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("the {what} {}: {problem}", path.display())]
    Content {
        /// What the file is for.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The private key belongs to another certificate.
    #[error(
        "the key {} does not belong to the certificate {}; both must come from the same issue",
        key.display(), certificate.display()
    )]
    Mismatch {
        /// The certificate's path.
        certificate: PathBuf,
        /// The key's path.
        key: PathBuf,
    },
    /// Client certificates are wanted and nothing says whose.
    #[error(
        "client certificates are wanted, yet no client CA is set; set the client CA's file or turn them off"
    )]
    NoClientCa,
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Generate(String),
    /// The TLS library refused the settings.
    #[error("TLS: {0}")]
    Rustls(rustls::Error),
}

impl From<AuthorityError> for TlsError {
    fn from(error: AuthorityError) -> Self {
        Self::Generate(error.to_string())
    }
}

// Not derived: the text holds all of the error, so that it must not be named as the cause once more.
impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Rustls(error)
    }
}
