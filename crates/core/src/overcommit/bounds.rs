//! What the `LimitRange`s of a namespace ask of requests.

use std::sync::Arc;

use plimsoll_quantity::{Ratio, Rounding, scale};

use crate::objects::{Bounds, LimitRange};
use crate::resource::{Resource, UNIT};

/// The bounds of all `LimitRange`s of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct PodBounds<'a> {
    ranges: &'a [Arc<LimitRange>],
}

impl<'a> PodBounds<'a> {
    /// The bounds that these ranges set together.
    pub const fn new(ranges: &'a [Arc<LimitRange>]) -> Self {
        Self { ranges }
    }

    /// The least request that every range of type Container allows, in nano-units; 0 if there is none.
    pub fn container(&self, resource: Resource, limit: Option<i128>) -> i128 {
        floor(self.ranges.iter().filter_map(|range| range.container.get(&resource)), resource, limit)
    }

    /// The least sum of requests that every range of type Pod allows, in nano-units; 0 if there is none.
    pub fn pod(&self, resource: Resource, limit: Option<i128>) -> i128 {
        floor(self.ranges.iter().filter_map(|range| range.pod.get(&resource)), resource, limit)
    }
}

/// The highest of the minima and of limit / ratio, up to whole milli-cores or bytes.
fn floor<'a>(bounds: impl Iterator<Item = &'a Bounds>, resource: Resource, limit: Option<i128>) -> i128 {
    let mut least = 0;
    for bound in bounds {
        if let Some(min) = &bound.min {
            least = least.max(min.nanos());
        }
        // Without a limit the API server refuses the pod by this rule whatever the request is.
        if let (Some(ratio), Some(limit)) = (&bound.max_ratio, limit)
            && let (Ok(numerator), Ok(denominator)) = (u128::try_from(UNIT), u128::try_from(ratio.nanos()))
            && let Some(inverse) = Ratio::new(numerator, denominator)
        {
            // Out of range means above every original, which leaves the resource as it is.
            least = least.max(scale(limit, &inverse, resource.step(), Rounding::Up).unwrap_or(i128::MAX));
        }
    }
    round_up(least, resource.step())
}

/// `nanos` up to a multiple of `unit`; the largest value if that does not fit.
pub(super) fn round_up(nanos: i128, unit: i128) -> i128 {
    scale(nanos, &Ratio::ONE, unit, Rounding::Up).unwrap_or(i128::MAX)
}
