//! Series that are about containers.

use std::borrow::Cow;

use super::answer::Series;
use super::table::Table;
use crate::recommender::sources::Skipped;

/// Which labels of a series name its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Of the namespace.
    pub namespace: String,
    /// Of the pod.
    pub pod: String,
    /// Of the container.
    pub container: String,
}

impl Default for Labels {
    fn default() -> Self {
        Self { namespace: "namespace".into(), pod: "pod".into(), container: "container".into() }
    }
}

/// Takes series into a table. What cannot be used is counted.
pub(super) struct Containers<'r> {
    pub(super) labels: &'r Labels,
    pub(super) table: &'r mut Table,
    pub(super) skipped: &'r mut Skipped,
    /// Points of the series that is being read; also those that cannot be used.
    pub(super) points: u64,
}

impl Series for Containers<'_> {
    fn wanted(&self) -> usize {
        3
    }

    fn place(&self, label: &str) -> Option<usize> {
        let Labels { namespace, pod, container } = self.labels;
        [namespace, pod, container].iter().position(|wanted| *wanted == label)
    }

    fn point(&mut self, nanos: Option<i64>, value: Option<f64>) {
        self.points += 1;
        let Some(value) = self.skipped.checked(value) else { return };
        match nanos {
            Some(nanos) => self.table.push(nanos, value),
            None => self.skipped.invalid += 1,
        }
    }

    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]) {
        let points = std::mem::take(&mut self.points);
        match labels {
            [Some(namespace), Some(pod), Some(container)] if self.table.pending() > 0 => {
                self.table.finish(namespace, pod, container);
            }
            // Points that were there and could not be used are counted already.
            [Some(_), Some(_), Some(_)] => self.skipped.no_value += u64::from(points == 0),
            _ => {
                self.table.abandon();
                self.skipped.missing_labels += 1;
            }
        }
    }
}
