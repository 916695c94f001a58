//! The state of a container's usage as text, to be kept over a restart.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::resource::Resource;
use crate::usage::buckets::{Buckets, CPU, MEMORY};
use crate::usage::container::Aggregate;
use crate::usage::decay::{DAY, FARTHEST, HalfLife, SECOND, timestamp_of};
use crate::usage::histogram::Histogram;
use crate::usage::model::Model;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// What the largest weight is stored as.
const LARGEST: u32 = 10_000;

/// Totals outside cannot come from samples; what is smaller is not worth keeping.
const TOTALS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// Why a checkpoint is not loaded. Nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// Written by another version of the program.
    #[error("version {found} is not known; version {VERSION} is read here")]
    Version {
        /// What it says.
        found: u32,
    },
    /// No state of this program looks like that.
    #[error("{path}: {reason}")]
    Impossible {
        /// The field.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn impossible(path: impl Into<String>, reason: impl Into<String>) -> CheckpointError {
    CheckpointError::Impossible { path: path.into(), reason: reason.into() }
}

/// A container's usage, compact: weights are whole numbers relative to the largest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// How often usage was taken.
    #[serde(default)]
    pub samples: u64,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sample: Option<String>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sample: Option<String>,
    /// Time of the last kill for memory that was taken, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_oom: Option<String>,
    /// Absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<HistogramCheckpoint>,
    /// Absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HistogramCheckpoint>,
}

/// One histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistogramCheckpoint {
    /// In seconds.
    pub half_life_seconds: i64,
    /// The time at which the weights are stated, RFC 3339.
    pub reference: String,
    /// The sum of the weights; text, so that no reader of numbers rounds it.
    pub total_weight: String,
    /// Weights relative to the largest, which is 10000: `8:7071 25:10000,20` says bucket 8 and buckets 25
    /// and 26.
    pub weights: String,
}

impl Checkpoint {
    /// The state of an aggregate that was made under a model.
    pub fn of(aggregate: &Aggregate, model: &Model) -> Self {
        let time = |nanos: i64| timestamp_of(nanos).to_string();
        Self {
            version: VERSION,
            samples: aggregate.samples,
            first_sample: aggregate.first.map(time),
            last_sample: aggregate.last.map(time),
            last_oom: aggregate.last_oom.map(time),
            cpu: HistogramCheckpoint::of(&aggregate.cpu, model.cpu.half_life),
            memory: HistogramCheckpoint::of(&aggregate.memory, model.memory.half_life),
        }
    }

    /// The aggregate, under a model whose half-lives may be others than those of the time of writing.
    ///
    /// # Errors
    /// It was written by another version, or says what cannot be.
    pub fn load(&self, model: &Model) -> Result<Aggregate, CheckpointError> {
        if self.version != VERSION {
            return Err(CheckpointError::Version { found: self.version });
        }
        let first = time_of(self.first_sample.as_deref(), "firstSample")?;
        let last = time_of(self.last_sample.as_deref(), "lastSample")?;
        let last_oom = time_of(self.last_oom.as_deref(), "lastOom")?;
        let sampled = self.samples > 0;
        if first.is_some() != sampled || last.is_some() != sampled {
            let reason =
                format!("{} samples, but the times of the first and the last say otherwise", self.samples);
            return Err(impossible("samples", reason));
        }
        if first > last {
            return Err(impossible("firstSample", "is later than lastSample"));
        }
        let load = |stored: &Option<HistogramCheckpoint>, resource: Resource, buckets, in_force| {
            stored.as_ref().map_or_else(
                || Ok(Histogram::new()),
                |stored| stored.load(resource.name(), buckets, in_force, last, last_oom),
            )
        };
        Ok(Aggregate {
            cpu: load(&self.cpu, Resource::Cpu, &CPU, model.cpu.half_life)?,
            memory: load(&self.memory, Resource::Memory, &MEMORY, model.memory.half_life)?,
            first,
            last,
            last_oom,
            samples: self.samples,
        })
    }
}

fn time_of(text: Option<&str>, path: &str) -> Result<Option<i64>, CheckpointError> {
    let Some(text) = text else { return Ok(None) };
    let nanos = nanos(text, path)?;
    if nanos.unsigned_abs() >= FARTHEST.unsigned_abs() {
        return Err(impossible(path, "is more than 146 years from 1970"));
    }
    Ok(Some(nanos))
}

fn nanos(text: &str, path: &str) -> Result<i64, CheckpointError> {
    let time: Result<Timestamp, _> = text.parse();
    time.ok()
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .ok_or_else(|| impossible(path, format!("{:?} is not a time of this age in RFC 3339", shown(text))))
}

