use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::ParseQuantityError;
use crate::parse;

pub(crate) const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// 2⁶³ - 1 units: Kubernetes caps every value with a binary suffix here, silently.
pub(crate) const BINARY_CAP_NANOS: u128 = i64::MAX.unsigned_abs() as u128 * NANOS_PER_UNIT.unsigned_abs();

/// The family of suffixes a quantity is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of ten by letter: `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    DecimalSi,
    /// Powers of 1024: `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`. A value that is not whole, is below 1024 in
    /// magnitude, or is above the cap of 2⁶³ - 1 is printed as [`Format::DecimalSi`] instead.
    BinarySi,
    /// Powers of ten by exponent: `e3`, `e-6`.
    DecimalExponent,
}

/// An exact Kubernetes resource quantity.
///
/// The value is a whole number of nano-units (10⁻⁹) in an `i128`. Equality, order and hash look at the value
/// only: `1Gi`, `1024Mi` and `1073741824` are equal. [`Display`](std::fmt::Display) prints the canonical
/// text, or the text it was parsed from in those cases in which Kubernetes keeps it (`+1`, `007`, `1e03`).
///
/// ```
/// use plimsoll_quantity::{Format, Quantity};
///
/// let memory = Quantity::parse("1.5Gi")?;
/// assert_eq!(memory.value(), 1_610_612_736);
/// assert_eq!(memory.format(), Format::BinarySi);
/// assert_eq!(memory.to_string(), "1536Mi");
/// # Ok::<(), plimsoll_quantity::ParseQuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text as written, only where it is kept and differs from the canonical text.
    text: Option<Box<str>>,
}

impl Quantity {
    /// Zero, in [`Format::DecimalSi`].
    pub const ZERO: Quantity = Quantity::from_nanos(0, Format::DecimalSi);

    /// Parses a quantity as Kubernetes does: an optional sign, a decimal number and an optional suffix.
    ///
    /// A value finer than a nano-unit is rounded away from zero to the next one. A value with a binary suffix
    /// is capped at ±9223372036854775807. Blanks are not trimmed. Takes time linear in the length of the
    /// text, and allocates only to keep an unusual spelling.
    ///
    /// # Errors
    ///
    /// [`ParseQuantityError`] says which part of the text is wrong, or that the value is too large.
    pub fn parse(text: &str) -> Result<Quantity, ParseQuantityError> {
        parse::parse(text)
    }

    /// A quantity of `nanos` nano-units.
    pub const fn from_nanos(nanos: i128, format: Format) -> Quantity {
        Quantity { nanos, format, text: None }
    }

    /// A quantity of `milli` milli-units; `None` if it does not fit.
    pub const fn from_millis(milli: i128, format: Format) -> Option<Quantity> {
        match milli.checked_mul(NANOS_PER_MILLI) {
            Some(nanos) => Some(Quantity::from_nanos(nanos, format)),
            None => None,
        }
    }

    /// A quantity of `units` whole units; `None` if it does not fit.
    pub const fn from_units(units: i128, format: Format) -> Option<Quantity> {
        match units.checked_mul(NANOS_PER_UNIT) {
            Some(nanos) => Some(Quantity::from_nanos(nanos, format)),
            None => None,
        }
    }

    pub(crate) fn with_text(nanos: i128, format: Format, text: Option<Box<str>>) -> Quantity {
        Quantity { nanos, format, text }
    }

    pub(crate) fn kept_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The value in nano-units, exactly.
    pub const fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The family of suffixes this quantity is printed with.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The value in whole units, rounded away from zero.
    pub const fn value(&self) -> i128 {
        div_away(self.nanos, NANOS_PER_UNIT)
    }

    /// The value in milli-units, rounded away from zero.
    pub const fn milli_value(&self) -> i128 {
        div_away(self.nanos, NANOS_PER_MILLI)
    }

    /// Whether the value is zero.
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is above zero.
    pub const fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// Whether the value is below zero.
    pub const fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The sum, or `None` if it does not fit.
    ///
    /// The sum has the format of `self`, or of `other` if `self` is zero. No kept text survives.
    #[must_use]
    pub fn checked_add(&self, other: &Quantity) -> Option<Quantity> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Quantity::from_nanos(nanos, self.format_of_result(other)))
    }

    /// The difference, or `None` if it does not fit. Its format follows the rule of [`Self::checked_add`].
    #[must_use]
    pub fn checked_sub(&self, other: &Quantity) -> Option<Quantity> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Quantity::from_nanos(nanos, self.format_of_result(other)))
    }

    const fn format_of_result(&self, other: &Quantity) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    /// The same value, printed canonically in `format`; a kept text is forgotten.
    #[must_use]
    pub fn with_format(self, format: Format) -> Quantity {
        Quantity::from_nanos(self.nanos, format)
    }

    /// What [`Display`](std::fmt::Display) prints, as a `String`.
    pub fn canonical(&self) -> String {
        self.to_string()
    }
}

/// `a / b` rounded away from zero; `b` is one of the two constants above, so nothing overflows.
const fn div_away(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b == 0 { quotient } else { quotient + a.signum() }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for Quantity {
    type Error = ParseQuantityError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::parse(text)
    }
}
