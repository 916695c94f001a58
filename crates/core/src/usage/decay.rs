//! Time as decaying weights see it.
//!
//! A sample's weight doubles with each half-life that it is younger. Weights are stated at a *reference*
//! time, which is always a whole number of half-lives after 0001-01-01T00:00:00Z. The factor of a sample is
//! then a power of two for whole half-lives, which is exact and costs nothing, times a factor for the
//! rest, which is the same for all samples of one time whatever their references are.

use jiff::Timestamp;
use thiserror::Error;

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds in a day.
pub const DAY: i64 = 86_400 * SECOND;

/// Times further than this from 1970, in nanoseconds (146 years), are taken for nonsense.
pub const FARTHEST: i64 = i64::MAX / 2;

/// Half-lives longer than this, in seconds (a hundred years), are refused.
const LONGEST: i64 = 100 * 366 * 86_400;

/// 0001-01-01T00:00:00Z in nanoseconds since 1970; does not fit in 64 bits.
const ORIGIN: i128 = -62_135_596_800 * SECOND as i128;

/// A half-life that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a half-life of {seconds} s cannot be used; 1 s to 100 years (36600d) is right")]
pub struct HalfLifeError {
    seconds: i64,
}

/// The time in which the weight of a sample halves, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HalfLife {
    seconds: i64,
}

impl HalfLife {
    /// A day.
    pub const DAY: Self = Self { seconds: 86_400 };

    /// A half-life of so many seconds.
    ///
    /// # Errors
    /// Less than a second, or more than a hundred years.
    pub const fn from_seconds(seconds: i64) -> Result<Self, HalfLifeError> {
        if seconds < 1 || seconds > LONGEST { Err(HalfLifeError { seconds }) } else { Ok(Self { seconds }) }
    }

    /// In seconds.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    const fn nanos(self) -> i64 {
        // At most 100 years: fits.
        self.seconds * SECOND
    }

    /// The time, in nanoseconds since 1970, that lies `cell` half-lives after the origin.
    pub fn time_of(self, cell: i64) -> i64 {
        saturate(ORIGIN + i128::from(cell) * i128::from(self.nanos()))
    }

    /// How many half-lives after the origin a time lies; `None` if that is no whole number.
    pub fn cell_of(self, nanos: i64) -> Option<i64> {
        let since = i128::from(nanos) - ORIGIN;
        let half_life = i128::from(self.nanos());
        (since % half_life == 0).then(|| saturate(since / half_life))
    }
}

/// A point in time under a half-life: what all adds at that time have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Whole half-lives since the origin.
    cell: i64,
    /// Whether time has passed since then.
    beyond: bool,
    /// Whether the next whole half-life is as near as the last, or nearer.
    nearer_next: bool,
    /// 2^(the rest of a half-life), from 1 to below 2.
    factor: f64,
}

impl Moment {
    /// The moment of `nanos` nanoseconds since 1970. Times beyond [`FARTHEST`] are taken for it.
    pub fn new(nanos: i64, half_life: HalfLife) -> Self {
        let since = i128::from(nanos.clamp(-FARTHEST, FARTHEST)) - ORIGIN;
        let length = half_life.nanos();
        let rest = saturate(since.rem_euclid(i128::from(length)));
        Self {
            cell: saturate(since.div_euclid(i128::from(length))),
            beyond: rest > 0,
            nearer_next: rest >= length - rest,
            factor: (to_f64(rest) / to_f64(length)).exp2(),
        }
    }

    /// The reference that a histogram gets when this is its first sample: the nearest whole half-life, the
    /// later one of two.
    pub const fn nearest(self) -> i64 {
        if self.nearer_next { self.cell + 1 } else { self.cell }
    }

    /// Whether it lies more than `n` half-lives after a reference.
    pub const fn is_after(self, reference: i64, n: i64) -> bool {
        let whole = self.cell - reference;
        whole > n || (whole == n && self.beyond)
    }

    /// Whether it lies more than `n` half-lives before a reference.
    pub const fn is_before(self, reference: i64, n: i64) -> bool {
        reference - self.cell > n
    }

    /// What a sample at this time weighs, relative to one at the reference.
    pub fn weight_at(self, reference: i64) -> f64 {
        self.factor * power_of_two(self.cell - reference)
    }
}

/// 2^n; 0 or 2^1023 where a normal float cannot hold it.
pub(super) fn power_of_two(n: i64) -> f64 {
    match u64::try_from(n.min(1023).saturating_add(1023)) {
        Ok(exponent) => f64::from_bits(exponent << 52),
        Err(_) => 0.0,
    }
}

/// Nanoseconds since 1970, held within [`FARTHEST`].
pub fn nanos_of(time: Timestamp) -> i64 {
    saturate(time.as_nanosecond()).clamp(-FARTHEST, FARTHEST)
}

/// A time as a timestamp.
pub fn timestamp_of(nanos: i64) -> Timestamp {
    // All of i64 lies within what a timestamp can hold (the years -9999 to 9999).
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[expect(clippy::cast_precision_loss, reason = "a relative error of 1e-16 is far below what anybody sees")]
pub(super) fn to_f64(nanos: i64) -> f64 {
    nanos as f64
}
