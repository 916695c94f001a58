//! Logs: text for a person at a terminal, JSON for everything else; the level can be changed while running.

use std::any::Any;
use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, reload};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logs cannot be written as asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A part of the filter cannot be read.
    #[error(
        "log filter {filter:?}: {part:?} is neither a level nor `target=level`; levels are off, error, warn, info, \
         debug, trace; example: info,plimsoll::server=debug"
    )]
    Filter {
        /// The whole filter.
        filter: String,
        /// The part in question.
        part: String,
    },
    /// Logging was set up before in this process.
    #[error("logging is already set up in this process")]
    AlreadySet,
    /// The part of the program that writes the logs is gone.
    #[error("logging has ended; the level cannot be changed any more")]
    Ended,
}

/// Changes the level of the logs while they are written.
#[derive(Clone, Debug)]
pub struct LogControl(reload::Handle<Targets, Registry>);

impl LogControl {
    /// Puts `filter` in force: a level, or `target=level` parts, separated by commas.
    ///
    /// # Errors
    ///
    /// When the filter cannot be read; the one in force then stays.
    pub fn set_level(&self, filter: &str) -> Result<(), TelemetryError> {
        let targets = parse(filter)?;
        self.0.reload(targets).map_err(|_| TelemetryError::Ended)
    }
}

/// Sets up logging to standard error for the whole process, panics included.
///
/// # Errors
///
/// When the filter cannot be read, or logging was set up before.
pub fn init(format: LogFormat, filter: &str) -> Result<LogControl, TelemetryError> {
    let terminal = std::io::stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (subscriber, control) = build(json, colour, filter, std::io::stderr)?;
    subscriber.try_init().map_err(|_| TelemetryError::AlreadySet)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(control)
}

type Filtered = Layered<reload::Layer<Targets, Registry>, Registry>;
type Output = Box<dyn Layer<Filtered> + Send + Sync>;

fn build<W>(
    json: bool,
    colour: bool,
    filter: &str,
    writer: W,
) -> Result<(Layered<Output, Filtered>, LogControl), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = fmt::layer().with_writer(writer);
    let output: Output = if json {
        lines.with_ansi(false).json().flatten_event(true).with_current_span(false).boxed()
    } else {
        lines.with_ansi(colour).boxed()
    };
    Ok((Registry::default().with(filter).with(output), LogControl(handle)))
}

/// A filter of levels and `target=level` parts.
///
/// The usual parser takes any bare word for a target and shows everything of it and nothing else, so a misspelt
/// level would silence the program.
fn parse(filter: &str) -> Result<Targets, TelemetryError> {
    // What this module of the client says about a failed call is said by whoever made the call, once.
    let mut targets = Targets::new().with_target("kube_client::client::builder", LevelFilter::OFF);
    for part in filter.split(',').map(str::trim) {
        let bad = || TelemetryError::Filter { filter: filter.to_owned(), part: part.to_owned() };
        targets = match part.split_once('=') {
            None => targets.with_default(level(part).ok_or_else(bad)?),
            Some((target, text)) if is_target(target.trim()) => {
                targets.with_target(target.trim(), level(text.trim()).ok_or_else(bad)?)
            }
            Some(_) => return Err(bad()),
        };
    }
    Ok(targets)
}

fn level(text: &str) -> Option<LevelFilter> {
    // The parser of the crate takes numbers as well, and the empty text for `error`.
    text.chars()
        .all(|c| c.is_ascii_alphabetic())
        .then_some(text)
        .filter(|text| !text.is_empty())?
        .parse()
        .ok()
}

fn is_target(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'))
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let message = panic_text(info.payload());
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(message, location, "panic");
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    fn logging(json: bool, filter: &str) -> (Lines, LogControl, tracing::subscriber::DefaultGuard) {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, control) = build(json, false, filter, move || writer.clone()).unwrap();
        (lines, control, tracing::subscriber::set_default(subscriber))
    }

    #[test]
    fn filters() {
        let good =
            ["info", "INFO", "off", "plimsoll=debug", "info,plimsoll::server=trace", " warn , kube = error "];
        for filter in good {
            assert!(parse(filter).is_ok(), "{filter:?}");
        }
        let bad = [
            ("", ""),
            ("infoo", "infoo"),
            ("info,", ""),
            ("3", "3"),
            ("=info", "=info"),
            ("a=", "a="),
            ("a b=info", "a b=info"),
            ("info,x=loud", "x=loud"),
        ];
        for (filter, part) in bad {
            let want = TelemetryError::Filter { filter: filter.to_owned(), part: part.to_owned() };
            assert_eq!(parse(filter).unwrap_err(), want, "{filter:?}");
        }
    }

    #[test]
    fn level_changes_while_running() {
        let (lines, control, _guard) = logging(false, "info");
        tracing::debug!("hidden");
        tracing::info!("shown");
        let text = lines.take();
        assert!(text.contains("shown") && !text.contains("hidden"), "{text}");

        control.set_level("debug").unwrap();
        tracing::debug!("now shown");
        assert!(lines.take().contains("now shown"));

        assert!(control.set_level("loud").is_err());
        tracing::debug!("still shown");
        assert!(lines.take().contains("still shown"), "a bad filter changes nothing");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let (lines, _control, _guard) = logging(true, "info");
        tracing::info!(count = 2, "first\nline");
        tracing::info!("second");
        let text = lines.take();
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0]["message"], "first\nline");
        assert_eq!(objects[0]["count"], 2);
        assert_eq!(objects[0]["level"], "INFO");
    }
}
