//! What a recommendation gives for one container, without the rest of its pod.

use std::sync::Arc;

use plimsoll_quantity::{Ratio, Rounding};

use crate::objects::LimitRange;
use crate::overcommit::PodBounds;
use crate::overcommit::dynamic::expand;
use crate::overcommit::lower::{Wanted, rounded, within_container_bounds};
use crate::profile::Profile;
use crate::resource::Resource;

/// A container whose request is asked for. All figures are nano-units.
#[derive(Clone, Copy, Debug)]
pub struct Effective<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Of which resource.
    pub resource: Resource,
    /// The model's value.
    pub target: i128,
    /// The request that the pod's author wrote; none: it is not capped.
    pub original: Option<i128>,
    /// The limit.
    pub limit: Option<i128>,
    /// The `LimitRange`s of the namespace.
    pub limit_ranges: &'a [Arc<LimitRange>],
}

impl Effective<'_> {
    /// The request: target times expansion, plus margin, rounded up, at least the profile's minimum and what
    /// `LimitRange`s of type Container ask, at most the original. What depends on the whole pod (pod-level
    /// resources, `LimitRange`s of type Pod) is not in it. `None` for figures beyond all quantities.
    pub fn request(&self) -> Option<i128> {
        let original = self.original.unwrap_or(i128::MAX);
        let expanded = expand(&self.profile.dynamic, self.resource, self.target)?;
        if expanded >= original {
            return Some(original);
        }
        let wanted = Wanted { nanos: expanded, ratio: Ratio::ONE };
        let (value, _) = rounded(&self.profile.fixed, self.resource, wanted, original, Rounding::Up).ok()?;
        let bounds = PodBounds::new(self.limit_ranges);
        let held = within_container_bounds(&bounds, self.resource, value, original, self.limit);
        Some(held.map_or(value, |(held, _)| held))
    }
}
