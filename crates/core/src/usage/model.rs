//! How usage becomes a target: a profile's dynamic part, as numbers.

use thiserror::Error;

use crate::profile::{CpuSampleWeight, DynamicPolicy, MemorySamples};
use crate::resource::Resource;
use crate::usage::buckets::{Buckets, CPU, MEMORY};
use crate::usage::decay::{HalfLife, HalfLifeError, Moment, SECOND};
use crate::usage::histogram::EPSILON;

/// The least weight of a CPU sample, where requests are the weights.
pub const LEAST_CPU_WEIGHT: f64 = 0.1;

/// Requests above are no requests; 2^63 units is as much as a quantity can say.
const LARGEST_REQUEST: f64 = 9.3e18;

/// A profile's values that the model cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("spec.dynamic.halfLife.{resource}: {source}")]
pub struct ModelError {
    resource: Resource,
    source: HalfLifeError,
}

/// Everything that decides what samples become.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// For CPU.
    pub cpu: ResourceModel,
    /// For memory.
    pub memory: ResourceModel,
    /// What CPU samples weigh. Memory samples weigh 1.
    pub cpu_weight: CpuWeight,
    /// Which memory samples count.
    pub memory_samples: MemorySamples,
    /// Nanoseconds between scans, at least 1. An out-of-memory kill weighs as much as the scans of a day
    /// where each scan is a sample.
    pub scan_interval: i64,
    /// The share of the total that a first or last bucket must hold to bound an answer.
    pub epsilon: f64,
}

/// What is set for each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceModel {
    /// In which time a sample's weight halves.
    pub half_life: HalfLife,
    /// The percentile, 0 to 100, that is the target.
    pub percentile: u32,
}

/// What CPU samples weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuWeight {
    /// As many cores as the container originally requests, at least 0.1.
    Request,
    /// All the same.
    Fixed(f64),
}

impl Model {
    /// The model that a profile describes, for scans each minute.
    ///
    /// # Errors
    /// A half-life of more than a hundred years.
    pub fn from_policy(policy: &DynamicPolicy) -> Result<Self, ModelError> {
        let of = |resource, percentile| {
            let seconds = policy.half_life.get(&resource).copied().unwrap_or(86_400);
            let half_life = HalfLife::from_seconds(seconds);
            Ok(ResourceModel {
                half_life: half_life.map_err(|source| ModelError { resource, source })?,
                percentile: policy.percentile.get(&resource).copied().unwrap_or(percentile),
            })
        };
        Ok(Self {
            cpu: of(Resource::Cpu, 95)?,
            memory: of(Resource::Memory, 99)?,
            cpu_weight: match &policy.cpu_sample_weight {
                CpuSampleWeight::Request => CpuWeight::Request,
                CpuSampleWeight::Fixed(weight) => {
                    CpuWeight::Fixed(to_f64(weight.num()) / to_f64(weight.den()))
                }
            },
            memory_samples: policy.memory_samples,
            scan_interval: 60 * SECOND,
            epsilon: EPSILON,
        })
    }

    /// What a CPU sample of a container weighs that requests so many cores; no request counts as 0.
    pub fn weight_of_cpu(&self, request: Option<f64>) -> f64 {
        match self.cpu_weight {
            CpuWeight::Fixed(weight) => weight,
            CpuWeight::Request => request.filter(|r| is_amount(*r)).unwrap_or(0.0).max(LEAST_CPU_WEIGHT),
        }
    }

    /// What is set for a resource, and the buckets its values fall into; none for what is not measured.
    pub fn of(&self, resource: Resource) -> Option<(&ResourceModel, &'static Buckets)> {
        match resource {
            Resource::Cpu => Some((&self.cpu, &CPU)),
            Resource::Memory => Some((&self.memory, &MEMORY)),
            Resource::EphemeralStorage => None,
        }
    }
}

/// Whether a number can be a request in cores or bytes.
pub fn is_amount(value: f64) -> bool {
    (0.0..=LARGEST_REQUEST).contains(&value)
}

/// What all samples of one time have in common. Make one for each distinct time of a scan, not for each
/// container: it is here that the exponentials are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Nanoseconds since 1970.
    pub(super) nanos: i64,
    pub(super) cpu: Moment,
    pub(super) memory: Moment,
}

impl Scan {
    /// The scan at `nanos` nanoseconds since 1970.
    pub fn new(model: &Model, nanos: i64) -> Self {
        let cpu = Moment::new(nanos, model.cpu.half_life);
        let same = model.cpu.half_life == model.memory.half_life;
        let memory = if same { cpu } else { Moment::new(nanos, model.memory.half_life) };
        Self { nanos, cpu, memory }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a weight is needed to a few digits")]
fn to_f64(n: u128) -> f64 {
    n as f64
}