impl HistogramCheckpoint {
    /// `None` for a histogram without weight.
    fn of(histogram: &Histogram, half_life: HalfLife) -> Option<Self> {
        let reference = histogram.reference_time(half_life)?;
        if !TOTALS.contains(&histogram.total()) {
            return None;
        }
        Some(Self {
            half_life_seconds: half_life.seconds(),
            reference: reference.to_string(),
            total_weight: format!("{:?}", histogram.total()),
            weights: text_of(&whole_numbers(histogram)),
        })
    }

    fn load(
        &self,
        resource: &str,
        buckets: &Buckets,
        in_force: HalfLife,
        last: Option<i64>,
        last_oom: Option<i64>,
    ) -> Result<Histogram, CheckpointError> {
        let path = |field: &str| format!("{resource}.{field}");
        let half_life = HalfLife::from_seconds(self.half_life_seconds)
            .map_err(|error| impossible(path("halfLifeSeconds"), error.to_string()))?;
        let reference = nanos(&self.reference, &path("reference"))?;
        let cell = half_life.cell_of(reference).ok_or_else(|| {
            impossible(path("reference"), "is not a whole number of half-lives after 0001-01-01T00:00:00Z")
        })?;
        let newest = last
            .max(last_oom)
            .ok_or_else(|| impossible(path("weights"), "there are weights, but neither samples nor kills"))?;
        // A window ends at most a day after its sample, and the reference is at most half a half-life later.
        if reference - newest > DAY + half_life.seconds() * SECOND {
            return Err(impossible(path("reference"), "is later than any sample can have set it"));
        }
        let total: f64 =
            self.total_weight.parse().ok().filter(|total| TOTALS.contains(total)).ok_or_else(|| {
                impossible(
                    path("totalWeight"),
                    format!("{:?} is not a positive sum of weights", shown(&self.total_weight)),
                )
            })?;
        let stored = weights_of(&self.weights, buckets.count())
            .map_err(|reason| impossible(path("weights"), reason))?;
        let sum: u64 = stored.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // At most 192 x 10000: exact.
        let unit = total / f64::from(u32::try_from(sum).unwrap_or(u32::MAX));
        let weights: Vec<_> =
            stored.iter().map(|(bucket, weight)| (*bucket, f64::from(*weight) * unit)).collect();
        let mut histogram = Histogram::from_parts(cell, total, &weights);
        histogram.change_half_life(half_life, in_force, last.unwrap_or(newest));
        Ok(histogram)
    }
}

/// Weights as whole numbers, the largest of them 10000. What is lost or gained by rounding in one bucket is
/// made up for in the next, so that sums, and with them percentiles, stay where they were.
fn whole_numbers(histogram: &Histogram) -> Vec<(usize, u32)> {
    let largest = histogram.weights().map(|(_, weight)| weight).fold(0.0, f64::max);
    let scale = f64::from(LARGEST) / largest;
    let mut carried = 0.0;
    let mut numbers = Vec::new();
    for (bucket, weight) in histogram.weights() {
        let number = if weight >= largest {
            LARGEST
        } else {
            let exact = weight * scale + carried;
            let number = rounded(exact);
            carried = exact - f64::from(number);
            number
        };
        if number > 0 {
            numbers.push((bucket, number));
        }
    }
    numbers
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held within 0 and 10000 before the cast"
)]
fn rounded(exact: f64) -> u32 {
    exact.round().clamp(0.0, f64::from(LARGEST)) as u32
}

fn text_of(numbers: &[(usize, u32)]) -> String {
    let mut text = String::new();
    let mut next = None;
    for (bucket, number) in numbers {
        // Writing to a string does not fail.
        let _ = match next {
            Some(next) if next == *bucket => write!(text, ",{number}"),
            Some(_) => write!(text, " {bucket}:{number}"),
            None => write!(text, "{bucket}:{number}"),
        };
        next = Some(bucket + 1);
    }
    text
}

fn weights_of(text: &str, count: usize) -> Result<Vec<(u16, u32)>, String> {
    let mut weights: Vec<(u16, u32)> = Vec::new();
    for run in text.split(' ') {
        let (first, numbers) =
            run.split_once(':').ok_or_else(|| format!("{:?} is not BUCKET:WEIGHT,...", shown(run)))?;
        let first: u16 = digits(first).ok_or_else(|| format!("{:?} is not a bucket", shown(first)))?;
        for (bucket, number) in (first..=u16::MAX).zip(numbers.split(',')) {
            let weight = digits(number).filter(|weight| (1..=LARGEST).contains(weight));
            let weight =
                weight.ok_or_else(|| format!("{:?} is not a weight from 1 to {LARGEST}", shown(number)))?;
            if usize::from(bucket) >= count {
                return Err(format!("bucket {bucket} is out of range; there are {count}"));
            }
            if weights.last().is_some_and(|(before, _)| *before >= bucket) {
                return Err(format!("bucket {bucket} does not come after the one before it"));
            }
            weights.push((bucket, weight));
        }
    }
    Ok(weights)
}

/// A number of digits only: no sign, no blank.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
