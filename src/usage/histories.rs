//! Usage from a file, kept.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_core::simulate::{Row, Series};

use super::bytes::{Source, Told};
use super::rows::{Rows, UsageError};

/// All series of a file, or of standard input (`-`), by name, each in the order of time. A row takes 72 bytes. `told`
/// hears how far it is.
pub fn histories(path: &Path, told: Told<'_>) -> Result<Vec<Series>, UsageError> {
    let origin =
        if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |source| UsageError::Read { origin: origin.clone(), source };
    let mut source = Source::open(path).map_err(failed)?;
    let mut rows = Rows::new(source.read(told).map_err(failed)?, &origin)?;
    let mut all: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    while let Some(row) = rows.next_row()? {
        let kept = Row { nanos: row.nanos, usage: row.usage, memory_request: row.memory_request };
        match all.get_mut(row.series) {
            Some(rows) => rows.push(kept),
            None => {
                all.insert(row.series.to_owned(), vec![kept]);
            }
        }
    }
    Ok(all.into_iter().map(|(name, rows)| Series::new(name, rows)).collect())
}
