//! Standard output that knows when nobody reads it any more.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::{CliError, Context};

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

/// Writes an answer as JSON or YAML.
pub(super) fn print(answer: &impl Serialize, as_yaml: bool, ctx: &mut Context<'_>) -> Result<(), CliError> {
    if as_yaml {
        let text = serde_saphyr::to_string(answer);
        let text =
            text.map_err(|error| anyhow::Error::new(error).context("the result cannot be written as YAML"))?;
        write!(ctx.out, "{text}")?;
    } else {
        let text = serde_json::to_string_pretty(answer);
        let text =
            text.map_err(|error| anyhow::Error::new(error).context("the result cannot be written as JSON"))?;
        writeln!(ctx.out, "{text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_closed_pipe_is_remembered() {
        for (kind, closed) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let mut output = Output::new(Failing(kind));
            output.write_all(b"text").unwrap();
            assert!(!output.is_closed());
            assert!(output.flush().is_err());
            assert_eq!(output.is_closed(), closed, "{kind}");
        }
    }
}
