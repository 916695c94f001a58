//! From a container's usage to a target, its bounds, and a request.

use plimsoll_quantity::{Quantity, Ratio, Rounding, scale};

use crate::overcommit::Effective;
use crate::profile::Profile;
use crate::resource::Resource;
use crate::usage::container::Aggregate;
use crate::usage::decay::{DAY, to_f64};
use crate::usage::model::{Model, is_amount};

/// Scans of a day; as many samples are a day's history.
const SAMPLES_OF_A_DAY: f64 = 1440.0;

/// Below this confidence, in days, there is no upper bound.
const LEAST_CONFIDENCE: f64 = 1.0 / 24.0;

/// What a container needs of a resource, in cores or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The profile's percentile.
    pub target: f64,
    /// The 50th percentile.
    pub lower: f64,
    /// The 95th percentile of CPU or 99th of memory, times 1 + 1 / confidence; none while there is less than
    /// an hour's history.
    pub upper: Option<f64>,
}

impl Aggregate {
    /// What the container needs of a resource; `None` where nothing was measured.
    pub fn estimate(&self, model: &Model, resource: Resource) -> Option<Estimate> {
        let (values, _) = model.of(resource)?;
        let high = if resource == Resource::Cpu { 95 } else { 99 };
        let confidence = self.confidence();
        let upper = self.percentile(model, resource, high)? * (1.0 + 1.0 / confidence);
        Some(Estimate {
            target: self.percentile(model, resource, values.percentile)?,
            lower: self.percentile(model, resource, 50)?,
            upper: (confidence >= LEAST_CONFIDENCE).then_some(upper),
        })
    }

    /// The value that so many percent (0 to 100) of the weight do not exceed.
    pub fn percentile(&self, model: &Model, resource: Resource, percent: u32) -> Option<f64> {
        let (_, buckets) = model.of(resource)?;
        self.histogram(resource)?.percentile(buckets, f64::from(percent) / 100.0, model.epsilon)
    }

    /// How many days of history there are, in time and in samples of one a minute, whichever is less.
    pub fn confidence(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return 0.0 };
        let samples = i64::try_from(self.samples).unwrap_or(i64::MAX);
        (to_f64(last - first) / to_f64(DAY)).min(to_f64(samples) / SAMPLES_OF_A_DAY)
    }
}

/// A model's value as a `Recommendation` states it: CPU up to whole milli-cores, memory up to whole bytes.
/// `None` for what is no amount of a resource.
pub fn stated(resource: Resource, value: f64) -> Option<Quantity> {
    let nanos = scale(nanos_of_amount(value)?, &Ratio::ONE, resource.step(), Rounding::Up)?;
    Some(Quantity::from_nanos(nanos, resource.format()))
}

/// The request that a target leads to under a profile: times expansion, plus margin, rounded up, at least
/// the profile's minimum, at most the original request if there is one. `None` if the target is no amount.
///
/// This is what admission does, but for `LimitRange`s and for targets that were stated in whole milli-cores.
pub fn request(
    profile: &Profile,
    resource: Resource,
    target: f64,
    original: Option<&Quantity>,
) -> Option<Quantity> {
    let container = Effective {
        profile,
        resource,
        target: nanos_of_amount(target)?,
        original: original.map(Quantity::nanos),
        limit: None,
        limit_ranges: &[],
    };
    Some(Quantity::from_nanos(container.request()?, resource.format()))
}

/// A measured amount as a quantity; `None` for what is negative, not a number, or beyond all quantities.
pub fn amount(resource: Resource, value: f64) -> Option<Quantity> {
    Some(Quantity::from_nanos(nanos_of_amount(value)?, resource.format()))
}

/// The nearest whole nano-unit: bucket ends such as 0.0205 are a little off in binary, on either side.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^63 units: fits")]
fn nanos_of_amount(value: f64) -> Option<i128> {
    is_amount(value).then(|| (value * 1e9).round() as i128)
}
