//! The socket of one connection: notes what comes in, and closes so that the last answer arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;

/// How long a closed connection is kept for what the client still sends.
const LINGER: Duration = Duration::from_secs(1);
/// How much of that is thrown away before the connection is reset.
const LINGER_BYTES: usize = 1024 * 1024;

/// A TLS connection.
///
/// A socket that is closed while unread bytes wait in it is reset, and the reset may overtake the answer: the
/// client of a refused body would see no 413. So after the end of the last answer the connection stays half open
/// for a moment and what arrives is thrown away, below TLS.
#[derive(Debug)]
pub(super) struct Io {
    stream: TlsStream<TcpStream>,
    activity: Arc<Activity>,
    /// The client is done sending.
    ended: bool,
    /// Our side is closed.
    closed: bool,
    linger: Option<Pin<Box<Sleep>>>,
    discarded: usize,
}

impl Io {
    pub(super) fn new(stream: TlsStream<TcpStream>, activity: Arc<Activity>) -> Self {
        Self { stream, activity, ended: false, closed: false, linger: None, discarded: 0 }
    }

    /// Throws away what arrives until the client ends, or time or patience does.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if linger.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut scratch = [0; 8 * 1024];
        while self.discarded < LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut scratch);
            let (tcp, _) = self.stream.get_mut();
            match ready!(Pin::new(tcp).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => self.discarded += buffer.filled().len(),
                _ => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if result.is_ok() && buffer.filled().len() > before {
            self.activity.received();
        } else {
            self.ended = true;
        }
        Poll::Ready(result)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.closed = true;
        }
        if !self.ended {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
