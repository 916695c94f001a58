//! Standard output that knows when nobody reads it any more.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

pub(super) use super::context::Written;
use super::{CliError, Context};
use crate::visible::{is_plain, visible_json};

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

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    /// Tables and sentences, for people
    Table,
    /// JSON
    Json,
    /// The same as YAML
    Yaml,
}

impl Form {
    /// The form for programs; none where it is for people.
    pub(super) const fn written(self) -> Option<Written> {
        match self {
            Self::Table => None,
            Self::Json => Some(Written::Json),
            Self::Yaml => Some(Written::Yaml),
        }
    }
}

/// Writes an answer as JSON or YAML. Nothing in its strings reaches a terminal as a control; what a string has of them
/// is escaped, and means the same.
pub(super) fn print(answer: &impl Serialize, form: Written, ctx: &mut Context<'_>) -> Result<(), CliError> {
    ctx.written = Some(form);
    if form == Written::Yaml {
        write!(ctx.out, "{}", yaml(answer)?)?;
        return Ok(());
    }
    // A line for each answer is what programs read that are given one after another.
    let text =
        if ctx.repeated { serde_json::to_string(answer) } else { serde_json::to_string_pretty(answer) };
    writeln!(ctx.out, "{}", visible_json(&text.map_err(|error| not_written("JSON", error))?))?;
    Ok(())
}

/// The same as a text of YAML, with a line end.
pub(super) fn yaml(answer: &impl Serialize) -> Result<String, CliError> {
    let text = serde_saphyr::to_string(answer).map_err(|error| not_written("YAML", error))?;
    if is_plain(&text) {
        return Ok(text);
    }
    // In YAML's plain strings nothing can be escaped; JSON is YAML too.
    let text = serde_json::to_string_pretty(answer).map_err(|error| not_written("JSON", error))?;
    Ok(visible_json(&text) + "\n")
}

fn not_written(form: &str, error: impl std::error::Error + Send + Sync + 'static) -> CliError {
    anyhow::Error::new(error).context(format!("the result cannot be written as {form}")).into()
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
    #[test]
    fn strings_cannot_do_anything_and_mean_the_same() {
        let answer = serde_json::json!({ "name": "web\u{202e}\x1b[2J\u{9b}\u{e0001}", "lines": "a\nb" });
        for form in [Written::Json, Written::Yaml] {
            let mut out = Vec::new();
            print(&answer, form, &mut Context::new(&mut out, "plimsoll", None, Vec::new())).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(is_plain(&text), "{text:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), answer, "{text}");
        }
    }

    #[test]
    fn one_of_many_answers_is_a_line() {
        let mut out = Vec::new();
        let mut ctx = Context::new(&mut out, "plimsoll", None, Vec::new());
        ctx.repeated = true;
        print(&serde_json::json!({ "a": [1, 2] }), Written::Json, &mut ctx).unwrap();
        assert_eq!(ctx.written, Some(Written::Json));
        assert_eq!(out, b"{\"a\":[1,2]}\n");
    }
}
