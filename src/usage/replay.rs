//! Usage from a file, passed through the model.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use plimsoll_core::usage::{AHEAD, Aggregate, Dropped, Model, Scan, Track, Usage, is_amount};

use super::bytes::{Source, Told, origin};
use super::passed_over::{PassedOver, Why, look};
use super::rows::{Row, Rows, UsageError};

/// Which time it is for a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Now, in nanoseconds since 1970; rows too far ahead of it are dropped and counted.
    Live(i64),
    /// The time to which the file is replayed; later rows are as if they were not there.
    At(i64),
}

/// What became of the file.
#[derive(Debug, Default)]
pub struct Replay {
    /// Its series, by name.
    pub series: BTreeMap<String, Series>,
    /// What is passed over of rows that count, one entry a reason, in the order of [`Why::ALL`].
    pub passed_over: Vec<PassedOver>,
}

/// What became of a series.
#[derive(Debug, Default)]
pub struct Series {
    /// The samples.
    pub aggregate: Aggregate,
    /// Rows of which something was taken; several can be of one time.
    pub accepted: u64,
    /// The samples that were not taken.
    pub dropped: Dropped,
    /// The last known CPU request, in cores.
    pub cpu_request: Option<f64>,
    /// The last known memory request, in bytes.
    pub memory_request: Option<f64>,
    /// Of the row that the requests were last looked for in.
    seen: Option<i64>,
    track: Track,
}

/// A row without its name.
#[derive(Debug, Clone, Copy)]
struct Observed {
    nanos: i64,
    usage: Usage,
    memory_request: Option<f64>,
}

impl From<&Row<'_>> for Observed {
    fn from(row: &Row<'_>) -> Self {
        Self { nanos: row.nanos, usage: row.usage, memory_request: row.memory_request }
    }
}

impl Series {
    fn observe(&mut self, model: &Model, scan: &Scan, row: &Observed, now: Option<i64>) {
        let taken = self.aggregate.observe(&mut self.track, model, scan, row.usage, now, &mut self.dropped);
        self.accepted += u64::from(taken);
        // As with samples, the first row of a time counts, and none from the future.
        let future = now.is_some_and(|now| row.nanos > now.saturating_add(AHEAD));
        if !future && self.seen.replace(row.nanos) != Some(row.nanos) {
            keep_last(&mut self.cpu_request, row.usage.cpu_request);
            keep_last(&mut self.memory_request, row.memory_request);
        }
    }
}

fn keep_last(known: &mut Option<f64>, request: Option<f64>) {
    if let Some(request) = request.filter(|request| is_amount(*request)) {
        // A request of 0 is none.
        *known = Some(request).filter(|request| *request > 0.0);
    }
}

/// A series while the file is read for the first time.
#[derive(Debug, Default)]
struct Reading {
    series: Series,
    last: Option<i64>,
    disordered: bool,
}

/// Passes a file, or standard input (`-`), through the model.
///
/// Rows of a series that come in the order of their times are not kept, so a file of any length can be read. The
/// series whose rows do not are read a second time, kept, and sorted; rows of the same time stay in their order.
/// `told` hears how far a reading is.
pub fn replay(path: &Path, model: &Model, clock: Clock, told: Told<'_>) -> Result<Replay, UsageError> {
    let origin = origin(path);
    let failed = |source| UsageError::Read { origin: origin.clone(), source };
    let mut source = Source::open(path).map_err(failed)?;
    let mut rows = Rows::new(source.read(told).map_err(failed)?, &origin)?;
    let mut passed_over = BTreeMap::new();
    let mut series = first_reading(&mut rows, model, clock, &mut passed_over)?;
    if series.values().any(|reading| reading.disordered) {
        let mut rows = Rows::new(source.read(told).map_err(failed)?, &origin)?;
        second_reading(&mut rows, &mut series, model, clock)?;
    }
    Ok(Replay {
        series: series.into_iter().map(|(name, reading)| (name, reading.series)).collect(),
        passed_over: passed_over.into_values().collect(),
    })
}

