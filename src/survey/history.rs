//! What workloads requested and used since somebody began to look.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::savings::Row;

use super::Survey;

/// How many points are kept of a workload: an hour of looks.
const KEPT: usize = 120;
/// How many workloads have a history: the largest. With all their points that is some 40 MiB.
const WORKLOADS: usize = 10_000;

/// A workload at one time; in cores and bytes, which is precise enough for a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// What its pods would request if nothing had been lowered: CPU and memory.
    pub before: [f32; 2],
    /// What they request.
    pub now: [f32; 2],
    /// What they use, of each resource of which all of them were measured.
    pub used: [Option<f32>; 2],
}

/// The last points of the largest workloads.
#[derive(Clone, Debug, Default)]
pub struct History(HashMap<WorkloadKey, VecDeque<Stored>>);

/// A point in little room: seconds, and no number where nothing is known.
#[derive(Clone, Copy, Debug)]
struct Stored {
    at: i64,
    before: [f32; 2],
    now: [f32; 2],
    used: [f32; 2],
}

impl History {
    /// Adds a point to each of the largest workloads of a survey; another one is forgotten.
    pub(super) fn add(&mut self, survey: &Survey) {
        let all = &survey.savings.workloads;
        let least = least_of_largest(all.values());
        let mut room = WORKLOADS;
        // Where many are as large as the least, those that have a history keep it.
        self.0.retain(|key, _| {
            let stays = all.get(key).is_some_and(|row| size(row) >= least);
            room = room.saturating_sub(stays.into());
            stays
        });
        for (key, row) in all.iter().filter(|(_, row)| size(row) >= least) {
            if !self.0.contains_key(key) {
                if room == 0 {
                    continue;
                }
                room -= 1;
                self.0.insert(key.clone(), VecDeque::new());
            }
            let Some(points) = self.0.get_mut(key) else { continue };
            if points.len() >= KEPT {
                points.pop_front();
            }
            points.push_back(point(survey.taken, row));
        }
    }

    /// The points of a workload, the oldest first; none of one that is not among the largest.
    pub fn of(&self, key: &WorkloadKey) -> Vec<Point> {
        let known = |value: f32| (!value.is_nan()).then_some(value);
        let points = self.0.get(key).into_iter().flatten();
        points
            .map(|point| Point {
                at: Timestamp::from_second(point.at).unwrap_or_default(),
                before: point.before,
                now: point.now,
                used: point.used.map(known),
            })
            .collect()
    }

    /// How many workloads have one.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// By what workloads are compared.
fn size(row: &Row) -> (i128, i128, u64) {
    (row.before.cpu, row.before.memory, row.pods)
}

/// The size of the least of those that have a history.
fn least_of_largest<'a>(rows: impl ExactSizeIterator<Item = &'a Row>) -> (i128, i128, u64) {
    if rows.len() <= WORKLOADS {
        return (i128::MIN, i128::MIN, 0);
    }
    let mut sizes: Vec<_> = rows.map(size).collect();
    let (_, least, _) = sizes.select_nth_unstable_by(WORKLOADS - 1, |a, b| b.cmp(a));
    *least
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "for a plot")]
fn point(at: Timestamp, row: &Row) -> Stored {
    let units = |nanos: i128| (nanos as f64 / 1e9) as f32;
    let pair = |figures: plimsoll_core::savings::Figures| [units(figures.cpu), units(figures.memory)];
    let used = |measured: u64, used: i128| {
        if measured == row.pods && row.pods > 0 { units(used) } else { f32::NAN }
    };
    Stored {
        at: at.as_second(),
        before: pair(row.before),
        now: pair(row.now),
        used: [used(row.measured.cpu, row.used.cpu), used(row.measured.memory, row.used.memory)],
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::pod::Workload;
    use plimsoll_core::savings::{Figures, Measured};

    use super::*;

    fn key(name: usize) -> WorkloadKey {
        let workload = Workload { group: String::new(), kind: "Pod".into(), name: name.to_string() };
        WorkloadKey { namespace: "shop".into(), workload: workload.into() }
    }

    fn survey(second: i64, sizes: impl Iterator<Item = i128>) -> Survey {
        let mut survey = Survey { taken: Timestamp::from_second(second).unwrap(), ..Survey::default() };
        for (index, cpu) in sizes.enumerate() {
            let before = Figures { cpu, memory: 0 };
            let measured = Measured { cpu: 1, memory: 0 };
            survey.savings.workloads.insert(key(index), Row { pods: 1, before, measured, ..Row::default() });
        }
        survey
    }

    #[test]
    fn the_largest_have_a_history() {
        let mut history = History::default();
        let many = || (0..WORKLOADS + 5).map(|index| i128::try_from(index).unwrap());
        for second in 0..3 {
            history.add(&survey(second, many()));
        }
        assert_eq!(history.len(), WORKLOADS);
        assert!(history.of(&key(4)).is_empty() && history.of(&key(5)).len() == 3);
        assert_eq!(history.of(&key(9))[2].used, [Some(0.0), None], "each resource on its own");
        // All the same: no more than there is room for, and those that have one keep it.
        history.add(&survey(3, many().map(|_| 7)));
        assert_eq!((history.len(), history.of(&key(5)).len(), history.of(&key(4)).len()), (WORKLOADS, 4, 0));
        history.add(&survey(4, [1].into_iter()));
        assert_eq!((history.len(), history.of(&key(0)).len()), (1, 1), "what is gone is forgotten");
        for second in 0..200 {
            history.add(&survey(second, [1].into_iter()));
        }
        assert_eq!(history.of(&key(0)).len(), KEPT);
    }
}
