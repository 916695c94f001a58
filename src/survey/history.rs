//! What workloads requested and used since somebody began to look.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::savings::Row;

use super::Survey;

/// How many points are kept of a workload: an hour of looks.
const KEPT: usize = 120;

/// A workload at one time; in cores and bytes, which is precise enough for a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// What its pods would request if nothing had been lowered: CPU and memory.
    pub before: [f32; 2],
    /// What they request.
    pub now: [f32; 2],
    /// What they use, if all of them were measured.
    pub used: Option<[f32; 2]>,
}

/// The last points of every workload.
#[derive(Clone, Debug, Default)]
pub struct History(HashMap<WorkloadKey, VecDeque<Point>>);

impl History {
    /// Adds a point to each workload of a survey; one that is not there any more is forgotten.
    pub(super) fn add(&mut self, survey: &Survey) {
        self.0.retain(|key, _| survey.savings.workloads.contains_key(key));
        for (key, row) in &survey.savings.workloads {
            let points = self.0.entry(key.clone()).or_default();
            if points.len() >= KEPT {
                points.pop_front();
            }
            points.push_back(point(survey.taken, row));
        }
    }

    /// The points of a workload, the oldest first.
    pub fn of(&self, key: &WorkloadKey) -> Vec<Point> {
        self.0.get(key).into_iter().flatten().copied().collect()
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "for a plot")]
fn point(at: Timestamp, row: &Row) -> Point {
    let units = |nanos: i128| (nanos as f64 / 1e9) as f32;
    let pair = |figures: plimsoll_core::savings::Figures| [units(figures.cpu), units(figures.memory)];
    let is_measured = row.measured == row.pods && row.pods > 0;
    Point { at, before: pair(row.before), now: pair(row.now), used: is_measured.then(|| pair(row.used)) }
}
