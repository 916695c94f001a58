//! From the past to a request.

use plimsoll_quantity::{Quantity, Ratio, Rounding};

use crate::overcommit::{Wanted, rounded};
use crate::profile::StaticPolicy;
use crate::resource::Resource;
use crate::simulate::history::Row;
use crate::simulate::policy::{HalfLifePolicy, Policy, Quantile, Window};
use crate::simulate::{Each, Units, nanos_per_unit, units, units_of_nanos};
use crate::usage::{Aggregate, Dropped, SECOND, Scan, Track, request};

/// A policy for one container, from one deployment to the next.
pub(super) enum Learner<'p> {
    Original,
    Static(&'p Policy),
    HalfLife(Box<Learnt<'p>>),
    Window(&'p Window),
    Oracle(&'p StaticPolicy),
}

/// What the model has seen of a container.
pub(super) struct Learnt<'p> {
    policy: &'p HalfLifePolicy,
    aggregate: Aggregate,
    track: Track,
    /// How many rows that was.
    rows: usize,
}

impl<'p> Learner<'p> {
    pub(super) fn new(policy: &'p Policy) -> Self {
        match policy {
            Policy::Original => Self::Original,
            Policy::Static { .. } => Self::Static(policy),
            Policy::HalfLife(policy) => Self::HalfLife(Box::new(Learnt {
                policy,
                aggregate: Aggregate::default(),
                track: Track::default(),
                rows: 0,
            })),
            Policy::Window(window) => Self::Window(window),
            Policy::Oracle { fixed } => Self::Oracle(fixed),
        }
    }

    /// The requests at `at` (nanoseconds since 1970) of a container whose rows before that time are `past`. Calls come in
    /// the order of time. `coming` are the rows until the next deployment: for the oracle's eyes only.
    pub(super) fn requests(
        &mut self,
        past: &[Row],
        coming: &[Row],
        at: i64,
        originals: Each<Option<Units>>,
    ) -> Each<Option<Units>> {
        if let Self::HalfLife(learnt) = self {
            learnt.follow(past);
        }
        Each::from_fn(|resource| {
            let original = originals.get(resource).copied().flatten()?;
            let wanted = match self {
                Self::Original => None,
                Self::Static(policy) => by_factor(policy, resource, original),
                Self::HalfLife(learnt) => learnt.request(at, resource, original),
                Self::Window(window) => window.request(past, at, resource, original),
                Self::Oracle(fixed) => coming
                    .iter()
                    .filter_map(|row| row.used(resource))
                    .max()
                    .and_then(|most| settle(fixed, resource, exactly(resource, most), original)),
            };
            Some(wanted.unwrap_or(original))
        })
    }
}

fn by_factor(policy: &Policy, resource: Resource, original: Units) -> Option<Units> {
    let Policy::Static { factors, fixed } = policy else { return None };
    let ratio = *factors.get(&resource)?;
    let nanos = i128::from(original) * nanos_per_unit(resource);
    settle(fixed, resource, Wanted { nanos, ratio }, original)
}

impl Learnt<'_> {
    fn follow(&mut self, past: &[Row]) {
        let model = &self.policy.model;
        let mut dropped = Dropped::default();
        for row in past.iter().skip(self.rows) {
            let scan = Scan::new(model, row.nanos);
            self.aggregate.observe(&mut self.track, model, &scan, row.usage, None, &mut dropped);
        }
        self.rows = past.len();
    }

    /// What admission would do at that time; `None` where it would leave the original.
    fn request(&self, at: i64, resource: Resource, original: Units) -> Option<Units> {
        let HalfLifePolicy { profile, model } = self.policy;
        let dynamic = &profile.dynamic;
        let (first, last) = (self.aggregate.first_sample()?, self.aggregate.last_sample()?);
        let usable = dynamic.resources.contains(&resource)
            && last.saturating_sub(first) / SECOND >= dynamic.minimum_history
            && at.saturating_sub(last) < dynamic.maximum_age.saturating_mul(SECOND);
        if !usable {
            return None;
        }
        let (values, _) = model.of(resource)?;
        let target = self.aggregate.percentile(model, resource, values.percentile)?;
        let most = i128::from(original) * nanos_per_unit(resource);
        let request =
            request(profile, resource, target, Some(&Quantity::from_nanos(most, resource.format())))?;
        Some(units_of_nanos(resource, request.nanos()).min(original))
    }
}

impl Window {
    fn request(&self, past: &[Row], at: i64, resource: Resource, original: Units) -> Option<Units> {
        let since = at.saturating_sub(self.span);
        let from = past.partition_point(|row| row.nanos < since);
        let quantile = if resource == Resource::Cpu { self.cpu } else { self.memory };
        let values = past.iter().skip(from).filter_map(|row| row.value(resource));
        let value = quantile.of(values.collect())? * quantile.expansion;
        settle(&self.fixed, resource, exactly(resource, units(resource, value)?), original)
    }
}

impl Quantile {
    /// The percentile of values, in a straight line between the two nearest; `None` without values.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of a list: positive, and far below 2^53"
    )]
    fn of(self, mut values: Vec<f64>) -> Option<f64> {
        let place = values.len().checked_sub(1)? as f64 * self.percent / 100.0;
        let (_, lower, above) = values.select_nth_unstable_by(place.floor() as usize, f64::total_cmp);
        let lower = *lower;
        let upper = above.iter().copied().min_by(f64::total_cmp).unwrap_or(lower);
        Some(lower + (upper - lower) * place.fract())
    }
}

fn exactly(resource: Resource, units: Units) -> Wanted {
    Wanted { nanos: i128::from(units) * nanos_per_unit(resource), ratio: Ratio::ONE }
}

/// Rounded as admission does it; `None` where that leaves the original.
fn settle(fixed: &StaticPolicy, resource: Resource, wanted: Wanted, original: Units) -> Option<Units> {
    let most = i128::from(original) * nanos_per_unit(resource);
    let (nanos, _) = rounded(fixed, resource, wanted, most, Rounding::Up).ok()?;
    Some(units_of_nanos(resource, nanos).min(original))
}
