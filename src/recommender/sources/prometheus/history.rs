//! Usage of the past.
//!
//! It is asked for in pieces: some namespaces at a time if the queries say where namespaces go, and within them from
//! the oldest time to the newest. An answer is held in memory only until its samples are delivered. What the server, or the
//! limit on an answer, finds too much is asked for in halves: first of the namespaces, then of the time.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::client::{Ask, Query};
use super::queries::{Template, is_namespace, time};
use super::table::{Table, join};
use super::{Prometheus, PrometheusError};
use crate::cluster::backoff::Backoff;
use crate::recommender::sources::{Sample, Scan, Sink, Skipped};

/// Namespaces that are asked for together at first.
const TOGETHER: usize = 20;
/// Prometheus gives no more than 11,000 points of a series.
const MOST_STEPS: u64 = 10_000;
/// Most bytes of an answer. Its points take about as much once they are read.
const RANGE_BYTES: usize = 32 << 20;
/// How often a call is made that may work later.
const TRIES: u32 = 4;
/// So many parts may fail in a row before the rest is given up.
const FAILED_PARTS: u32 = 3;
/// So many calls may be too much in a row: enough to come from the first to one namespace and one point.
const TOO_MUCH: u32 = 13;
/// A `Retry-After` that is longer is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How far the history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Namespaces of which all is there, or has failed.
    pub namespaces_done: usize,
    /// Namespaces in all; 1 if the queries do not tell them apart.
    pub namespaces: usize,
    /// The time up to which those that are being loaded are there, in nanoseconds since 1970.
    pub until: i64,
    /// Samples delivered until now.
    pub samples: u64,
    /// How much of all namespaces and times was read, or has failed, in per cent.
    pub percent: u64,
}

/// The times of which there are points: whole multiples of the step.
#[derive(Clone, Copy, Debug)]
struct Grid {
    first: i64,
    step: i64,
    count: u64,
}

impl Grid {
    fn new(from: i64, to: i64, step: Duration) -> Self {
        // Prometheus counts milliseconds.
        let step = i64::try_from(step.as_millis().max(1)).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let ceiling = |nanos: i64| nanos.div_euclid(step) + i64::from(nanos.rem_euclid(step) != 0);
        let (first, last) = (ceiling(from), to.div_euclid(step));
        let count = u64::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(0);
        Self { first: first.saturating_mul(step), step, count }
    }

    fn at(&self, index: u64) -> i64 {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        self.first.saturating_add(index.saturating_mul(self.step))
    }

    /// How many steps a time is.
    fn steps_in(&self, time: Duration) -> u64 {
        let step = u128::try_from(self.step).unwrap_or(1).max(1);
        u64::try_from(time.as_nanos() / step).unwrap_or(u64::MAX).clamp(1, MOST_STEPS)
    }
}

/// Namespaces that are asked for together, and from where on.
#[derive(Clone, Debug)]
struct Group<'n> {
    /// None for all, where queries do not tell them apart.
    namespaces: Option<Vec<&'n str>>,
    at: u64,
    span: u64,
}

impl Group<'_> {
    fn len(&self) -> usize {
        self.namespaces.as_ref().map_or(1, Vec::len)
    }

    fn scope(&self) -> String {
        match self.namespaces.as_deref() {
            None => "history".to_owned(),
            Some([one]) => format!("history of namespace {one}"),
            Some([first, .., last]) => format!("history of {} namespaces, {first} to {last}", self.len()),
            Some([]) => "history of no namespace".to_owned(),
        }
    }

    fn query(&self, template: &Template) -> String {
        self.namespaces.as_ref().map_or_else(|| template.whole(), |namespaces| template.of(namespaces))
    }

    /// Leaves half of the namespaces to another group; none if there is only one.
    fn halve(&mut self) -> Option<Self> {
        let namespaces = self.namespaces.as_mut()?;
        if namespaces.len() < 2 {
            return None;
        }
        let rest = namespaces.split_off(namespaces.len() / 2);
        Some(Self { namespaces: Some(rest), ..*self })
    }
}

