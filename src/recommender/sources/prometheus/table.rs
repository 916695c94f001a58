//! Points of many series, and how those of CPU and memory become samples.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::recommender::sources::{Sample, Sink, Skipped};

/// The names of a container, in one piece.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    text: Arc<str>,
    pod: usize,
    container: usize,
}

impl Key {
    fn new(namespace: &str, pod: &str, container: &str) -> Self {
        let text = [namespace, pod, container].concat();
        let at = namespace.len();
        Self { text: text.into(), pod: at, container: at + pod.len() }
    }

    fn parts(&self) -> (&str, &str, &str) {
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        (part(0..self.pod), part(self.pod..self.container), part(self.container..self.text.len()))
    }
}

/// A time in nanoseconds since 1970, and a value.
type Point = (i64, f64);

/// The series of one container.
#[derive(Debug)]
struct Series {
    key: Key,
    points: Range<usize>,
    /// Of further series with the same names.
    more: Vec<Range<usize>>,
}

/// The points of an answer, by container, in the order in which containers came.
#[derive(Debug, Default)]
pub(crate) struct Table {
    points: Vec<Point>,
    series: Vec<Series>,
    places: HashMap<Key, usize>,
    /// Where the points begin that belong to no series yet.
    open: usize,
}

impl Table {
    /// Adds a point to the series that is being read.
    pub(super) fn push(&mut self, nanos: i64, value: f64) {
        self.points.push((nanos, value));
    }

    /// How many points the series that is being read has.
    pub(super) fn pending(&self) -> usize {
        self.points.len() - self.open
    }

    /// Forgets the points of the series that is being read.
    pub(super) fn abandon(&mut self) {
        self.points.truncate(self.open);
    }

    /// Gives the points that were pushed since the last series to this one.
    pub(super) fn finish(&mut self, namespace: &str, pod: &str, container: &str) {
        let points = self.open..self.points.len();
        if points.is_empty() {
            return;
        }
        self.open = points.end;
        let key = Key::new(namespace, pod, container);
        let place = *self.places.entry(key.clone()).or_insert(self.series.len());
        match self.series.get_mut(place) {
            Some(series) => series.more.push(points),
            None => self.series.push(Series { key, points, more: Vec::new() }),
        }
    }

    fn slice(&self, range: &Range<usize>) -> &[Point] {
        self.points.get(range.clone()).unwrap_or_default()
    }

    /// The points of a series in rising time, one for each time; `scratch` is for those that are not so already.
    fn ordered<'t>(
        &'t self,
        series: Option<&Series>,
        scratch: &'t mut Vec<Point>,
        skipped: &mut Skipped,
    ) -> &'t [Point] {
        let Some(series) = series else { return &[] };
        let points = self.slice(&series.points);
        if series.more.is_empty() && points.is_sorted_by(|one, next| one.0 < next.0) {
            return points;
        }
        scratch.clear();
        scratch.extend_from_slice(points);
        for range in &series.more {
            scratch.extend_from_slice(self.slice(range));
        }
        let all = scratch.len();
        // The greatest of one time comes first, and stays.
        scratch.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
        scratch.dedup_by_key(|point| point.0);
        skipped.duplicate += u64::try_from(all - scratch.len()).unwrap_or(u64::MAX);
        scratch
    }
}

/// Delivers the samples of two tables, in rising time for each container; the result is their number. A value of
/// one table without one of the other at the same time is a sample with one value.
pub(crate) fn join(cpu: &Table, memory: &Table, skipped: &mut Skipped, sink: &mut Sink<'_>) -> u64 {
    let mut samples = 0;
    let (mut cpu_scratch, mut memory_scratch) = (Vec::new(), Vec::new());
    let mut both = |of_cpu: Option<&Series>, of_memory: Option<&Series>| {
        let Some(key) = of_cpu.or(of_memory).map(|series| &series.key) else { return };
        let cpu = cpu.ordered(of_cpu, &mut cpu_scratch, skipped);
        let memory = memory.ordered(of_memory, &mut memory_scratch, skipped);
        samples += merge(key, cpu, memory, sink);
    };
    for series in &cpu.series {
        let other = memory.places.get(&series.key).and_then(|place| memory.series.get(*place));
        both(Some(series), other);
    }
    for series in memory.series.iter().filter(|series| !cpu.places.contains_key(&series.key)) {
        both(None, Some(series));
    }
    samples
}

