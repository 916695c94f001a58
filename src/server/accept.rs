//! The accept loop: connections in, a limit on their number, the way out.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handler::Handler;
use super::service::Service;
use super::tls::CertificateStore;
use super::{Admission, ServerOptions, Shutdown, connection};
use crate::metrics::{ListenerMetrics, Metrics};

/// How long the last connections are taken out of the backlog before the listener closes.
const LAST_ACCEPT: Duration = Duration::from_millis(10);
/// The pause after the first error of the listening socket in a row, doubled by each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {reason}; check the address, and whether another process has the port"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
    /// An option is out of range.
    #[error("server option {option} is 0; it must be at least 1")]
    Zero {
        /// Its name.
        option: &'static str,
    },
}

/// Opens a listening socket. Where there is no IPv6, `[::]` means all IPv4 addresses.
///
/// # Errors
///
/// When the address cannot be listened on.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    if address.is_ipv6() && address.ip().is_unspecified() && error.kind() != io::ErrorKind::AddrInUse {
        let fallback = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, address.port()));
        if let Ok(listener) = TcpListener::bind(fallback).await {
            return Ok(listener);
        }
    }
    Err(ServerError::Bind { address, reason: error })
}

/// Serves until `shutdown` has drained and everything in flight is answered.
///
/// # Errors
///
/// When the options cannot be used. Nothing that a client or the network does ends it.
pub async fn serve<A: Admission>(
    listener: TcpListener,
    tls: Arc<CertificateStore>,
    options: Arc<ServerOptions>,
    admission: Arc<A>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
) -> Result<(), ServerError> {
    serve_from(listener, tls, Service::new(admission, options, metrics, shutdown)).await
}

/// The same for any handler.
///
/// # Errors
///
/// As [`serve`].
pub(crate) async fn serve_with(
    listener: TcpListener,
    tls: Arc<CertificateStore>,
    handler: impl Handler,
) -> Result<(), ServerError> {
    serve_from(listener, tls, handler).await
}

/// What connections come from; tests put errors in between.
trait Accept: Send {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        TcpListener::accept(self)
    }
}

async fn serve_from<H: Handler>(
    listener: impl Accept,
    tls: Arc<CertificateStore>,
    handler: H,
) -> Result<(), ServerError> {
    let options = handler.options().clone();
    let (metrics, shutdown) = (handler.counts().clone(), handler.shutdown().clone());
    let name = handler.name();
    for (option, value) in
        [("concurrency", options.concurrency), ("max_connections", options.max_connections)]
    {
        if value == 0 {
            return Err(ServerError::Zero { option });
        }
    }
    let permits = Arc::new(Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS)));
    let connections = Connections {
        handler,
        tls,
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
        cut: CancellationToken::new(),
    };
    let mut leave = pin!(async {
        shutdown.draining().await;
        tokio::select! {
            () = tokio::time::sleep(options.drain_delay) => {}
            () = shutdown.closing() => {}
        }
    });
    let mut backoff = Backoff::default();
    loop {
        let next = async {
            let permit = connection_permit(&permits, &metrics).await?;
            Some((permit, listener.accept().await))
        };
        let (permit, accepted) = tokio::select! {
            () = &mut leave => break,
            next = next => match next {
                Some(next) => next,
                None => break,
            },
        };
        match accepted {
            Ok((stream, _)) => {
                backoff.reset();
                connections.spawn(stream, permit);
            }
            Err(error) => {
                metrics.accept_error();
                backoff.pause(&error, name).await;
            }
        }
    }
    // A client that connected a moment ago would see a reset if its connection stayed in the backlog.
    let last = async {
        while let Ok(permit) = Arc::clone(&permits).try_acquire_owned()
            && let Ok((stream, _)) = listener.accept().await
        {
            connections.spawn(stream, permit);
        }
    };
    let _ = tokio::time::timeout(LAST_ACCEPT, last).await;
    drop(listener);
    connections.finish(options.shutdown_timeout).await;
    Ok(())
}

/// The right to open one more connection. Waiting leaves further clients in the backlog of the socket.
async fn connection_permit(
    permits: &Arc<Semaphore>,
    metrics: &ListenerMetrics,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return Some(permit);
    }
    metrics.connection_limit_wait();
    tracing::warn!("the connection limit is reached; new connections wait");
    Arc::clone(permits).acquire_owned().await.ok()
}