fn first_reading<R: std::io::Read>(
    rows: &mut Rows<R>,
    model: &Model,
    clock: Clock,
    passed_over: &mut BTreeMap<Why, PassedOver>,
) -> Result<HashMap<String, Reading>, UsageError> {
    let mut all: HashMap<String, Reading> = HashMap::new();
    let mut scan = (0, Scan::new(model, 0));
    while let Some(row) = rows.next_row()? {
        if !clock.takes(&row) {
            continue;
        }
        look(&row, passed_over);
        let reading = match all.get_mut(row.series) {
            Some(reading) => reading,
            None => all.entry(row.series.to_owned()).or_default(),
        };
        reading.disordered |= reading.last.is_some_and(|last| row.nanos < last);
        if reading.disordered {
            continue;
        }
        reading.last = Some(row.nanos);
        if scan.0 != row.nanos {
            scan = (row.nanos, Scan::new(model, row.nanos));
        }
        reading.series.observe(model, &scan.1, &Observed::from(&row), clock.live());
    }
    Ok(all)
}

fn second_reading<R: std::io::Read>(
    rows: &mut Rows<R>,
    all: &mut HashMap<String, Reading>,
    model: &Model,
    clock: Clock,
) -> Result<(), UsageError> {
    let mut kept: HashMap<&str, Vec<Observed>> =
        all.iter().filter(|(_, reading)| reading.disordered).map(|(name, _)| (&**name, Vec::new())).collect();
    while let Some(row) = rows.next_row()? {
        if clock.takes(&row)
            && let Some(kept) = kept.get_mut(row.series)
        {
            kept.push(Observed::from(&row));
        }
    }
    let now = clock.live();
    let sorted: Vec<(String, Series)> = kept
        .into_iter()
        .map(|(name, mut rows)| {
            rows.sort_by_key(|row| row.nanos);
            let mut series = Series::default();
            for row in &rows {
                series.observe(model, &Scan::new(model, row.nanos), row, now);
            }
            (name.to_owned(), series)
        })
        .collect();
    for (name, series) in sorted {
        all.insert(name, Reading { series, ..Reading::default() });
    }
    Ok(())
}

impl Clock {
    const fn live(self) -> Option<i64> {
        match self {
            Self::Live(now) => Some(now),
            Self::At(_) => None,
        }
    }

    /// Whether a row is there at all.
    const fn takes(self, row: &Row<'_>) -> bool {
        match self {
            Self::At(at) => row.nanos <= at,
            Self::Live(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::profile::from_spec;

    use super::*;

    #[test]
    fn how_far_a_reading_is_ends_at_the_size_of_the_file() {
        let model = Model::from_policy(&from_spec("p", &serde_json::json!({})).unwrap().dynamic).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/usage/azure.csv.gz");
        let size = std::fs::metadata(&path).unwrap().len();
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |done, of| told.borrow_mut().push((done, of));
        replay(&path, &model, Clock::Live(i64::MAX), &tell).unwrap();
        let told = told.into_inner();
        assert!(told.len() > 1 && told.iter().all(|(done, of)| *of == size && *done <= size), "{told:?}");
        assert_eq!(told.last().unwrap().0, size);
    }

    #[test]
    fn containers_of_real_usage_are_small() {
        let model = Model::from_policy(&from_spec("p", &serde_json::json!({})).unwrap().dynamic).unwrap();
        for file in ["kruize.csv.zst", "azure.csv.gz"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/usage").join(file);
            let replay = replay(&path, &model, Clock::Live(i64::MAX), &|_, _| {}).unwrap();
            let bytes: Vec<_> = replay.series.values().map(|series| series.aggregate.bytes()).collect();
            let mean = bytes.iter().sum::<usize>() / bytes.len();
            assert!(mean <= 600, "{file}: {bytes:?}");
        }
    }
}
