//! The load of a node as annotations that Crane's scheduler reads: `cpu_usage_avg_1h: "0.30000,2026-03-01T18:00:00Z"`.
//!
//! The value is a share. The time is that of the zone in which Crane's scheduler runs, whatever the `Z` at its end may mean
//! elsewhere: it reads times in the zone of its variable `TZ`, and in that of Shanghai where there is none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::placement::{LoadSettings, Metric, NodeLoad};

/// Crane's name for how much was bound to a node of late: 10 points each are taken off.
const HOT: &str = "node_hot_value";
/// What changes by less is not worth a write.
const LITTLE: f64 = 0.01;
/// Crane believes a value for at least five minutes; it is written again in time.
const LONGEST: i64 = 180 * 1_000_000_000;

/// What a node is annotated with, by key, without the time.
pub type CraneValues = BTreeMap<String, f64>;

/// What was written on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct CraneWritten {
    /// By key.
    pub values: CraneValues,
    /// The time of the sample that they are of, in nanoseconds since 1970.
    pub sampled: i64,
}

/// The values for a node: the mean of each metric over each window, and how often so many pods as cost nothing were
/// bound to it.
pub fn crane_values(load: &NodeLoad, settings: &LoadSettings, hot: u32) -> CraneValues {
    let mut values = CraneValues::new();
    for (means, window) in load.means.iter().zip(&settings.windows) {
        for (metric, mean) in means.iter() {
            if let Some(mean) = mean.filter(|mean| mean.is_finite()) {
                values.insert(format!("{}_usage_avg_{}", name(metric), window.name), mean.clamp(0.0, 1.0));
            }
        }
    }
    values.insert(HOT.to_owned(), hot.into());
    values
}

/// As Crane calls it.
const fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Memory => "mem",
        other => other.name(),
    }
}

/// Whether values of a sample of that time (nanoseconds since 1970) have to be written: there are others, one has changed,
/// or the last ones get old. Without a newer sample there is nothing to say: Crane is to see that they get old.
pub fn crane_is_due(values: &CraneValues, written: Option<&CraneWritten>, sampled: i64) -> bool {
    let Some(written) = written else { return true };
    if sampled <= written.sampled {
        return false;
    }
    let same = |key: &String, value: f64| {
        written.values.get(key).is_some_and(|before| (before - value).abs() < LITTLE)
    };
    sampled.saturating_sub(written.sampled) >= LONGEST
        || values.len() != written.values.len()
        || values.iter().any(|(key, value)| !same(key, *value))
}

/// The annotations with values of the time `at`, in nanoseconds since 1970, for a scheduler whose clock is so many seconds
/// before UTC.
pub fn crane_annotations(values: &CraneValues, at: i64, offset: i32) -> BTreeMap<String, String> {
    let offset = Offset::from_seconds(offset).unwrap_or(Offset::UTC);
    let at = Timestamp::from_nanosecond(at.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    let time = offset.to_datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    values
        .iter()
        .map(|(key, value)| {
            let value = if key == HOT { format!("{value:.0}") } else { format!("{value:.5}") };
            (key.clone(), format!("{value},{time}"))
        })
        .collect()
}
