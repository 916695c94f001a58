//! The arithmetic of one request: rule, rounding, bounds.

use plimsoll_quantity::{Quantity, Ratio, Rounding, scale};

use crate::overcommit::bounds::round_up;
use crate::overcommit::reason::{Held, Kept, Rule, no_rule};
use crate::overcommit::{Lookup, PodBounds};
use crate::profile::{Mode, Profile, StaticPolicy};
use crate::resource::Resource;

/// The value a rule gives before rounding, in nano-units, and how to round it.
pub(super) struct Ruled {
    pub(super) rule: Rule,
    /// `None` where the rule gives at least the original.
    pub(super) wanted: Option<Wanted>,
}

/// An exact value: `nanos x ratio`.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) nanos: i128,
    pub(crate) ratio: Ratio,
}

/// Which rule of the profile holds for a container's request and what it gives.
pub(super) fn rule(
    profile: &Profile,
    lookup: &Lookup<'_>,
    container: &str,
    resource: Resource,
    original: i128,
) -> Ruled {
    let dynamic = matches!(profile.mode, Mode::Dynamic | Mode::StaticThenDynamic)
        && profile.dynamic.resources.contains(&resource);
    let mut missing = None;
    if dynamic {
        match lookup.find(profile, container, resource) {
            Ok(found) => {
                return from_sum(resource, found.name, Some(&found.target), found.expanded, original);
            }
            Err(why) => missing = Some(why),
        }
    }
    by_factor(profile, resource, original, missing)
}

/// The rule that is left where no recommendation is used.
pub(super) fn by_factor(
    profile: &Profile,
    resource: Resource,
    original: i128,
    missing: Option<&str>,
) -> Ruled {
    let factor = match profile.mode {
        Mode::Static | Mode::StaticThenDynamic => profile.fixed.factors.get(&resource),
        Mode::Off | Mode::Dynamic => None,
    };
    match factor {
        Some(factor) => Ruled {
            rule: Rule::Static { factor: *factor },
            wanted: Some(Wanted { nanos: original, ratio: *factor }),
        },
        None => Ruled { rule: Rule::Keep(no_rule(profile.mode, resource, missing)), wanted: None },
    }
}

/// A rule of recommendations, for one container or for the sum of a pod's.
pub(super) fn from_sum(
    resource: Resource,
    recommendation: String,
    target: Option<&Quantity>,
    expanded: i128,
    original: i128,
) -> Ruled {
    let shown = |nanos| Quantity::from_nanos(nanos, resource.format()).to_string();
    Ruled {
        rule: Rule::Dynamic {
            recommendation,
            target: target.map_or_else(|| shown(expanded), ToString::to_string),
            expanded: shown(round_up(expanded, resource.step())),
        },
        wanted: (expanded < original).then_some(Wanted { nanos: expanded, ratio: Ratio::ONE }),
    }
}

/// Rounds what a rule wants, caps it at the original, and holds it at the profile's minimum.
///
/// `direction` is `Down` for containers of a pod with a pod-level request, so that their sum stays below
/// it; a value that would become 0 is rounded up instead, since a request of 0 means none.
pub(crate) fn rounded(
    policy: &StaticPolicy,
    resource: Resource,
    wanted: Wanted,
    original: i128,
    direction: Rounding,
) -> Result<(i128, Option<Held>), Kept> {
    let unit = match resource {
        Resource::Memory => policy.rounding_memory,
        Resource::Cpu | Resource::EphemeralStorage => resource.step(),
    };
    let round = |direction| scale(wanted.nanos, &wanted.ratio, unit, direction).ok_or(Kept::TooLarge);
    let value = match round(direction)? {
        0 => round(Rounding::Up)?,
        value => value,
    };
    if value >= original {
        return Ok((original, Some(Held::Original)));
    }
    let minimum = policy.minimum.get(&resource).map_or(0, Quantity::nanos);
    if value < minimum {
        let held = round_up(minimum, resource.step()).min(original);
        let text = Quantity::from_nanos(minimum, resource.format()).to_string();
        let why = if held < original { Held::Minimum(text) } else { Held::BelowMinimum(text) };
        return Ok((held, Some(why)));
    }
    // A recommendation of 0 (an idle container) without a minimum still needs a request above 0.
    if value <= 0 {
        return Ok((resource.step().min(original), Some(Held::Minimum("1".to_owned()))));
    }
    Ok((value, None))
}

/// Raises a value to what `LimitRange`s of type Container ask, or leaves the original where that cannot
/// be met.
pub(super) fn within_container_bounds(
    bounds: &PodBounds<'_>,
    resource: Resource,
    value: i128,
    original: i128,
    limit: Option<i128>,
) -> Option<(i128, Held)> {
    within(bounds.container(resource, limit), resource, value, original, limit)
}

/// Raises `value` to `bound` if it is below it.
pub(super) fn within(
    bound: i128,
    resource: Resource,
    value: i128,
    original: i128,
    limit: Option<i128>,
) -> Option<(i128, Held)> {
    if value >= bound {
        return None;
    }
    let text = Quantity::from_nanos(bound, resource.format()).to_string();
    if bound > original || limit.is_some_and(|limit| bound > limit) {
        Some((original, Held::LimitRangeAboveOriginal(text)))
    } else {
        Some((bound, Held::LimitRange(text)))
    }
}
