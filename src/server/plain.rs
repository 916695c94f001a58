//! A listener of plain HTTP/1.1 whose answers are at hand: probes, metrics, the API and its pages.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::Shutdown;
use super::accept::Backoff;
use super::slots::{Slot, Slots};

/// Connections open at the same time; kubelet and Prometheus need a handful. A further one takes the place of the one
/// that was idle longest: if new ones had to wait, anybody who reaches the port could have the kubelet restart us.
const MAX_CONNECTIONS: usize = 128;
/// How long the first request may take to come.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a connection may be silent, between requests too.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers every request by `answer`, which must not block, until `shutdown` is finished. Bodies are not read.
pub(crate) async fn serve<A, F>(listener: TcpListener, name: &'static str, shutdown: Shutdown, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let slots = Slots::new(MAX_CONNECTIONS);
    let mut backoff = Backoff::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.finished() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                backoff.reset();
                let slot = slots.enter();
                let (answer, shutdown) = (answer.clone(), shutdown.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection(stream, &slot, name, answer) => {}
                        () = slot.evicted() => {}
                        () = shutdown.finished() => {}
                    }
                });
            }
            Err(error) => backoff.pause(&error, name).await,
        }
    }
}

async fn connection<A, F>(stream: TcpStream, slot: &Slot, name: &'static str, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let _ = stream.set_nodelay(true);
    let asked = CancellationToken::new();
    let service = service_fn(|request: Request<Incoming>| {
        slot.touch();
        asked.cancel();
        let response = answer(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let silent = async {
        if tokio::time::timeout(FIRST_REQUEST_TIMEOUT, asked.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        result = serving => {
            if let Err(error) = result {
                tracing::trace!(%error, listener = name, "connection ended");
            }
        }
        () = silent => tracing::trace!(listener = name, "connection ended: no request came"),
    }
}
