//! Why Prometheus gave no figures.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use super::client::{Query, Subject};

/// Why Prometheus gave no figures. Messages name the address and the query, and never a secret.
#[derive(Debug, Error)]
pub enum PrometheusError {
    /// The address is none.
    #[error("address: {address:?} {reason}; http(s)://host:port[/path] is right")]
    Address {
        /// As configured.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// A setting cannot be used.
    #[error("{setting}: {reason}")]
    Setting {
        /// Its name.
        setting: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A file that a setting names cannot be used.
    #[error("{setting}: {}: {reason}", path.display())]
    File {
        /// The name of the setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong. Says nothing of the content.
        reason: String,
    },
    /// No connection, no TLS, or it broke before the answer.
    #[error("{query}: {url} does not answer: {reason}")]
    NoAnswer {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The time was up.
    #[error("{query}: {url} did not answer within {limit:?}; make the query cheaper, or raise the timeout")]
    Slow {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// What it took longer than.
        limit: Duration,
    },
    /// The connection broke in the middle of the answer.
    #[error("{query}: the answer of {url} broke off: {reason}")]
    CutOff {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The answer is longer than is held in memory.
    #[error("{query}: the answer of {url} is larger than {limit} bytes; {}", smaller(query))]
    TooLarge {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// The most bytes.
        limit: usize,
    },
    /// The server wants to be asked elsewhere.
    #[error(
        "{query}: {url} redirects ({code}) to {location}; give the address at which Prometheus answers itself"
    )]
    Redirect {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// The status.
        code: StatusCode,
        /// To where.
        location: String,
    },
    /// The server refused.
    #[error("{query}: {url} answers {code}: {message}{}", hint(*.code))]
    Refused {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// The status.
        code: StatusCode,
        /// Prometheus' word for the kind of error, if it was Prometheus.
        error_type: Option<String>,
        /// What it says.
        message: String,
        /// For how long it does not want to be asked.
        retry_after: Option<Duration>,
    },
    /// Something else than Prometheus answered.
    #[error(
        "{query}: {url} answers {what} instead of JSON, beginning with: {start}; is something before Prometheus \
         (a login page, an ingress), or is the path of the address wrong?"
    )]
    NotJson {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// What it looks like.
        what: &'static str,
        /// The first characters.
        start: String,
    },
    /// It is JSON, but not what Prometheus says.
    #[error("{query}: the answer of {url} cannot be understood: {reason}; it begins with: {start}")]
    NotUnderstood {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// Where and what.
        reason: String,
        /// The first characters.
        start: String,
    },
    /// The query is of another kind.
    #[error("{query}: the answer of {url} is a {found}, not a {expected}; {}", kind_hint(found, query))]
    Kind {
        /// The query.
        query: Query,
        /// Where it was sent.
        url: String,
        /// What came.
        found: String,
        /// What should have.
        expected: &'static str,
    },
}

/// What an operator can do about a status.
fn hint(code: StatusCode) -> &'static str {
    match code.as_u16() {
        400 | 422 => "; try the query in Prometheus itself",
        401 => "; check bearerTokenFile, or username and passwordFile",
        403 => "; the credentials, or the tenant in a header, may not ask this",
        404 => "; check the path of the address: /api/v1/query is added to it",
        429 => "; it asks to wait",
        _ => "",
    }
}

/// How an answer becomes smaller.
fn smaller(query: &Query) -> &'static str {
    match query.subject() {
        Subject::Container => {
            "drop labels by `max by (namespace, pod, container) (..)`, or put namespace=~\"$namespace\" in the query"
        }
        Subject::Node => "drop labels by `max by (instance) (..)`, so that there is one series for each node",
    }
}

fn kind_hint(found: &str, query: &Query) -> String {
    match found {
        "matrix" => {
            "the query ends in a range such as [5m]: put rate(..) or max_over_time(..) around it".to_owned()
        }
        "scalar" | "string" => format!("the query must give a value for each {}", query.subject()),
        _ => "is it Prometheus that answers?".to_owned(),
    }
}

impl PrometheusError {
    /// For how long the server does not want to be asked.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether asking for less could help: the answer or its making is too much.
    pub(super) fn wants_less(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::Slow { .. } => true,
            Self::Refused { code, error_type, message, .. } => {
                let timed_out = error_type.as_deref() == Some("timeout");
                let too_many = code.as_u16() == 422 && error_type.as_deref() != Some("bad_data");
                let too_fine = message.contains("maximum resolution");
                timed_out || too_many || too_fine || code.as_u16() == 413 || code.as_u16() == 504
            }
            _ => false,
        }
    }

    /// Whether the same call may work later.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::CutOff { .. } => true,
            Self::Refused { code, .. } => {
                matches!(code.as_u16(), 408 | 429) || code.is_server_error() && code.as_u16() != 501
            }
            _ => false,
        }
    }
}
