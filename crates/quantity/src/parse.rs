use crate::quantity::{BINARY_CAP_NANOS, NANOS_PER_UNIT};
use crate::{Format, ParseQuantityError, Quantity};

/// So many digits always fit in a `u64`, and only with so many does Kubernetes keep a decimal text.
const SHORT_DIGITS: usize = 18;

/// A value of so many decimal digits of nano-units cannot fit in 128 bits.
const TOO_MANY_DIGITS: i128 = 40;

/// A text cut into its parts; digits are ASCII.
struct Parts<'a> {
    /// `-`, `+` or nothing.
    sign: Option<u8>,
    /// Whether zeros stood before `whole`; they are not part of it.
    leading_zeros: bool,
    /// The digits before the point, from the first that is not zero.
    whole: &'a [u8],
    /// The digits after the point; `None` without a point.
    fraction: Option<&'a [u8]>,
    /// All that follows.
    suffix: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let (sign, rest) = match text.as_bytes() {
            [sign @ (b'-' | b'+'), rest @ ..] => (Some(*sign), rest),
            rest => (None, rest),
        };
        let (zeros, rest) = split_while(rest, |b| b == b'0');
        let (whole, rest) = split_while(rest, |b| b.is_ascii_digit());
        let (fraction, suffix) = match rest {
            [b'.', rest @ ..] => {
                let (fraction, rest) = split_while(rest, |b| b.is_ascii_digit());
                (Some(fraction), rest)
            }
            rest => (None, rest),
        };
        Self { sign, leading_zeros: !zeros.is_empty(), whole, fraction, suffix }
    }

    fn fraction(&self) -> &'a [u8] {
        self.fraction.unwrap_or_default()
    }

    fn has_digits(&self) -> bool {
        self.leading_zeros || !self.whole.is_empty() || !self.fraction().is_empty()
    }

    /// The number without its point; it has as many fraction digits as `fraction` has.
    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> + 'a {
        self.whole.iter().chain(self.fraction()).map(|b| b - b'0')
    }
}

enum Suffix {
    /// A power of ten by its letter.
    Si(i64),
    /// A power of ten by its exponent; `None` if the exponent does not fit.
    Exponent { power: Option<i64>, negative: bool },
    /// A power of two.
    Binary(u32),
}

impl Suffix {
    fn of(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"" => Self::Si(0),
            b"m" => Self::Si(-3),
            b"Ki" => Self::Binary(10),
            b"Mi" => Self::Binary(20),
            b"Gi" => Self::Binary(30),
            b"Ti" => Self::Binary(40),
            b"Pi" => Self::Binary(50),
            b"Ei" => Self::Binary(60),
            b"n" => Self::Si(-9),
            b"u" => Self::Si(-6),
            b"k" => Self::Si(3),
            b"M" => Self::Si(6),
            b"G" => Self::Si(9),
            b"T" => Self::Si(12),
            b"P" => Self::Si(15),
            b"E" => Self::Si(18),
            [b'e' | b'E', exponent @ ..] => return Self::of_exponent(exponent),
            _ => return None,
        })
    }

    fn of_exponent(text: &[u8]) -> Option<Self> {
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] | digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut magnitude: Option<i64> = Some(0);
        for digit in digits {
            let digit = i64::from(digit - b'0');
            magnitude = magnitude.and_then(|m| m.checked_mul(10)?.checked_add(digit));
        }
        let power = magnitude.map(|m| if negative { -m } else { m });
        Some(Self::Exponent { power, negative })
    }
}

pub(crate) fn parse(text: &str) -> Result<Quantity, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Empty);
    }
    let parts = Parts::of(text);
    let invalid_suffix = || {
        if parts.has_digits() && !parts.suffix.starts_with(b".") {
            ParseQuantityError::invalid_suffix(text, parts.suffix)
        } else {
            ParseQuantityError::invalid_number(text)
        }
    };
    let suffix = Suffix::of(parts.suffix).ok_or_else(invalid_suffix)?;

    let (magnitude, format) = match suffix {
        Suffix::Si(power) => (decimal_nanos(&parts, power), Format::DecimalSi),
        Suffix::Exponent { power: Some(power), .. } => {
            (decimal_nanos(&parts, power), Format::DecimalExponent)
        }
        // An exponent beyond 64 bits; Kubernetes takes it for no suffix at all.
        Suffix::Exponent { power: None, negative: false } if parts.digits().any(|d| d != 0) => {
            (None, Format::DecimalExponent)
        }
        Suffix::Exponent { power: None, .. } => return Err(invalid_suffix()),
        Suffix::Binary(shift) => {
            let magnitude = binary_nanos(&parts, shift);
            let below_one = magnitude != 0 && magnitude < NANOS_PER_UNIT.unsigned_abs();
            (Some(magnitude), if below_one { Format::DecimalSi } else { Format::BinarySi })
        }
    };
    if !parts.has_digits() && !digitless_is_zero(&suffix) {
        return Err(ParseQuantityError::invalid_number(text));
    }

    let nanos = magnitude
        .and_then(
            |m| if parts.sign == Some(b'-') { 0i128.checked_sub_unsigned(m) } else { m.try_into().ok() },
        )
        .ok_or_else(|| ParseQuantityError::too_large(text))?;
    let kept = is_unusual(&parts, &suffix) && is_kept(&parts, &suffix);
    Ok(Quantity::with_text(nanos, format, kept.then(|| text.into())))
}

