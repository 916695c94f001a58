//! What can go wrong when objects are written, and what to do then.

use std::time::Duration;

use kube::Client;
use kube::core::response::StatusDetails;
use thiserror::Error;
use tokio::time::timeout;

use super::describe;

/// Why an object was not read or written. `what` names the call and the object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Somebody else wrote it since it was read.
    #[error("{what}: it was changed in the meantime")]
    Conflict {
        /// The call.
        what: String,
    },
    /// There is one of this name already.
    #[error("{what}: there is one of this name already")]
    AlreadyExists {
        /// The call.
        what: String,
    },
    /// It, or its namespace, is not there.
    #[error("{what}: {message}")]
    NotFound {
        /// The call.
        what: String,
        /// As the API server says it.
        message: String,
    },
    /// The cluster does not know the kind.
    #[error("{what}: the CRD {crd} is not installed; `plimsoll manifests crds` prints it")]
    NotInstalled {
        /// The call.
        what: String,
        /// The name of the CRD.
        crd: String,
    },
    /// We may not.
    #[error("{what}: {message}; grant {grant} to the service account")]
    Forbidden {
        /// The call.
        what: String,
        /// As the API server says it.
        message: String,
        /// A verb and a resource, such as `create on recommendations.plimsoll.dev`.
        grant: String,
    },
    /// The API server does not know who we are.
    #[error("{what}: the credentials are not accepted: {message}; check the kubeconfig or service account")]
    Unauthorized {
        /// The call.
        what: String,
        /// As the API server says it.
        message: String,
    },
    /// The namespace is being deleted.
    #[error("{what}: the namespace is being deleted")]
    NamespaceEnds {
        /// The call.
        what: String,
    },
    /// The object is larger than the API server or etcd takes.
    #[error("{what}: {bytes} bytes are too many: {message}")]
    TooLarge {
        /// The call.
        what: String,
        /// The size of the request's body.
        bytes: usize,
        /// As the API server says it.
        message: String,
    },
    /// The API server does not take this object, and will not next time.
    #[error("{what}: {message} ({code})")]
    Refused {
        /// The call.
        what: String,
        /// As the API server says it.
        message: String,
        /// The HTTP status.
        code: u16,
    },
    /// The API server asks to call later, does not answer, or cannot be reached.
    #[error("{what}: {message}")]
    Unavailable {
        /// The call.
        what: String,
        /// Why.
        message: String,
        /// The least time to wait, if the API server said it.
        retry_after: Option<Duration>,
    },
}

/// What is to be done about a [`WriteError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// What is known of the object is out of date: read it, and decide anew.
    Reread,
    /// The same may work later; at once if nothing else is said, but with growing pauses.
    Retry(Option<Duration>),
    /// The same will fail again.
    GiveUp,
}

impl WriteError {
    /// What is to be done about it.
    pub fn next(&self) -> Next {
        match self {
            Self::Conflict { .. } | Self::AlreadyExists { .. } | Self::NotFound { .. } => Next::Reread,
            // An operator can do something about these without a restart.
            Self::NotInstalled { .. } | Self::Forbidden { .. } | Self::Unauthorized { .. } => {
                Next::Retry(Some(Duration::from_secs(60)))
            }
            Self::Unavailable { retry_after, .. } => Next::Retry(*retry_after),
            Self::NamespaceEnds { .. } | Self::TooLarge { .. } | Self::Refused { .. } => Next::GiveUp,
        }
    }

    /// Whether the object, or its namespace, is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// A call, for what is said when it fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// As RBAC has it: `create`.
    pub(crate) verb: &'static str,
    pub(crate) kind: &'static str,
    /// With `/status` for the subresource.
    pub(crate) resource: &'static str,
    pub(crate) group: &'static str,
    /// `namespace/name`; empty for a list.
    pub(crate) object: &'a str,
    /// The size of the body.
    pub(crate) bytes: usize,
}

impl Call<'_> {
    fn what(&self) -> String {
        let Self { verb, kind, object, .. } = self;
        if object.is_empty() { format!("{verb} {kind}") } else { format!("{verb} {kind} {object}") }
    }

    /// No answer came in time.
    pub(crate) fn slow(&self, limit: Duration) -> WriteError {
        self.unavailable(format!("no answer within {limit:?}"))
    }

    pub(crate) fn unavailable(&self, message: String) -> WriteError {
        WriteError::Unavailable { what: self.what(), message, retry_after: None }
    }

    pub(crate) fn failed(&self, error: &kube::Error) -> WriteError {
        let kube::Error::Api(status) = error else {
            return self.unavailable(describe(error));
        };
        let what = self.what();
        let message = status.message.clone();
        let details = status.details.as_ref();
        let too_large = message.contains("too large") || message.contains("larger than max");
        match status.code {
            409 if status.reason == "AlreadyExists" => WriteError::AlreadyExists { what },
            409 => WriteError::Conflict { what },
            // Without a name nothing was looked for: there is no such collection.
            404 if details.is_none_or(|details| details.name.is_empty()) => {
                let resource = self.resource.split('/').next().unwrap_or_default();
                WriteError::NotInstalled { what, crd: format!("{resource}.{}", self.group) }
            }
            404 => WriteError::NotFound { what, message },
            403 if ends(details, &message) => WriteError::NamespaceEnds { what },
            401 => WriteError::Unauthorized { what, message },
            403 => {
                let dot = if self.group.is_empty() { "" } else { "." };
                let grant = format!("{} on {}{dot}{}", self.verb, self.resource, self.group);
                WriteError::Forbidden { what, message, grant }
            }
            413 => WriteError::TooLarge { what, bytes: self.bytes, message },
            500 if too_large => WriteError::TooLarge { what, bytes: self.bytes, message },
            408 | 410 | 429 | 500.. => {
                let seconds = details.map_or(0, |details| details.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                WriteError::Unavailable { what, message: format!("{message} ({})", status.code), retry_after }
            }
            code => WriteError::Refused { what, message, code },
        }
    }
}

/// Whether a refusal is only because the namespace is being deleted.
pub(super) fn ends(details: Option<&StatusDetails>, message: &str) -> bool {
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
        || message.contains("because it is being terminated")
}

/// Sends one request, within a time, and returns the body of the answer.
pub(crate) async fn send(
    client: &Client,
    mut call: Call<'_>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    limit: Duration,
) -> Result<String, WriteError> {
    let request = request.map_err(|error| call.failed(&kube::Error::BuildRequest(error)))?;
    call.bytes = request.body().len();
    timeout(limit, client.request_text(request))
        .await
        .map_err(|_| call.slow(limit))?
        .map_err(|error| call.failed(&error))
}
