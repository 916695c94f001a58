//! Usage from a table, for use without a cluster and for tests.
//!
//! A series `namespace/workload/container` is a container of that workload. Which pod it ran in is not known, so the
//! workload's name stands for the pod's. A series of another name belongs to no workload and is counted as without
//! labels.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc;

use super::{Failure, Sample, Scan, Sink, Skipped};
use crate::files::open_regular;
use crate::usage::{Row, Rows, UsageError};

/// Rows that are handed on together.
const BATCH: usize = 1024;

/// Where the table is.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// A usage CSV; plain, or packed by gzip or zstd.
    pub path: PathBuf,
}

/// Delivers the rows whose time has come, each once. A row that is added later is delivered if it is younger than the
/// last of its series; the file may be appended to or replaced at any time.
#[derive(Debug)]
pub struct File {
    options: FileOptions,
    state: State,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// What was read last.
    read: Option<Stamp>,
    /// When the first row is due that was not delivered.
    next: Option<i64>,
    /// The last time that was delivered of each series.
    delivered: HashMap<Arc<str>, i64>,
}

/// Tells whether a file is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

struct Owned {
    series: Arc<str>,
    nanos: i64,
    cpu: Option<f64>,
    memory: Option<f64>,
}

impl File {
    /// Nothing is opened yet.
    pub fn new(options: FileOptions) -> Self {
        Self { options, state: State::default() }
    }

    /// Delivers the rows up to `now` that were not delivered before, in rising time for each series. The first of
    /// the rows of one time counts. An error in the file leaves the rows before it delivered.
    pub async fn scan(&mut self, now: i64, sink: &mut Sink<'_>) -> Scan {
        let mut scan = Scan::default();
        let (rows, mut batches) = mpsc::channel::<Vec<Owned>>(2);
        let (path, state) = (self.options.path.clone(), self.state.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let mut reading = Reading { state, now, skipped: Skipped::default(), batch: Vec::new(), rows };
            let result = reading.read(&path);
            reading.flush();
            (reading.state, reading.skipped, result)
        });
        while let Some(batch) = batches.recv().await {
            for row in &batch {
                let Some((namespace, workload, container)) = names(&row.series) else { continue };
                scan.samples += 1;
                sink(&Sample {
                    namespace,
                    pod: workload,
                    container,
                    nanos: row.nanos,
                    cpu: row.cpu,
                    memory: row.memory,
                });
            }
        }
        let message = match reading.await {
            Ok((state, skipped, result)) => {
                self.state = state;
                scan.skipped = skipped;
                result.err().map(|error| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        scan.failures.extend(message.map(|message| Failure {
            scope: "file".to_owned(),
            message,
            retry_after: None,
        }));
        scan
    }
}

fn names(series: &str) -> Option<(&str, &str, &str)> {
    let mut parts = series.split('/');
    let names = (parts.next()?, parts.next()?, parts.next()?);
    let complete = parts.next().is_none() && ![names.0, names.1, names.2].contains(&"");
    complete.then_some(names)
}

struct Reading {
    state: State,
    now: i64,
    skipped: Skipped,
    batch: Vec<Owned>,
    rows: mpsc::Sender<Vec<Owned>>,
}

impl Reading {
    fn read(&mut self, path: &Path) -> Result<(), UsageError> {
        let origin = path.display().to_string();
        let failed = |source| UsageError::Read { origin: origin.clone(), source };
        let open = || open_regular(path).map_err(failed);
        let stamp = Stamp::of(&open()?).map_err(failed)?;
        if self.state.read == Some(stamp) && self.state.next.is_none_or(|next| next > self.now) {
            return Ok(());
        }
        // Until it has been read to its end.
        self.state.read = None;
        // Series in order are delivered as they are read; the others are kept and sorted.
        let disordered = self.look(&mut Rows::packed(open()?, &origin)?);
        self.deliver(&mut Rows::packed(open()?, &origin)?, &disordered)?;
        self.state.read = Some(stamp);
        Ok(())
    }

    /// Which series have rows to deliver that are not in the order of their times. A file with an error is
    /// looked at to there.
    fn look<R: std::io::Read>(&self, rows: &mut Rows<R>) -> HashSet<Arc<str>> {
        let mut last: HashMap<Arc<str>, i64> = HashMap::new();
        let mut disordered = HashSet::new();
        while let Ok(Some(row)) = rows.next_row() {
            if row.nanos > self.now || !self.is_new(&row) {
                continue;
            }
            if let Some(last) = last.get_mut(row.series) {
                if row.nanos < *last && !disordered.contains(row.series) {
                    disordered.insert(Arc::from(row.series));
                }
                *last = row.nanos;
            } else {
                last.insert(Arc::from(row.series), row.nanos);
            }
        }
        disordered
    }

    fn deliver<R: std::io::Read>(
        &mut self,
        rows: &mut Rows<R>,
        disordered: &HashSet<Arc<str>>,
    ) -> Result<(), UsageError> {
        let mut kept: Vec<Owned> = Vec::new();
        let mut next: Option<i64> = None;
        let result = loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if !self.is_new(&row) {
                continue;
            }
            if row.nanos > self.now {
                next = Some(next.map_or(row.nanos, |next| next.min(row.nanos)));
                continue;
            }
            if let Some(series) = disordered.get(row.series) {
                kept.extend(self.owned(&row, Arc::clone(series)));
                continue;
            }
            let known = self.state.delivered.get_key_value(row.series).map(|(series, _)| Arc::clone(series));
            let series = known.unwrap_or_else(|| Arc::from(row.series));
            if let Some(row) = self.owned(&row, series) {
                self.send(row);
            }
        };
        kept.sort_by(|one, other| (&one.series, one.nanos).cmp(&(&other.series, other.nanos)));
        for row in kept {
            let last = self.state.delivered.get(&row.series);
            if last.is_none_or(|last| row.nanos > *last) {
                self.send(row);
            }
        }
        self.state.next = next;
        result
    }

    fn is_new(&self, row: &Row<'_>) -> bool {
        self.state.delivered.get(row.series).is_none_or(|last| row.nanos > *last)
    }

    /// The row with the values that can be used, if there are any.
    fn owned(&mut self, row: &Row<'_>, series: Arc<str>) -> Option<Owned> {
        if names(row.series).is_none() {
            self.skipped.missing_labels += 1;
            return None;
        }
        let mut checked = |value: Option<f64>| value.and_then(|value| self.skipped.checked(Some(value)));
        let (cpu, memory) = (checked(row.usage.cpu), checked(row.usage.memory));
        if cpu.is_none() && memory.is_none() {
            self.skipped.no_value += 1;
            return None;
        }
        Some(Owned { series, nanos: row.nanos, cpu, memory })
    }

    fn send(&mut self, row: Owned) {
        self.state.delivered.insert(Arc::clone(&row.series), row.nanos);
        self.batch.push(row);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // Nobody takes them any more if the scan was given up.
        let _ = self.rows.blocking_send(std::mem::take(&mut self.batch));
    }
}

impl Stamp {
    fn of(file: &std::fs::File) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self { modified: metadata.modified().ok(), length: metadata.len(), inode })
    }
}
