//! What a listener is for: whoever answers its requests.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls_pki_types::CertificateDer;

use super::{ServerOptions, Shutdown};
use crate::metrics::ListenerMetrics;

/// Who is at the other end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The certificate that the client showed, and its chain; nothing when it showed none.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// Answers the requests of a listener; clones share everything.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// The limits of the listener.
    fn options(&self) -> &ServerOptions;

    /// What the listener counts.
    fn counts(&self) -> &ListenerMetrics;

    /// How far the process is on its way out.
    fn shutdown(&self) -> &Shutdown;

    /// What the listener is called in the log.
    fn name(&self) -> &'static str;
}