/// A suffix without any digit (`m`, `Ki`, `e3`) is zero to Kubernetes as long as its 64-bit path takes it.
fn digitless_is_zero(suffix: &Suffix) -> bool {
    match *suffix {
        Suffix::Si(power) => power >= -9,
        Suffix::Exponent { power, .. } => power.is_some_and(|p| p >= -9),
        Suffix::Binary(shift) => shift <= 40,
    }
}

/// The number times 10^`power`, in nano-units, rounded up; `None` if it does not fit.
fn decimal_nanos(parts: &Parts<'_>, power: i64) -> Option<u128> {
    let fraction = parts.fraction();
    let scale = i128::from(power) + 9;
    if fraction.is_empty()
        && parts.whole.len() <= SHORT_DIGITS
        && let Ok(scale) = u32::try_from(scale)
        && scale <= 27
    {
        return u128::from(short_number(parts.whole)).checked_mul(10u128.checked_pow(scale)?);
    }

    // Zeros at either end carry no value, but any number of them may be written.
    let length = parts.whole.len() + fraction.len();
    let leading = parts.digits().take_while(|d| *d == 0).count();
    if leading == length {
        return Some(0);
    }
    let trailing = parts.digits().rev().take_while(|d| *d == 0).count();
    let significant = length - leading - trailing;

    // The value is `significant` digits times 10^shift nano-units.
    let shift = scale - len(fraction.len()) + len(trailing);
    let whole_digits = len(significant) + shift;
    if whole_digits >= TOO_MANY_DIGITS {
        return None;
    }
    let taken = usize::try_from(whole_digits).unwrap_or(0).min(significant);
    let mut nanos: u128 = 0;
    for digit in parts.digits().skip(leading).take(taken) {
        nanos = nanos.checked_mul(10)?.checked_add(u128::from(digit))?;
    }
    if taken < significant {
        // The last significant digit is not zero, so something finer than a nano-unit was dropped.
        return nanos.checked_add(1);
    }
    nanos.checked_mul(10u128.checked_pow(u32::try_from(shift).ok()?)?)
}

/// The number times 2^`shift`, in nano-units, rounded up and capped.
fn binary_nanos(parts: &Parts<'_>, shift: u32) -> u128 {
    let factor = NANOS_PER_UNIT.unsigned_abs() << shift;
    if parts.whole.len() > SHORT_DIGITS + 1 {
        return BINARY_CAP_NANOS;
    }
    let whole = parts.whole.iter().fold(0u128, |n, b| n * 10 + u128::from(b - b'0'));
    let nanos = whole.saturating_mul(factor).saturating_add(fraction_times(parts.fraction(), factor));
    nanos.min(BINARY_CAP_NANOS)
}

/// 0.`fraction` times `factor`, rounded up: long multiplication from the last digit, so that any number of
/// digits is exact. `factor` is at most 2⁶⁰ × 10⁹, which leaves room for the digit and the carry.
fn fraction_times(fraction: &[u8], factor: u128) -> u128 {
    let mut carry: u128 = 0;
    let mut inexact = false;
    for digit in fraction.iter().rev().skip_while(|b| **b == b'0') {
        carry += u128::from(digit - b'0') * factor;
        inexact |= !carry.is_multiple_of(10);
        carry /= 10;
    }
    carry + u128::from(inexact)
}

/// Whether Kubernetes keeps this text as it is written, because its number is canonical apart from the
/// spelling: no more than 18 digits, nothing to shorten, and the power a multiple of three.
fn is_kept(parts: &Parts<'_>, suffix: &Suffix) -> bool {
    if parts.whole.is_empty() {
        return false;
    }
    let fraction = parts.fraction();
    let length = parts.whole.len().saturating_add(fraction.len());
    let decimal = |power: i64| {
        if length > SHORT_DIGITS {
            return false;
        }
        let power = i128::from(power) - len(fraction.len());
        let shortens = length >= 3 && parts.digits().rev().take(3).all(|d| d == 0);
        power >= -9 && power % 3 == 0 && !shortens
    };
    match *suffix {
        Suffix::Si(power) => decimal(power),
        Suffix::Exponent { power, .. } => power.is_some_and(decimal),
        Suffix::Binary(shift) => {
            let most = match shift {
                10 => 11,
                20 => 8,
                30 => 5,
                40 => 2,
                _ => 0,
            };
            fraction.is_empty() && length <= most && !short_number(parts.whole).is_multiple_of(8)
        }
    }
}

/// Whether the spelling differs from the canonical one although the number does not.
fn is_unusual(parts: &Parts<'_>, suffix: &Suffix) -> bool {
    let spelled_exponent = || match parts.suffix {
        [b'e', b'-', digit, ..] | [b'e', digit, ..] => matches!(digit, b'0' | b'+'),
        _ => true,
    };
    parts.sign == Some(b'+')
        || parts.leading_zeros
        || parts.fraction.is_some()
        || (matches!(suffix, Suffix::Exponent { .. }) && spelled_exponent())
}

fn split_while(bytes: &[u8], accept: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| !accept(*b)).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// The value of at most 18 digits.
fn short_number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}

/// A length as a number that can be added to any exponent without overflow.
fn len(length: usize) -> i128 {
    i128::try_from(length).unwrap_or(i128::MAX)
}
