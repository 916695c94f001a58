//! Rows of usage.

use std::io::{self, Read};

use jiff::Timestamp;
use plimsoll_core::usage::{Usage, nanos_of};

use super::bytes::unpacked;

/// The columns, in their usual order. `series`, `timestamp` and one of the usages are needed.
pub const COLUMNS: [&str; 6] =
    ["series", "timestamp", "cpu_cores", "memory_bytes", "cpu_request_cores", "memory_request_bytes"];

const COLUMN_NAMES: &str = "series,timestamp,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes";

/// Usage that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The operating system refused, or what the file is packed in is broken.
    #[error("{origin}: cannot be read: {source}")]
    Read {
        /// File or `standard input`.
        origin: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The first line does not name the columns.
    #[error("{origin}: line 1: {reason}; the first line names the columns: {COLUMN_NAMES}")]
    Header {
        /// File or `standard input`.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A row cannot be understood.
    #[error("{origin}: line {line}: {reason}")]
    Row {
        /// File or `standard input`.
        origin: String,
        /// Counted from 1.
        line: u64,
        /// The column, the value and what would be right.
        reason: String,
    },
}

/// One row. A value that is absent was not measured; numbers may still be nonsense, such as -1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    /// Line in the file, counted from 1.
    pub line: u64,
    /// Whose usage it is.
    pub series: &'a str,
    /// Nanoseconds since 1970.
    pub nanos: i64,
    /// What was used, and the CPU request.
    pub usage: Usage,
    /// The memory request in bytes.
    pub memory_request: Option<f64>,
}

/// Reads a table of usage row by row.
pub struct Rows<R> {
    reader: csv::Reader<R>,
    record: csv::StringRecord,
    /// Where each of [`COLUMNS`] stands.
    places: [Option<usize>; 6],
    origin: String,
}

impl<'a> Rows<Box<dyn Read + 'a>> {
    /// Reads from bytes that may be packed by gzip or zstd; `origin` is the name for messages.
    pub fn packed(bytes: impl Read + 'a, origin: &str) -> Result<Self, UsageError> {
        let failed = |source| UsageError::Read { origin: origin.to_owned(), source };
        Self::new(Box::new(unpacked(bytes).map_err(failed)?), origin)
    }
}

impl<R: Read> Rows<R> {
    pub(super) fn new(text: R, origin: &str) -> Result<Self, UsageError> {
        let reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let record = csv::StringRecord::new();
        let mut rows = Self { reader, record, places: [None; 6], origin: origin.to_owned() };
        let header = match rows.reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => return Err(rows.error(error)),
        };
        rows.places =
            places(&header).map_err(|reason| UsageError::Header { origin: origin.to_owned(), reason })?;
        Ok(rows)
    }

    /// The next row; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, UsageError> {
        match self.reader.read_record(&mut self.record) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(self.error(error)),
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        let row = parse(&self.record, &self.places, line);
        row.map(Some).map_err(|reason| UsageError::Row { origin: self.origin.clone(), line, reason })
    }

    fn error(&self, error: csv::Error) -> UsageError {
        let origin = self.origin.clone();
        let line = error.position().map_or(1, csv::Position::line);
        let reason = match error.into_kind() {
            csv::ErrorKind::Io(source) => return UsageError::Read { origin, source },
            csv::ErrorKind::Utf8 { .. } => "is not UTF-8".to_owned(),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("has {len} fields where the first line has {expected_len}")
            }
            other => format!("{other:?}"),
        };
        UsageError::Row { origin, line, reason }
    }
}

fn places(header: &csv::StringRecord) -> Result<[Option<usize>; 6], String> {
    let mut places = [None; 6];
    for (index, name) in header.iter().enumerate() {
        let known = COLUMNS.iter().position(|column| *column == name);
        let Some(place) = known.and_then(|known| places.get_mut(known)) else {
            return Err(format!("{:?} is no column", shown(name)));
        };
        if place.replace(index).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    match places {
        [None, ..] => Err("series is missing".to_owned()),
        [_, None, ..] => Err("timestamp is missing".to_owned()),
        [_, _, None, None, ..] => Err("cpu_cores and memory_bytes are both missing".to_owned()),
        _ => Ok(places),
    }
}

fn parse<'r>(
    record: &'r csv::StringRecord,
    places: &[Option<usize>; 6],
    line: u64,
) -> Result<Row<'r>, String> {
    let [series, timestamp, cpu, memory, cpu_request, memory_request] =
        places.map(|place| place.and_then(|place| record.get(place)).unwrap_or_default());
    if series.is_empty() {
        return Err("series is empty; a name such as namespace/workload/container is right".to_owned());
    }
    let time: Timestamp = timestamp.parse().map_err(|_| {
        format!(
            "timestamp: {:?} is not a time; RFC 3339 is right, as in 2026-03-01T10:00:00Z",
            shown(timestamp)
        )
    })?;
    Ok(Row {
        line,
        series,
        nanos: nanos_of(time),
        usage: Usage {
            cpu: number(cpu, "cpu_cores")?,
            memory: number(memory, "memory_bytes")?,
            cpu_request: number(cpu_request, "cpu_request_cores")?,
        },
        memory_request: number(memory_request, "memory_request_bytes")?,
    })
}

fn number(text: &str, column: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        format!(
            "{column}: {:?} is not a number; a plain number is right, as in 0.25, and nothing where there is no value",
            shown(text)
        )
    };
    text.parse().map(Some).map_err(wrong)
}

/// Short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