fn merge(key: &Key, mut cpu: &[Point], mut memory: &[Point], sink: &mut Sink<'_>) -> u64 {
    let (namespace, pod, container) = key.parts();
    let mut samples = 0;
    loop {
        let order = match (cpu.first(), memory.first()) {
            (Some(one), Some(other)) => one.0.cmp(&other.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return samples,
        };
        let of_cpu = if order.is_le() { cpu.split_off_first() } else { None };
        let of_memory = if order.is_ge() { memory.split_off_first() } else { None };
        let Some((nanos, _)) = of_cpu.or(of_memory).copied() else { return samples };
        samples += 1;
        let value = |point: Option<&Point>| point.map(|(_, value)| *value);
        let (cpu, memory) = (value(of_cpu), value(of_memory));
        sink(&Sample { namespace, pod, container, nanos, cpu, memory });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Found = (String, i64, Option<f64>, Option<f64>);

    fn table(series: &[(&str, &[Point])]) -> Table {
        let mut table = Table::default();
        for (pod, points) in series {
            points.iter().for_each(|(nanos, value)| table.push(*nanos, *value));
            table.finish("shop", pod, "app");
        }
        table
    }

    fn joined(cpu: &Table, memory: &Table) -> (Vec<Found>, Skipped) {
        let (mut found, mut skipped) = (Vec::new(), Skipped::default());
        let samples = join(cpu, memory, &mut skipped, &mut |sample: &Sample<'_>| {
            assert_eq!((sample.namespace, sample.container), ("shop", "app"));
            found.push((sample.pod.to_owned(), sample.nanos, sample.cpu, sample.memory));
        });
        assert_eq!(samples, found.len() as u64);
        (found, skipped)
    }

    #[test]
    fn values_of_one_container_and_time_are_one_sample() {
        type Points<'a> = &'a [(&'a str, &'a [Point])];
        type Samples<'a> = &'a [(&'a str, i64, Option<f64>, Option<f64>)];
        let cases: &[(&str, Points<'_>, Points<'_>, Samples<'_>, u64)] = &[
            ("both", &[("a", &[(1, 0.5)])], &[("a", &[(1, 9.0)])], &[("a", 1, Some(0.5), Some(9.0))], 0),
            ("only CPU", &[("a", &[(1, 0.5)])], &[], &[("a", 1, Some(0.5), None)], 0),
            ("only memory", &[], &[("a", &[(1, 9.0)])], &[("a", 1, None, Some(9.0))], 0),
            (
                "a hole is a hole, on either side",
                &[("a", &[(1, 0.1), (3, 0.3)])],
                &[("a", &[(1, 1.0), (2, 2.0), (4, 4.0)])],
                &[
                    ("a", 1, Some(0.1), Some(1.0)),
                    ("a", 2, None, Some(2.0)),
                    ("a", 3, Some(0.3), None),
                    ("a", 4, None, Some(4.0)),
                ],
                0,
            ),
            (
                "another pod is another container",
                &[("a", &[(1, 0.1)])],
                &[("b", &[(1, 2.0)])],
                &[("a", 1, Some(0.1), None), ("b", 1, None, Some(2.0))],
                0,
            ),
            (
                "of two series the greatest of a time counts",
                &[("a", &[(1, 0.1), (2, 0.9)]), ("b", &[(1, 1.0)]), ("a", &[(1, 0.3), (2, 0.2), (3, 0.4)])],
                &[],
                &[
                    ("a", 1, Some(0.3), None),
                    ("a", 2, Some(0.9), None),
                    ("a", 3, Some(0.4), None),
                    ("b", 1, Some(1.0), None),
                ],
                2,
            ),
            (
                "points out of order are put in order",
                &[("a", &[(3, 0.3), (1, 0.1), (1, 0.2)])],
                &[],
                &[("a", 1, Some(0.2), None), ("a", 3, Some(0.3), None)],
                1,
            ),
        ];
        for (rule, cpu, memory, expected, duplicates) in cases {
            let (found, skipped) = joined(&table(cpu), &table(memory));
            let expected: Vec<Found> = expected
                .iter()
                .map(|(pod, at, cpu, memory)| ((*pod).to_owned(), *at, *cpu, *memory))
                .collect();
            assert_eq!(found, expected, "{rule}");
            assert_eq!(skipped, Skipped { duplicate: *duplicates, ..Skipped::default() }, "{rule}");
        }
    }

    #[test]
    fn names_are_not_mixed_up() {
        let mut table = Table::default();
        for (namespace, pod, container) in [("a", "b", "cd"), ("a", "bc", "d"), ("ab", "", "cd")] {
            table.push(1, 1.0);
            table.finish(namespace, pod, container);
        }
        assert_eq!(table.series.len(), 3);
    }

    fn any_series() -> impl Strategy<Value = Vec<(usize, Vec<Point>)>> {
        let points = prop::collection::vec((0_i64..20, 0.0..10.0_f64), 0..12);
        prop::collection::vec((0_usize..3, points), 0..6)
    }

    proptest! {
        /// Each value that counts comes out once, at its time, and times rise.
        #[test]
        fn nothing_is_lost_or_made_up(cpu in any_series(), memory in any_series()) {
            let names = ["a", "b", "c"];
            let of = |series: &[(usize, Vec<Point>)]| {
                let named: Vec<_> = series.iter().map(|(pod, points)| (names[*pod], &points[..])).collect();
                table(&named)
            };
            let greatest = |series: &[(usize, Vec<Point>)]| {
                let mut all: HashMap<(String, i64), f64> = HashMap::new();
                for (pod, points) in series {
                    for (nanos, value) in points {
                        let known = all.entry((names[*pod].to_owned(), *nanos)).or_insert(*value);
                        *known = known.max(*value);
                    }
                }
                all
            };
            let (found, skipped) = joined(&of(&cpu), &of(&memory));
            let (mut of_cpu, mut of_memory) = (greatest(&cpu), greatest(&memory));
            let all: usize = cpu.iter().chain(&memory).map(|(_, points)| points.len()).sum();
            prop_assert_eq!(skipped.duplicate, (all - of_cpu.len() - of_memory.len()) as u64);
            let mut last: HashMap<String, i64> = HashMap::new();
            for (pod, nanos, cpu, memory) in found {
                prop_assert!(last.insert(pod.clone(), nanos).is_none_or(|last| last < nanos));
                prop_assert_eq!(of_cpu.remove(&(pod.clone(), nanos)), cpu);
                prop_assert_eq!(of_memory.remove(&(pod, nanos)), memory);
            }
            prop_assert!(of_cpu.is_empty() && of_memory.is_empty());
        }
    }
}