/// The open connections.
struct Connections<H> {
    handler: H,
    tls: Arc<CertificateStore>,
    tasks: TaskTracker,
    /// Says that connections should end as soon as they are idle.
    closing: CancellationToken,
    /// Says that they should end at once.
    cut: CancellationToken,
}

impl<H: Handler> Connections<H> {
    fn spawn(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let open = self.handler.counts().connection();
        let (handler, tls) = (self.handler.clone(), Arc::clone(&self.tls));
        let (closing, cut) = (self.closing.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = connection::run(stream, &tls, handler, &closing) => {}
                () = cut.cancelled() => {}
            }
            drop((permit, open));
        });
    }

    async fn finish(self, patience: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            let connections = self.tasks.len();
            tracing::warn!(connections, "requests were still in flight at the end of the shutdown timeout");
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}

/// Waits longer after each error in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    /// The pause that an error is worth: none if it concerns one connection only; else, as when there are no file
    /// descriptors left, accepting again at once would fail again and burn a core.
    fn next(&mut self, error: &io::Error) -> Option<Duration> {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.0.min(10)).min(LONGEST_PAUSE);
        self.0 = self.0.saturating_add(1);
        Some(pause)
    }

    pub(super) async fn pause(&mut self, error: &io::Error, listener: &str) {
        if let Some(pause) = self.next(error) {
            tracing::warn!(%error, listener, "cannot accept connections; trying again");
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::server::tls::{TlsOptions, wall_clock};
    use crate::server::{CertificateSource, ClientAuth, Reply, Stage};

    struct Never;

    impl Admission for Never {
        async fn review(&self, _: Stage, _: Bytes) -> Reply {
            std::future::pending().await
        }
    }

    /// Fails a number of times before each connection, as a process without file descriptors does.
    struct Failing {
        listener: TcpListener,
        failures: AtomicU32,
    }

    impl Accept for Failing {
        async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
            const EMFILE: i32 = 24;
            if self.failures.fetch_add(1, Ordering::Relaxed) % 4 < 3 {
                return Err(io::Error::from_raw_os_error(EMFILE));
            }
            self.listener.accept().await
        }
    }

    #[tokio::test]
    async fn errors_of_the_listening_socket_end_nothing() {
        let metrics = Arc::new(Metrics::new("test"));
        let source = CertificateSource::Ephemeral { names: vec!["localhost".to_owned()] };
        let tls = TlsOptions { source, client_auth: ClientAuth::None, tls13_only: false, http2: false };
        let tls = CertificateStore::open(tls, wall_clock(), &metrics).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let failing = Failing { listener, failures: AtomicU32::new(0) };
        let (options, shutdown) = (Arc::new(ServerOptions::default()), Shutdown::new());
        let server = serve_from(
            failing,
            tls,
            Service::new(Arc::new(Never), options, Arc::clone(&metrics), shutdown.clone()),
        );
        let client = async {
            for _ in 0..2 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.set_zero_linger().unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"not TLS at all").await.unwrap();
                // The server has taken the connection when it answers or closes it.
                let _ = stream.read(&mut [0; 16]).await;
            }
            shutdown.close();
        };
        let (result, ()) = tokio::join!(server, client);
        result.unwrap();
        let text = metrics.encode();
        assert!(text.contains("plimsoll_connections_accepted_total 2\n"), "{text}");
        assert!(!text.contains("plimsoll_accept_errors_total 0\n"), "{text}");
    }

    #[tokio::test]
    async fn options_of_zero_are_refused_by_name() {
        let metrics = Arc::new(Metrics::new("test"));
        let source = CertificateSource::Ephemeral { names: vec!["localhost".to_owned()] };
        let tls = TlsOptions { source, client_auth: ClientAuth::None, tls13_only: false, http2: false };
        let tls = CertificateStore::open(tls, wall_clock(), &metrics).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let options = Arc::new(ServerOptions { concurrency: 0, ..ServerOptions::default() });
        let error =
            serve(listener, tls, options, Arc::new(Never), metrics, Shutdown::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "server option concurrency is 0; it must be at least 1");
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let exhausted = io::Error::other("too many open files");
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..9).map(|_| backoff.next(&exhausted).unwrap().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next(&exhausted), Some(FIRST_PAUSE));
        let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(backoff.next(&aborted), None, "that concerned one connection only");
    }
}