/// A load under way.
struct Load<'l> {
    source: &'l Prometheus,
    grid: Grid,
    wanted: HashSet<&'l str>,
    /// What is still to be asked for, the next one last.
    groups: Vec<Group<'l>>,
    scan: Scan,
    state: Progress,
    /// Steps of all namespaces that are done.
    steps_done: u64,
    /// Parts that failed since the last answer.
    failed_in_a_row: u32,
    /// Calls that were too much since the last answer.
    too_much_in_a_row: u32,
}

impl<'l> Load<'l> {
    fn new(source: &'l Prometheus, grid: Grid, wanted: &[&'l str]) -> Self {
        let span = grid.steps_in(source.options.history_chunk);
        let group = |namespaces| Group { namespaces, at: 0, span };
        let divisible = source.queries.are_divisible();
        let groups = if divisible {
            wanted.chunks(TOGETHER).rev().map(|some| group(Some(some.to_vec()))).collect()
        } else {
            vec![group(None)]
        };
        let namespaces = if divisible { wanted.len() } else { 1 };
        Self {
            source,
            grid,
            wanted: wanted.iter().copied().collect(),
            groups,
            scan: Scan::default(),
            state: Progress { namespaces_done: 0, namespaces, until: grid.first, samples: 0, percent: 0 },
            steps_done: 0,
            failed_in_a_row: 0,
            too_much_in_a_row: 0,
        }
    }

    /// Loads a group to its end, or until it fails.
    async fn group(
        &mut self,
        mut group: Group<'l>,
        sink: &mut Sink<'_>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) {
        while group.at < self.grid.count {
            let steps = group.span.min(self.grid.count - group.at);
            match self.source.chunk(&group, &self.grid, steps, &mut self.scan.skipped).await {
                Ok((cpu, memory)) => {
                    (self.failed_in_a_row, self.too_much_in_a_row) = (0, 0);
                    self.deliver(&cpu, &memory, sink);
                    group.at += steps;
                    self.count_steps(group.len(), steps);
                    self.state.until = self.grid.at(group.at - 1);
                    progress(self.state);
                }
                Err(error) if self.asks_for_less(&error, &mut group, steps) => {
                    tracing::debug!(%error, scope = group.scope(), span = group.span, "asking for less");
                }
                Err(error) => {
                    self.scan.failures.push(error.failure(&group.scope()));
                    self.failed_in_a_row += 1;
                    self.count_steps(group.len(), self.grid.count - group.at);
                    break;
                }
            }
        }
        self.state.namespaces_done += group.len();
    }

    fn count_steps(&mut self, namespaces: usize, steps: u64) {
        let times = |namespaces: usize, steps: u64| {
            steps.saturating_mul(u64::try_from(namespaces).unwrap_or(u64::MAX))
        };
        self.steps_done = self.steps_done.saturating_add(times(namespaces, steps));
        let all = times(self.state.namespaces, self.grid.count);
        self.state.percent = self.steps_done.saturating_mul(100).checked_div(all).unwrap_or(0).min(100);
    }

    fn deliver(&mut self, cpu: &Table, memory: &Table, sink: &mut Sink<'_>) {
        let mut samples = 0;
        let mut wanted = |sample: &Sample<'_>| {
            if self.wanted.contains(sample.namespace) {
                samples += 1;
                sink(sample);
            }
        };
        join(cpu, memory, &mut self.scan.skipped, &mut wanted);
        self.scan.samples += samples;
        self.state.samples = self.scan.samples;
    }

    /// Makes a group smaller where that could help; false if it could not.
    fn asks_for_less(&mut self, error: &PrometheusError, group: &mut Group<'l>, steps: u64) -> bool {
        if !error.wants_less() || self.too_much_in_a_row >= TOO_MUCH {
            return false;
        }
        self.too_much_in_a_row += 1;
        if let Some(rest) = group.halve() {
            self.groups.push(rest);
            return true;
        }
        group.span = steps / 2;
        group.span > 0
    }

    fn give_up(&mut self) {
        let left: usize = self.groups.drain(..).map(|group| group.len()).sum();
        if let Some(failure) = self.scan.failures.last_mut() {
            let _ = write!(failure.message, "; given up, without the history of {left} more namespaces");
        }
    }
}

