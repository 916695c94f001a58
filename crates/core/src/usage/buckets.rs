//! How values fall into buckets.

use std::sync::LazyLock;

use crate::usage::occupied::MOST;

/// CPU in cores: from 10 milli-cores, each bucket 5 % wider than the one before, to 1000 cores.
pub static CPU: LazyLock<Buckets> = LazyLock::new(|| resource(0.01, 1000.0));

/// Memory in bytes: from 10 MB, each bucket 5 % wider than the one before, to 1 TB.
pub static MEMORY: LazyLock<Buckets> = LazyLock::new(|| resource(1e7, 1e12));

/// A division of the values from 0 upwards into buckets. Bucket `n` holds the values from `start(n)` to
/// below `start(n + 1)`, the last one everything above.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    starts: Box<[f64]>,
    guess: Guess,
}

/// A bucket that is certainly not above the right one, and seldom more than one below.
#[derive(Clone, Debug, PartialEq)]
enum Guess {
    /// `value x per_unit` is the bucket.
    Linear { per_unit: f64 },
    /// The logarithm of `value x scale + 1` is the bucket. The upper bits of a float are its logarithm,
    /// coarsely, so they are the index of a table; it is fine enough for one start at most between two
    /// entries.
    Exponential { scale: f64, bits: u32, table: Box<[u16]> },
}

fn resource(first: f64, most: f64) -> Buckets {
    // The arguments are constants that tests look at: there is always a scheme.
    Buckets::exponential(first, 1.05, most)
        .unwrap_or(Buckets { starts: Box::new([0.0]), guess: Guess::Linear { per_unit: 0.0 } })
}

impl Buckets {
    /// The first bucket is `first` wide, each further one `ratio` times as wide as the one before, and the
    /// last one begins at or above `most`. `None` if these are not positive finite numbers, `ratio` is below 1.001, or there
    /// would be more than 192 buckets.
    pub fn exponential(first: f64, ratio: f64, most: f64) -> Option<Self> {
        let good = first > 0.0 && first.is_finite() && most > 0.0 && (1.001..=1e3).contains(&ratio);
        let growth = ratio - 1.0;
        let scale = growth / first;
        let count = (most * scale + 1.0).log(ratio).ceil() + 1.0;
        if !(good && to_usize(count) <= MOST) {
            return None;
        }
        let start = |n: usize| match n {
            0 => 0.0,
            1 => first,
            _ => first * (ratio.powf(to_f64(n)) - 1.0) / growth,
        };
        let starts: Box<[f64]> = (0..to_usize(count)).map(start).collect();
        let bits = (0..=10).find(|bits| 1.0 + 0.5_f64.powi(*bits) <= ratio).unwrap_or(10).unsigned_abs();
        let last = starts.last().copied().unwrap_or(0.0) * scale + 1.0;
        let table = (0..=key(last, bits))
            .map(|at| {
                let value = (edge(at, bits) - 1.0) / scale;
                // A little less, so that rounding never makes the guess too high.
                bucket_by_search(&starts, value * (1.0 - 1e-12))
            })
            .collect();
        Some(Self { starts, guess: Guess::Exponential { scale, bits, table } })
    }

    /// Buckets of one size up to `most`. `None` if these are not positive finite numbers, or there would be
    /// more than 192 buckets.
    pub fn linear(most: f64, size: f64) -> Option<Self> {
        let count = (most / size).ceil() + 1.0;
        let good = most > 0.0 && most.is_finite() && size > 0.0 && size.is_finite();
        if !(good && to_usize(count) <= MOST) {
            return None;
        }
        let starts = (0..to_usize(count)).map(|n| to_f64(n) * size).collect();
        // A little less, so that rounding never makes the guess too high.
        Some(Self { starts, guess: Guess::Linear { per_unit: (1.0 - 1e-12) / size } })
    }

    /// How many buckets there are; at least one.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Where bucket `n` begins; for a number that is too high, where the last one does.
    pub fn start(&self, n: usize) -> f64 {
        self.starts.get(n).or(self.starts.last()).copied().unwrap_or(0.0)
    }

    /// Where bucket `n` ends, that is, where the next one begins; for the last one, where it begins itself.
    pub fn end(&self, n: usize) -> f64 {
        self.start(n.saturating_add(1))
    }

    /// The bucket that holds `value`. Negative values and NaN have no bucket; asked nevertheless, the answer
    /// is the first.
    pub fn find(&self, value: f64) -> usize {
        let mut bucket = match &self.guess {
            Guess::Linear { per_unit } => to_usize(value * per_unit),
            Guess::Exponential { scale, bits, table } => {
                let entry = table.get(key(value.max(0.0) * scale + 1.0, *bits));
                entry.map_or(self.starts.len(), |bucket| usize::from(*bucket))
            }
        };
        // As likely as not; so it is an addition and not a jump that is guessed wrong half of the time.
        bucket += usize::from(self.starts.get(bucket + 1).is_some_and(|start| value >= *start));
        while self.starts.get(bucket + 1).is_some_and(|start| value >= *start) {
            bucket += 1;
        }
        bucket.min(self.starts.len() - 1)
    }
}

/// The exponent and the highest `bits` of the fraction of a number from 1 upwards, counted from 0.
fn key(x: f64, bits: u32) -> usize {
    let (upper, one) = (x.to_bits() >> (52 - bits), 1.0_f64.to_bits() >> (52 - bits));
    usize::try_from(upper.saturating_sub(one)).unwrap_or(usize::MAX)
}

/// The least number of that key.
fn edge(key: usize, bits: u32) -> f64 {
    f64::from_bits(1.0_f64.to_bits() + ((key as u64) << (52 - bits)))
}

fn bucket_by_search(starts: &[f64], value: f64) -> u16 {
    let bucket = starts.partition_point(|start| *start <= value).saturating_sub(1);
    u16::try_from(bucket).unwrap_or(u16::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "bucket numbers are small")]
fn to_f64(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast of a float saturates: too large means the last bucket, negative the first"
)]
fn to_usize(x: f64) -> usize {
    // Half of the range, so that the next number exists.
    (x as usize).min(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_values_are_found_at_the_first_guess() {
        for buckets in [&*CPU, &*MEMORY] {
            let Guess::Exponential { table, .. } = &buckets.guess else { panic!("not exponential") };
            assert!(table.len() < 500, "{}", table.len());
            let far = table.windows(2).filter(|pair| pair[1] - pair[0] > 1).count();
            assert_eq!(far, 0, "one step at most leads from a guess to the bucket");
        }
    }
}
