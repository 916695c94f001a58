//! The rules that are compared.

use std::collections::BTreeMap;

use plimsoll_quantity::Ratio;

use crate::profile::{Profile, StaticPolicy};
use crate::resource::Resource;
use crate::usage::{Model, ModelError};

/// What a container requests when it is redeployed. All are rounded as admission rounds, and never above the original.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// What it always requested.
    Original,
    /// The original times a factor; a resource that is absent is left alone.
    Static {
        /// In (0, 1].
        factors: BTreeMap<Resource, Ratio>,
        /// Rounding and the least request.
        fixed: StaticPolicy,
    },
    /// A percentile of half-life histograms.
    HalfLife(Box<HalfLifePolicy>),
    /// A percentile of all that was measured in a time.
    Window(Window),
    /// The most that it will use until it is redeployed again: what nobody can know, as a yardstick.
    Oracle {
        /// Rounding and the least request.
        fixed: StaticPolicy,
    },
}

/// What a profile makes of recommendations.
#[derive(Clone, Debug, PartialEq)]
pub struct HalfLifePolicy {
    pub(super) profile: Profile,
    pub(super) model: Model,
}

impl HalfLifePolicy {
    /// What `spec.dynamic` of a profile does, with the rounding and minimum of its `spec.static`. The mode of the profile
    /// is not looked at: where there is no recommendation yet, the original holds.
    ///
    /// # Errors
    /// A half-life that the model cannot work with.
    pub fn of_profile(profile: &Profile) -> Result<Self, ModelError> {
        let model = Model::from_policy(&profile.dynamic)?;
        Ok(Self { profile: profile.clone(), model })
    }
}

/// Exact percentiles of a sliding time.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// How far back samples count, in nanoseconds; `i64::MAX`: all.
    pub span: i64,
    /// For CPU.
    pub cpu: Quantile,
    /// For memory.
    pub memory: Quantile,
    /// Rounding and the least request.
    pub fixed: StaticPolicy,
}

/// A percentile times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// 0 to 100; between two samples it is interpolated.
    pub percent: f64,
    /// What it is multiplied by.
    pub expansion: f64,
}
