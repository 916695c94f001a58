//! One connection, from the handshake to its end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Expiry};
use super::handler::{Handler, Peer};
use super::io::Io;
use super::tls::CertificateStore;

/// How long the end of a connection may take once it is idle.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection that has not asked anything yet may still do so when the server closes: its client
/// connected a moment ago and is about to.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// The most bytes hyper keeps of what it has read and not passed on.
const READ_BUFFER: usize = 64 * 1024;

/// Serves one accepted socket. Ends early, and gracefully, when `closing` is cancelled.
pub(super) async fn run<H: Handler>(
    tcp: TcpStream,
    tls: &CertificateStore,
    service: H,
    closing: &CancellationToken,
) {
    // Answers are small; waiting to fill a packet only delays them.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY not set");
    }
    let Some(stream) = handshake(tcp, tls, &service).await else { return };
    let session = stream.get_ref().1;
    let shown = session.peer_certificates().unwrap_or_default();
    let peer = Arc::new(Peer { certificates: shown.iter().map(|one| one.clone().into_owned()).collect() });
    if session.alpn_protocol() == Some(b"h2") {
        http2(stream, service, peer, closing).await;
    } else {
        http1(stream, service, peer, closing).await;
    }
}

async fn handshake<H: Handler>(
    tcp: TcpStream,
    tls: &CertificateStore,
    service: &H,
) -> Option<TlsStream<TcpStream>> {
    let Some(config) = tls.server_config() else {
        service.counts().tls_handshake_failure();
        tracing::debug!("there is no certificate yet; the connection is closed");
        return None;
    };
    let accept = TlsAcceptor::from(config).accept(tcp);
    let problem = match tokio::time::timeout(service.options().handshake_timeout, accept).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "took too long".to_owned(),
    };
    service.counts().tls_handshake_failure();
    // A load balancer's TCP check ends here too, so this is no warning.
    tracing::debug!(problem, "TLS handshake failed");
    None
}

async fn http1<H: Handler>(
    stream: TlsStream<TcpStream>,
    service: H,
    peer: Arc<Peer>,
    closing: &CancellationToken,
) {
    let activity = Activity::new(true);
    let options = service.options();
    let answer = service_fn(answer(&service, peer, &activity));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(options.header_bytes)
        .max_headers(options.headers)
        .max_buf_size(READ_BUFFER.max(options.header_bytes))
        .serve_connection(TokioIo::new(Io::new(stream, Arc::clone(&activity))), answer);
    let mut connection = pin!(connection);
    let mut expiry = pin!(activity.expiry(options.header_timeout, options.idle_timeout));
    let mut leave = pin!(async {
        closing.cancelled().await;
        // What has already arrived is read before the connection counts as idle.
        tokio::task::yield_now().await;
        let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, activity.first_request()).await;
    });
    let mut leaving = false;
    loop {
        tokio::select! {
            biased;
            result = &mut connection => return note_end(&service, result),
            expiry = &mut expiry => {
                if expiry == Expiry::Head {
                    reject(&service, StatusCode::REQUEST_TIMEOUT);
                    return;
                }
                break;
            }
            () = &mut leave, if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
}

async fn http2<H: Handler>(
    stream: TlsStream<TcpStream>,
    service: H,
    peer: Arc<Peer>,
    closing: &CancellationToken,
) {
    let activity = Activity::new(false);
    let options = service.options();
    let answer = service_fn(answer(&service, peer, &activity));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.http2_streams)
        .max_header_list_size(u32::try_from(options.header_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(Io::new(stream, Arc::clone(&activity))), answer);
    let mut connection = pin!(connection);
    let mut expiry = pin!(activity.expiry(options.header_timeout, options.idle_timeout));
    // HTTP/2 can say goodbye without losing a request, so it does as soon as the server drains; but not before
    // the client has asked something, or a client that connects meanwhile would never get an answer.
    let mut leave = pin!(async {
        service.shutdown().draining().await;
        tokio::select! {
            () = activity.first_request() => {}
            () = async {
                closing.cancelled().await;
                tokio::time::sleep(FIRST_REQUEST_GRACE).await;
            } => {}
        }
    });
    let mut leaving = false;
    loop {
        tokio::select! {
            biased;
            result = &mut connection => return note_end(&service, result),
            _ = &mut expiry => break,
            () = &mut leave, if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
}

/// The function that answers the requests of one connection.
fn answer<H: Handler>(
    service: &H,
    peer: Arc<Peer>,
    activity: &Arc<Activity>,
) -> impl Fn(Request<Incoming>) -> AnswerFuture + use<H> {
    let (service, activity) = (service.clone(), Arc::clone(activity));
    move |request| {
        let (service, peer, busy) = (service.clone(), Arc::clone(&peer), activity.request());
        Box::pin(async move {
            let version = request.version();
            let mut response = service.answer(request, &peer).await;
            drop(busy);
            if version >= Version::HTTP_2 {
                // Only HTTP/1 has this header; HTTP/2 says goodbye by a frame.
                response.headers_mut().remove(header::CONNECTION);
            } else if service.shutdown().is_draining() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

type AnswerFuture =
    std::pin::Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + 'static>>;

fn reject<H: Handler>(service: &H, code: StatusCode) {
    service.counts().http_rejected(code);
}

/// Counts the requests that hyper refused by itself.
fn note_end<H: Handler>(service: &H, result: hyper::Result<()>) {
    let Err(error) = result else { return };
    if error.is_parse_too_large() {
        reject(service, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    } else if error.is_parse() {
        reject(service, StatusCode::BAD_REQUEST);
    }
    tracing::trace!(%error, "connection ended");
}
