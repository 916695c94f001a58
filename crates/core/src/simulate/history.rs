//! A container's history.

use crate::resource::Resource;
use crate::simulate::{Each, Units, units};
use crate::usage::{SECOND, Usage, is_amount};

/// What was measured of a container at one time, and what it requested then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Nanoseconds since 1970.
    pub nanos: i64,
    /// What was used, and the CPU request.
    pub usage: Usage,
    /// The memory request in bytes.
    pub memory_request: Option<f64>,
}

impl Row {
    /// What was used of a resource.
    pub fn used(&self, resource: Resource) -> Option<Units> {
        self.value(resource).and_then(|value| units(resource, value))
    }

    /// The same in cores or bytes.
    pub(super) const fn value(&self, resource: Resource) -> Option<f64> {
        match resource {
            Resource::Cpu => self.usage.cpu,
            Resource::Memory => self.usage.memory,
            Resource::EphemeralStorage => None,
        }
    }

    const fn request(&self, resource: Resource) -> Option<f64> {
        match resource {
            Resource::Cpu => self.usage.cpu_request,
            Resource::Memory => self.memory_request,
            Resource::EphemeralStorage => None,
        }
    }
}

/// The history of a container, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    rows: Vec<Row>,
    step: i64,
}

impl Series {
    /// A history from rows in any order. Values that are negative or not finite are left out. Of several values of the
    /// same time the first counts.
    pub fn new(name: impl Into<String>, mut rows: Vec<Row>) -> Self {
        for row in &mut rows {
            row.usage.cpu = row.usage.cpu.filter(|value| is_amount(*value));
            row.usage.memory = row.usage.memory.filter(|value| is_amount(*value));
        }
        rows.sort_by_key(|row| row.nanos);
        rows.dedup_by(|later, kept| {
            let same = later.nanos == kept.nanos;
            if same {
                kept.usage.cpu = kept.usage.cpu.or(later.usage.cpu);
                kept.usage.memory = kept.usage.memory.or(later.usage.memory);
            }
            same
        });
        let step = usual_step(&rows);
        Self { name: name.into(), rows, step }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows; no two are of the same time.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// For how long, in nanoseconds, the row at an index speaks: until the next, but not longer than the median time
    /// between two rows. What lies beyond was not measured.
    pub(super) fn duration(&self, index: usize) -> i64 {
        match (self.rows.get(index), self.rows.get(index + 1)) {
            (Some(row), Some(next)) => next.nanos.saturating_sub(row.nanos).min(self.step),
            _ => self.step,
        }
    }
}

/// The median time between rows; a minute, as of scans, where there is none.
fn usual_step(rows: &[Row]) -> i64 {
    let mut steps: Vec<i64> = rows
        .iter()
        .zip(rows.iter().skip(1))
        .map(|(row, next)| next.nanos.saturating_sub(row.nanos))
        .collect();
    if steps.is_empty() {
        return 60 * SECOND;
    }
    let middle = (steps.len() - 1) / 2;
    *steps.select_nth_unstable(middle).1
}

/// The requests that are known, from one row to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    requests: Each<Option<Units>>,
}

impl Known {
    /// Takes what a row says. A row that says nothing changes nothing; a request of 0 is none.
    pub(super) fn follow(&mut self, row: &Row) {
        for (resource, known) in
            [(Resource::Cpu, &mut self.requests.cpu), (Resource::Memory, &mut self.requests.memory)]
        {
            if let Some(request) = row.request(resource).and_then(|request| units(resource, request)) {
                *known = Some(request).filter(|request| *request > 0);
            }
        }
    }

    pub(super) const fn requests(&self) -> Each<Option<Units>> {
        self.requests
    }
}
