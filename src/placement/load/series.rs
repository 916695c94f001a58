//! Series that are about nodes.

use std::borrow::Cow;

use plimsoll_core::placement::{DropReason, Dropped, KnownNodes, NodeTimes, NodeValues};

use crate::recommender::sources::prometheus::{Series, read_answer};

/// Which node a series is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming<'r> {
    /// Labels in which it is looked for, in this order.
    pub(super) labels: &'r [String],
    pub(super) nodes: &'r KnownNodes,
}

impl Naming<'_> {
    fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|wanted| wanted == label)
    }
}

/// One value for each node.
pub(super) struct ValueSeries<'r> {
    pub(super) naming: Naming<'r>,
    /// The greatest value that can be true.
    pub(super) greatest: f64,
    pub(super) values: NodeValues,
    pub(super) dropped: Dropped,
    /// Of the series that is being read.
    pub(super) point: Option<f64>,
}

impl<'r> ValueSeries<'r> {
    pub(super) fn new(naming: Naming<'r>, greatest: f64) -> Self {
        Self { naming, greatest, values: NodeValues::default(), dropped: Dropped::default(), point: None }
    }
}

impl Series for ValueSeries<'_> {
    fn wanted(&self) -> usize {
        self.naming.labels.len()
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.naming.place(label)
    }

    fn point(&mut self, _: Option<i64>, value: Option<f64>) {
        self.point = value;
    }

    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]) {
        // Without a point it is a histogram, and no number.
        let value = self.point.take();
        match self.naming.nodes.first(labels) {
            Some(node) => self.values.put(node, value, self.greatest, &mut self.dropped),
            None => self.dropped.count(DropReason::UnknownNode),
        }
    }
}

/// What an answer of Prometheus says of each node: the values of a vector whose series name a node in one of `labels`.
/// What cannot be true, or is above `greatest`, is dropped and counted.
///
/// # Errors
/// It is no answer of Prometheus.
pub fn read_node_values(
    body: &[u8],
    labels: &[String],
    nodes: &KnownNodes,
    greatest: f64,
) -> Result<(NodeValues, Dropped), serde_json::Error> {
    let mut series = ValueSeries::new(Naming { labels, nodes }, greatest);
    read_answer(body, &mut series)?;
    Ok((series.values, series.dropped))
}

/// The time of each node's newest sample, as the value of a series.
pub(super) struct TimeSeries<'r> {
    pub(super) naming: Naming<'r>,
    pub(super) now: i64,
    pub(super) maximum_age: i64,
    pub(super) times: NodeTimes,
    pub(super) dropped: Dropped,
    /// Of the series that is being read: for which time it was evaluated, and its value.
    pub(super) point: Option<(Option<i64>, Option<f64>)>,
}

impl Series for TimeSeries<'_> {
    fn wanted(&self) -> usize {
        self.naming.labels.len()
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.naming.place(label)
    }

    fn point(&mut self, nanos: Option<i64>, value: Option<f64>) {
        self.point = Some((nanos, value));
    }

    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]) {
        let time = self.point.take().and_then(|(evaluated, value)| Some((evaluated?, nanos(value?)?)));
        let Some((evaluated, time)) = time else { return self.dropped.count(DropReason::NotANumber) };
        match self.naming.nodes.first(labels) {
            Some(node) => {
                self.times.put(node, time, evaluated, self.now, self.maximum_age, &mut self.dropped);
            }
            None => self.dropped.count(DropReason::UnknownNode),
        }
    }
}

/// Seconds since 1970 as nanoseconds, if they fit.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn nanos(seconds: f64) -> Option<i64> {
    let nanos = seconds * 1e9;
    (nanos.is_finite() && nanos.abs() < 9.2e18).then_some(nanos as i64)
}
