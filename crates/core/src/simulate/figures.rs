//! How well requests fitted.

use std::ops::AddAssign;

use crate::resource::Resource;
use crate::simulate::{Units, to_f64};
use crate::usage::SECOND;

/// Sums over all containers and the time that was measured, in units x nanoseconds: exact, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    requested: i128,
    original: i128,
    used: i128,
    slack: i128,
    above: i128,
    time: i128,
    time_above: i128,
    deployments: u64,
    deployments_above: u64,
}

impl Sums {
    /// Takes what was used, and for how long, while so much was requested.
    pub(super) fn measure(&mut self, request: Units, original: Units, used: Units, nanos: i64) {
        let [request, original, used, nanos] = [request, original, used, nanos].map(i128::from);
        self.requested += request * nanos;
        self.original += original * nanos;
        self.used += used * nanos;
        self.slack += (request - used).max(0) * nanos;
        self.above += (used - request).max(0) * nanos;
        self.time += nanos;
        if used > request {
            self.time_above += nanos;
        }
    }

    /// Ends a deployment whose sums these are.
    pub(super) const fn end_deployment(&mut self) {
        if self.time > 0 {
            self.deployments = 1;
            self.deployments_above = (self.time_above > 0) as u64;
        }
    }

    pub(super) fn figures(&self, resource: Resource) -> Option<Figures> {
        if self.time == 0 {
            return None;
        }
        let hour = 3600.0 * to_f64(SECOND.into());
        let unit = if resource == Resource::Cpu { 1e9 } else { 1_073_741_824.0 };
        let amount = |sum| to_f64(sum) / unit / hour;
        let share = |part: i128, of: i128| if of == 0 { 0.0 } else { to_f64(part) / to_f64(of) };
        Some(Figures {
            requested: amount(self.requested),
            original: amount(self.original),
            used: amount(self.used),
            of_original: share(self.requested, self.original),
            slack: share(self.slack, self.requested),
            hours: to_f64(self.time) / hour,
            time_above: share(self.time_above, self.time),
            above: amount(self.above),
            usage_above: share(self.above, self.used),
            deployments: self.deployments,
            deployments_above: self.deployments_above,
        })
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.requested += other.requested;
        self.original += other.original;
        self.used += other.used;
        self.slack += other.slack;
        self.above += other.above;
        self.time += other.time;
        self.time_above += other.time_above;
        self.deployments += other.deployments;
        self.deployments_above += other.deployments_above;
    }
}

/// How well the requests of a resource fitted what was used. Only time that was measured counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// What was requested, in core-hours or GiB-hours.
    pub requested: f64,
    /// What the originals requested, in the same unit.
    pub original: f64,
    /// What was used, in the same unit.
    pub used: f64,
    /// `requested` as a share of `original`.
    pub of_original: f64,
    /// What was requested and not used, as a share of `requested`.
    pub slack: f64,
    /// Container-hours that were measured.
    pub hours: f64,
    /// The share of `hours` in which usage was above the request.
    pub time_above: f64,
    /// Usage above the request, in core-hours or GiB-hours.
    pub above: f64,
    /// `above` as a share of `used`.
    pub usage_above: f64,
    /// Deployments of containers; with a redeployment each day: container-days.
    pub deployments: u64,
    /// Those in which usage was above the request at any time.
    pub deployments_above: u64,
}
