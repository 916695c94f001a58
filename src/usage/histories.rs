//! Usage from a file, kept.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_core::simulate::{Row, Series};

use super::bytes::{Source, Told, origin};
use super::passed_over::{PassedOver, look};
use super::rows::{Rows, UsageError};

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histories {
    /// All series by name, each in the order of time.
    pub series: Vec<Series>,
    /// What is passed over, one entry a reason, in the order of [`Why::ALL`](super::Why::ALL).
    pub passed_over: Vec<PassedOver>,
}

/// All series of a file, or of standard input (`-`). A row takes 72 bytes. `told` hears how far it is.
///
/// # Errors
/// The file cannot be read, or a row cannot be understood. Numbers that are no amount are no error: they are passed over,
/// as if they were not there, and counted.
pub fn histories(path: &Path, told: Told<'_>) -> Result<Histories, UsageError> {
    let origin = origin(path);
    let failed = |source| UsageError::Read { origin: origin.clone(), source };
    let mut source = Source::open(path).map_err(failed)?;
    let mut rows = Rows::new(source.read(told).map_err(failed)?, &origin)?;
    let mut all: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut passed_over = BTreeMap::new();
    while let Some(row) = rows.next_row()? {
        look(&row, &mut passed_over);
        let kept = Row { nanos: row.nanos, usage: row.usage, memory_request: row.memory_request };
        match all.get_mut(row.series) {
            Some(rows) => rows.push(kept),
            None => {
                all.insert(row.series.to_owned(), vec![kept]);
            }
        }
    }
    Ok(Histories {
        series: all.into_iter().map(|(name, rows)| Series::new(name, rows)).collect(),
        passed_over: passed_over.into_values().collect(),
    })
}
