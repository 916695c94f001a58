//! A histogram whose samples lose half of their weight with each half-life.

use crate::usage::buckets::Buckets;
use crate::usage::decay::{HalfLife, Moment, power_of_two, timestamp_of, to_f64};
use crate::usage::occupied::Occupied;

/// How many half-lives a sample may lie from the reference before the reference moves, or the sample is
/// dropped.
pub const REACH: i64 = 100;

/// The buckets that hold less than this share of the total at either end do not decide an answer.
pub const EPSILON: f64 = 1e-9;

/// Sums that differ by less than this share are equal: what is left over by rounding never decides.
const ROUNDING: f64 = 1e-12;

/// Weights outside are refused; 2^100 times the largest is still far from infinity.
const LARGEST_WEIGHT: f64 = 1e30;

/// A sample was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is more than 100 half-lives older than the reference, and weighs nothing.
    TooOld,
    /// Its value is negative or not a finite number, or its weight is not positive, finite and at most 1e30.
    Invalid,
}

/// Weights by bucket, stated at a reference time. It holds neither its buckets nor its half-life, which
/// are the same for all histograms of a resource: they are arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The buckets that have a weight.
    occupied: Occupied,
    /// Their weights, in the same order. A container soon has all the buckets it ever uses, so there is no
    /// room for more.
    weights: Box<[f64]>,
    /// The sum of all weights.
    total: f64,
    /// Whole half-lives since the origin, see [`Moment`]. Without meaning while there are no weights.
    reference: i64,
}

impl Histogram {
    /// A histogram without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// From the weights of buckets in rising order, stated at `reference`; `total` is taken as it is.
    pub(super) fn from_parts(reference: i64, total: f64, buckets: &[(u16, f64)]) -> Self {
        let mut occupied = Occupied::default();
        for (bucket, _) in buckets {
            occupied.insert(usize::from(*bucket));
        }
        let weights = buckets.iter().map(|(_, weight)| *weight).collect();
        Self { occupied, weights, total, reference }
    }

    /// Whether it holds nothing that could answer a question.
    pub fn is_empty(&self) -> bool {
        self.total <= 0.0
    }

    /// The sum of all weights at the reference.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The reference in half-lives since the origin; `None` before the first sample.
    pub(super) fn reference(&self) -> Option<i64> {
        (!self.weights.is_empty()).then_some(self.reference)
    }

    /// The time at which the weights are stated; `None` before the first sample.
    pub fn reference_time(&self, half_life: HalfLife) -> Option<jiff::Timestamp> {
        self.reference().map(|cell| timestamp_of(half_life.time_of(cell)))
    }

    /// The buckets that hold something, and how much.
    pub fn weights(&self) -> impl Iterator<Item = (usize, f64)> {
        self.occupied.iter().zip(self.weights.iter().copied()).filter(|(_, weight)| *weight > 0.0)
    }

    /// The bytes that it takes, in itself and on the heap.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[f64]>(&self.weights)
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// The sample cannot be taken; nothing has changed.
    pub fn add(&mut self, buckets: &Buckets, value: f64, weight: f64, at: Moment) -> Result<(), Refused> {
        check(value, weight)?;
        self.add_to(buckets.find(value), weight, at)
    }

    /// Adds a sample to a bucket that [`Buckets::find`] found.
    ///
    /// # Errors
    /// The sample cannot be taken; nothing has changed.
    pub fn add_to(&mut self, bucket: usize, weight: f64, at: Moment) -> Result<(), Refused> {
        check(0.0, weight)?;
        if self.weights.is_empty() {
            self.reference = at.nearest();
        } else if at.is_after(self.reference, REACH) {
            self.move_reference(at.nearest());
        } else if at.is_before(self.reference, REACH) {
            return Err(Refused::TooOld);
        }
        let weight = weight * at.weight_at(self.reference);
        match self.occupied.rank(bucket) {
            (rank, true) => {
                if let Some(slot) = self.weights.get_mut(rank) {
                    *slot += weight;
                }
            }
            (rank, false) => self.occupy(bucket, rank, weight),
        }
        self.total += weight;
        Ok(())
    }

    /// Looks at the weight of a bucket; for nothing but its being at hand then.
    pub fn touch(&self, bucket: usize) -> f64 {
        self.weights.get(self.occupied.rank(bucket).0).copied().unwrap_or(0.0)
    }

    /// Looks at the upper half of the weights, one in each line of the cache; for nothing but their being at hand
    /// then, where the usual percentiles are found.
    pub fn touch_upper(&self) -> f64 {
        self.weights.iter().rev().step_by(8).take(self.weights.len() / 16 + 1).sum()
    }

