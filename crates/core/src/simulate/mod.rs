//! What requests, nodes and shortages a cluster would have had under other policies.
//!
//! A [`Cluster`] is made of the [`Series`] of its containers. Each container is redeployed at the same times, with the
//! request that a [`Policy`] makes of the samples before that time; the [`Outcome`] says how much was requested, how
//! much of it was not used, when usage was above it, and on how many nodes the containers would have run.
//!
//! Everything is a pure function of the series: what is compared was never more than a history. In particular a
//! container uses what it used, however little it was given.

mod cluster;
mod figures;
mod history;
mod learn;
mod nodes;
mod policy;
mod text;

pub use cluster::{Cluster, Options, Outcome, Period, SimulateError, Unrequested};
pub use figures::Figures;
pub use history::{Row, Series};
pub use nodes::{Node, Nodes, Worst};
pub use policy::{HalfLifePolicy, Policy, Quantile, Window};
pub use text::{HALF_LIFE_OPTIONS, NAMES, ParseError, parse};

use crate::resource::{Resource, UNIT};
use crate::usage::is_amount;

/// A value for CPU and one for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Each<T> {
    /// For CPU.
    pub cpu: T,
    /// For memory.
    pub memory: T,
}

impl<T> Each<T> {
    /// What a function makes of either.
    pub fn from_fn(mut of: impl FnMut(Resource) -> T) -> Self {
        Self { cpu: of(Resource::Cpu), memory: of(Resource::Memory) }
    }

    /// The value for a resource; `None` for those that are not simulated.
    pub const fn get(&self, resource: Resource) -> Option<&T> {
        match resource {
            Resource::Cpu => Some(&self.cpu),
            Resource::Memory => Some(&self.memory),
            Resource::EphemeralStorage => None,
        }
    }
}

/// An amount in whole nano-cores or bytes: sums of them are exact, so no figure depends on the order of containers.
pub type Units = i64;

/// How many nano-units of a quantity a unit has.
const fn nanos_per_unit(resource: Resource) -> i128 {
    match resource {
        Resource::Cpu => 1,
        Resource::Memory | Resource::EphemeralStorage => UNIT,
    }
}

/// Cores or bytes in units, to the nearest; `None` for what is no amount.
#[expect(clippy::cast_possible_truncation, reason = "the cast of a float saturates, far above what there is")]
pub fn units(resource: Resource, value: f64) -> Option<Units> {
    let factor = if resource == Resource::Cpu { 1e9 } else { 1.0 };
    is_amount(value).then(|| (value * factor).round() as Units)
}

/// Nano-units of a quantity in units, up to a whole one.
fn units_of_nanos(resource: Resource, nanos: i128) -> Units {
    let unit = nanos_per_unit(resource);
    let whole = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0);
    Units::try_from(whole).unwrap_or(Units::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "figures are read to a few digits")]
fn to_f64(n: i128) -> f64 {
    n as f64
}