impl Prometheus {
    /// Delivers the usage of these namespaces from `from` to `to`, in nanoseconds since 1970, in rising time for each
    /// container. A part that fails does not stop the others, unless several fail in a row.
    pub async fn history(
        &self,
        namespaces: &[String],
        from: i64,
        to: i64,
        sink: &mut Sink<'_>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Scan {
        let grid = Grid::new(from, to, self.options.history_step);
        let wanted: Vec<&str> = namespaces.iter().map(String::as_str).filter(|n| is_namespace(n)).collect();
        if grid.count == 0 || wanted.is_empty() {
            return Scan::default();
        }
        let mut load = Load::new(self, grid, &wanted);
        while let Some(group) = load.groups.pop() {
            load.group(group, sink, progress).await;
            if load.failed_in_a_row >= FAILED_PARTS && !load.groups.is_empty() {
                load.give_up();
            }
        }
        load.scan
    }

    /// Both queries for some namespaces and steps.
    async fn chunk(
        &self,
        group: &Group<'_>,
        grid: &Grid,
        steps: u64,
        skipped: &mut Skipped,
    ) -> Result<(Table, Table), PrometheusError> {
        let range = (grid.at(group.at), grid.at(group.at + steps - 1));
        let mut counted = Skipped::default();
        // One after the other: an answer is large while it is read.
        let cpu = self.range(&self.queries.cpu, group, grid, range, &mut counted).await?;
        let memory = self.range(&self.queries.memory, group, grid, range, &mut counted).await?;
        skipped.add(&counted);
        Ok((cpu, memory))
    }

    async fn range(
        &self,
        template: &Template,
        group: &Group<'_>,
        grid: &Grid,
        (start, end): (i64, i64),
        skipped: &mut Skipped,
    ) -> Result<Table, PrometheusError> {
        let parameters = [
            ("query", group.query(template)),
            ("start", time(start)),
            ("end", time(end)),
            ("step", time(grid.step)),
        ];
        let query = &template.query;
        let mut backoff = Backoff::new(self.options.first_pause, self.options.longest_pause);
        let mut tries = 1;
        loop {
            let result = self.ask(range_of(query, &parameters), skipped).await;
            let error = match result {
                Err(error) if error.is_temporary() && !error.wants_less() && tries < TRIES => error,
                result => return result,
            };
            let pause = backoff.pause().max(error.retry_after().unwrap_or_default());
            if pause > LONGEST_WAIT {
                return Err(error);
            }
            tracing::debug!(%error, ?pause, "history: asking again after a pause");
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }
}

fn range_of<'a>(query: &'a Query, parameters: &'a [(&'a str, String)]) -> Ask<'a> {
    Ask { query, endpoint: "query_range", parameters, limit: RANGE_BYTES, expected: "matrix" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn the_grid_is_of_whole_steps() {
        let seconds = Duration::from_secs;
        for (rule, from, to, step, first, count) in [
            ("both ends are on it", 600, 1200, seconds(300), 600, 3),
            ("neither is", 601, 1199, seconds(300), 900, 1),
            ("no point between", 601, 899, seconds(300), 900, 0),
            ("nothing", 1200, 600, seconds(300), 1200, 0),
            ("before 1970", -600, -1, seconds(300), -600, 2),
            ("a step of nothing is a millisecond", 1, 1, Duration::ZERO, 1, 1),
        ] {
            let grid = Grid::new(from * SECOND, to * SECOND, step);
            assert_eq!((grid.first, grid.count), (first * SECOND, count), "{rule}");
        }
        let grid = Grid::new(0, 86_400 * SECOND, seconds(300));
        assert_eq!(grid.steps_in(seconds(12 * 3600)), 144);
        assert_eq!(grid.steps_in(seconds(1)), 1, "never nothing");
        assert_eq!(grid.steps_in(seconds(365 * 86_400)), MOST_STEPS, "never more than the server gives");
    }
}
