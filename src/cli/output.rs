//! Standard output that knows when nobody reads it any more.

use std::io::{self, BufWriter, Write};

/// A buffered writer that remembers a closed pipe, as after `plimsoll ... | head`.
///
/// The command then ends early with the error of the write like any other, but it is no failure.
#[derive(Debug)]
pub(super) struct Output<W: Write> {
    inner: BufWriter<W>,
    closed: bool,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { inner: BufWriter::new(writer), closed: false }
    }

    /// Whether the reader has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.closed |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.note(flushed)
    }
}
