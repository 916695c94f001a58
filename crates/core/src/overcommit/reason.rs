//! Why a request is what it is, in words.

use std::fmt;

use plimsoll_quantity::Ratio;

use crate::profile::Mode;
use crate::resource::Resource;

/// The rule that gave the value before bounds were applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Left as it was.
    Keep(Kept),
    /// Original times factor.
    Static {
        /// The factor.
        factor: Ratio,
    },
    /// Recommendation times expansion plus margin.
    Dynamic {
        /// Name of the `Recommendation`, or "containers" for a pod-level sum.
        recommendation: String,
        /// The model's target.
        target: String,
        /// After expansion and margin.
        expanded: String,
    },
}

/// Why a request was left as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// VPA set it.
    Vpa,
    /// It is not a quantity, or its limit is not.
    Unreadable(String),
    /// It is above its limit, so the API server will refuse the pod.
    AboveLimit,
    /// The container's name is empty or stands twice, so nothing could be recorded for it.
    Unnamed,
    /// The profile has neither a factor for it nor a usable recommendation.
    NoRule(String),
    /// Sums or products leave the range of a quantity.
    TooLarge,
    /// Lowering would break the pod-level request.
    PodLevel,
}

/// A bound that changed the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is not lowered at all: the rule gives at least the original.
    Original,
    /// The profile's minimum.
    Minimum(String),
    /// The original is at or below the profile's minimum.
    BelowMinimum(String),
    /// A `LimitRange` minimum or ratio for containers.
    LimitRange(String),
    /// A `LimitRange` bound above the original or the limit: the resource stays.
    LimitRangeAboveOriginal(String),
    /// A `LimitRange` for pods: the sum is too low, so this container gives some back.
    PodLimitRange(String),
    /// The pod-level request, which is what counts, is not lowered.
    WithPod,
    /// The pod-level request may not be below the sum of the containers.
    ContainerSum(String),
}

impl Rule {
    /// One word for metrics and the `applied` annotation.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Keep(_) => "kept",
            Self::Static { .. } => "static",
            Self::Dynamic { .. } => "dynamic",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(kept) => kept.fmt(f),
            Self::Static { factor } => write!(f, "static: x {factor}"),
            Self::Dynamic { recommendation, target, expanded } => {
                write!(f, "dynamic: {target} recommended by {recommendation}, {expanded} after expansion")
            }
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vpa => f.write_str("vpa: the Vertical Pod Autoscaler set it"),
            Self::Unreadable(text) => {
                write!(f, "{:?} is not a quantity", text.chars().take(40).collect::<String>())
            }
            Self::AboveLimit => f.write_str("it is above its limit"),
            Self::Unnamed => f.write_str("the container's name is empty or not unique"),
            Self::NoRule(why) => f.write_str(why),
            Self::TooLarge => f.write_str("the figures are too large"),
            Self::PodLevel => f.write_str("the containers would exceed the pod-level request"),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("not below the original: left as it was"),
            Self::Minimum(minimum) => write!(f, "not below the profile's minimum {minimum}"),
            Self::BelowMinimum(minimum) => {
                write!(f, "at or below the profile's minimum {minimum}: left as it was")
            }
            Self::LimitRange(bound) => write!(f, "raised to {bound} by a LimitRange"),
            Self::LimitRangeAboveOriginal(bound) => {
                write!(f, "a LimitRange asks for at least {bound}, which cannot be met: left as it was")
            }
            Self::PodLimitRange(bound) => {
                write!(f, "raised since a LimitRange asks {bound} of the whole pod")
            }
            Self::WithPod => f.write_str("left as it was, since the pod-level request is not lowered"),
            Self::ContainerSum(sum) => write!(f, "not below the containers' sum {sum}"),
        }
    }
}

/// Why no rule applies to a resource in a profile's mode.
pub(super) fn no_rule(mode: Mode, resource: Resource, dynamic: Option<&str>) -> Kept {
    Kept::NoRule(match dynamic {
        Some(why) if mode == Mode::Dynamic => {
            format!("no usable recommendation ({why}); mode Dynamic uses no factors")
        }
        Some(why) => format!("no usable recommendation ({why}) and no factor for {resource}"),
        None => format!("the profile has no factor for {resource}"),
    })
}