    /// Takes a sample back that was added before. A bucket is never left with less than nothing.
    ///
    /// # Errors
    /// The sample could not have been added; nothing has changed.
    pub fn subtract(
        &mut self,
        buckets: &Buckets,
        value: f64,
        weight: f64,
        at: Moment,
    ) -> Result<(), Refused> {
        check(value, weight)?;
        if self.weights.is_empty() || at.is_before(self.reference, REACH) {
            return Err(Refused::TooOld);
        }
        let weight = weight * at.weight_at(self.reference);
        let (rank, true) = self.occupied.rank(buckets.find(value)) else { return Ok(()) };
        let Some(slot) = self.weights.get_mut(rank) else { return Ok(()) };
        let rest = if *slot - weight > weight * ROUNDING { *slot - weight } else { 0.0 };
        let taken = *slot - rest;
        *slot = rest;
        let total = self.total - taken;
        // What is nearly all may be all: the difference of two large numbers is mostly rounding then.
        self.total = if total > self.total * 1e-3 { total } else { self.weights.iter().sum() };
        Ok(())
    }

    /// Adds all that another histogram of the same buckets and half-life holds.
    pub fn merge(&mut self, other: &Self) {
        let Some(reference) = other.reference() else { return };
        if self.weights.is_empty() {
            self.reference = reference;
        } else if reference > self.reference {
            self.move_reference(reference);
        }
        let scale = power_of_two(reference - self.reference);
        let union = self.occupied.union(other.occupied);
        if union != self.occupied {
            let mine = |bucket| match self.occupied.rank(bucket) {
                (rank, true) => self.weights.get(rank).copied().unwrap_or(0.0),
                (_, false) => 0.0,
            };
            self.weights = union.iter().map(mine).collect();
            self.occupied = union;
        }
        for (bucket, weight) in other.occupied.iter().zip(&other.weights) {
            let (rank, _) = union.rank(bucket);
            if let Some(slot) = self.weights.get_mut(rank) {
                *slot += weight * scale;
            }
        }
        self.total += other.total * scale;
    }

    /// States the weights at another reference, in half-lives since the origin. No answer changes, unless
    /// weights become so small that they vanish.
    pub(super) fn move_reference(&mut self, reference: i64) {
        self.scale(power_of_two(self.reference.saturating_sub(reference)));
        self.reference = reference;
    }

    /// Lets another half-life hold from now on. The weights are first stated at the new grid's point next
    /// to `last`, the time of the last sample in nanoseconds, as the old half-life has it.
    pub fn change_half_life(&mut self, old: HalfLife, new: HalfLife, last: i64) {
        if old == new || self.weights.is_empty() {
            return;
        }
        let reference = Moment::new(last, new).nearest();
        let apart = i128::from(old.time_of(self.reference)) - i128::from(new.time_of(reference));
        let apart = to_f64(i64::try_from(apart).unwrap_or(if apart < 0 { i64::MIN } else { i64::MAX }));
        // Held within what floats can carry on with; only a half-life of seconds could pass it.
        let half_lives = (apart / (to_f64(old.seconds()) * 1e9)).clamp(-300.0, 300.0);
        self.scale(half_lives.exp2());
        self.reference = reference;
    }

    fn scale(&mut self, factor: f64) {
        for weight in &mut self.weights {
            *weight *= factor;
        }
        self.total *= factor;
    }

    /// The value that a share `p` (0 to 1) of the weight does not exceed: the end of the first bucket where
    /// the sum reaches `p x total`, or where the last bucket begins. `None` without samples.
    ///
    /// The first and the last bucket that hold at least `epsilon x total` bound the answer; see [`EPSILON`].
    pub fn percentile(&self, buckets: &Buckets, p: f64, epsilon: f64) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let bounds = |weight: f64| weight >= epsilon * self.total && weight > 0.0;
        let slack = self.total * ROUNDING;
        let (mut weights, mut sum) = (self.weights.iter(), 0.0);
        // From the nearer end: most questions are about the upper one.
        let found = if p >= 0.5 {
            let above = (1.0 - p) * self.total + slack;
            self.occupied.falling().find_map(|bucket| {
                let weight = *weights.next_back()?;
                sum += weight;
                (sum > above).then_some((bucket, weight))
            })
        } else {
            let reach = p * self.total - slack;
            self.occupied.iter().find_map(|bucket| {
                let weight = *weights.next()?;
                sum += weight;
                (sum >= reach).then_some((bucket, weight))
            })
        };
        // A bucket that could be a bound is within the bounds.
        let bucket = match found {
            Some((bucket, weight)) if bounds(weight) => bucket,
            _ => {
                let mut bounding =
                    self.weights().filter(|(_, weight)| bounds(*weight)).map(|(bucket, _)| bucket);
                let lowest = bounding.next()?;
                let highest = bounding.last().unwrap_or(lowest);
                let beyond = if p >= 0.5 { lowest } else { highest };
                found.map_or(beyond, |(bucket, _)| bucket.clamp(lowest, highest))
            }
        };
        Some(buckets.end(bucket))
    }

    /// Makes room for a first weight of a bucket.
    fn occupy(&mut self, bucket: usize, rank: usize, weight: f64) {
        let (below, above) = self.weights.split_at(rank.min(self.weights.len()));
        self.weights = [below, &[weight], above].concat().into_boxed_slice();
        self.occupied.insert(bucket);
    }
}

fn check(value: f64, weight: f64) -> Result<(), Refused> {
    let good = value >= 0.0 && value.is_finite() && weight > 0.0 && weight <= LARGEST_WEIGHT;
    if good { Ok(()) } else { Err(Refused::Invalid) }
}
