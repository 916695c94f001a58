//! The rim of the admission server: sockets, TLS, limits, time, shutdown, probes.
//!
//! What is decided about a pod is not decided here: [`serve`] reads a request, asks an [`Admission`] and writes
//! the answer. Everything that can go wrong on the way to it (a slow client, a full server, a panic) ends here.

pub mod health;
pub mod shutdown;
pub mod tls;

mod accept;
mod activity;
mod any_client;
pub(crate) mod body;
mod connection;
mod ephemeral;
mod handler;
mod io;
pub(crate) mod limit;
mod options;
mod pem;
pub(crate) mod plain;
mod reload;
mod request;
mod self_managed;
mod service;
mod slots;
pub(crate) mod status;
mod tls_error;
mod verify;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::StatusCode;

pub use plimsoll_core::admission::Stage;

pub(crate) use self::accept::serve_with;
pub use self::accept::{ServerError, bind, serve};
pub(crate) use self::handler::{Handler, Peer};
pub use self::health::Readiness;
pub use self::options::ServerOptions;
pub(crate) use self::request::{go_duration, is_json};
pub use self::self_managed::SelfManaged;
pub use self::shutdown::Shutdown;
pub use self::status::status_reply;
pub use self::tls::{CertificateSource, CertificateStore, ClientAuth, TlsOptions};

/// The answer to one review; its body is JSON and is sent as `application/json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status. An answered review is 200, also when the pod is denied.
    pub status: StatusCode,
    /// The JSON text.
    pub body: Bytes,
}

/// How far a review has come.
pub enum Answered {
    /// To its answer.
    Now(Reply),
    /// To where others have to be waited for.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

/// What the server asks about each request that it has read completely.
pub trait Admission: Send + Sync + 'static {
    /// Answers one review. `body` is what the client sent, not yet parsed.
    fn review(&self, stage: Stage, body: Bytes) -> impl Future<Output = Reply> + Send;

    /// The same, where some answers have to be waited for: for as long as that takes no slot of the server is held.
    fn begin(&self, stage: Stage, body: Bytes) -> impl Future<Output = Answered> + Send {
        async move { Answered::Now(self.review(stage, body).await) }
    }

    /// The answer when the server is full; of the body it may be only the beginning that is there. `None` gives a plain
    /// 429 with `Retry-After: 1`, which the API server retries after one second; a reply is sent as it is, without a
    /// hint to retry.
    fn overloaded(&self, stage: Stage, body: &Bytes) -> Option<Reply> {
        let _ = (stage, body);
        None
    }
}
