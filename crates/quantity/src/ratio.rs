use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::error::excerpt;
use crate::wide;

/// Most digits on either side of the point in [`Ratio::parse_decimal`].
const MOST_DIGITS: usize = 18;

/// An exact ratio that is not negative, in lowest terms.
///
/// ```
/// use plimsoll_quantity::Ratio;
///
/// let factor = Ratio::parse_decimal("0.70")?;
/// assert_eq!((factor.num(), factor.den()), (7, 10));
/// assert_eq!(factor.to_string(), "0.7");
/// assert_eq!(Ratio::new(2, 6), Ratio::new(1, 3));
/// # Ok::<(), plimsoll_quantity::ParseRatioError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    num: u128,
    den: u128,
}

impl Ratio {
    /// 0.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };
    /// 1.
    pub const ONE: Ratio = Ratio { num: 1, den: 1 };

    /// `num / den` in lowest terms, or `None` if `den` is zero.
    pub const fn new(num: u128, den: u128) -> Option<Ratio> {
        if den == 0 {
            return None;
        }
        let divisor = gcd(num, den);
        Some(Ratio { num: num / divisor, den: den / divisor })
    }

    /// Parses plain decimal text: digits, and optionally a point and more digits. No sign, no exponent, at
    /// most 18 digits on either side of the point.
    ///
    /// # Errors
    ///
    /// [`ParseRatioError`] names the text and says what would be right.
    pub fn parse_decimal(text: &str) -> Result<Ratio, ParseRatioError> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !fraction.is_none_or(is_number) {
            return Err(ParseRatioError::NotADecimal { text: excerpt(text) });
        }
        let fraction = fraction.unwrap_or_default();
        if whole.len() > MOST_DIGITS || fraction.len() > MOST_DIGITS {
            return Err(ParseRatioError::TooManyDigits { text: excerpt(text) });
        }
        let mut num: u128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            num = num * 10 + u128::from(digit - b'0');
        }
        let den = fraction.bytes().fold(1, |den, _| den * 10);
        Ratio::new(num, den).ok_or_else(|| ParseRatioError::NotADecimal { text: excerpt(text) })
    }

    /// The numerator.
    pub const fn num(&self) -> u128 {
        self.num
    }

    /// The denominator; never zero.
    pub const fn den(&self) -> u128 {
        self.den
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Whether a division by `den` comes to an end in decimal.
fn is_decimal(mut den: u128) -> bool {
    den >>= den.trailing_zeros();
    while den.is_multiple_of(5) {
        den /= 5;
    }
    den == 1
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        wide::mul(self.num, other.den).cmp(&wide::mul(other.num, self.den))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The shortest decimal (`0.29`), or `num/den` if no decimal is exact (`1/3`).
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !is_decimal(self.den) {
            return write!(f, "{}/{}", self.num, self.den);
        }
        write!(f, "{}", self.num / self.den)?;
        let mut rest = self.num % self.den;
        if rest != 0 {
            f.write_str(".")?;
        }
        while rest != 0 {
            let (high, low) = wide::mul(rest, 10);
            let (digit, next) = wide::div(high, low, self.den).ok_or(fmt::Error)?;
            write!(f, "{digit}")?;
            rest = next;
        }
        Ok(())
    }
}

impl FromStr for Ratio {
    type Err = ParseRatioError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_decimal(text)
    }
}

/// Why a text is not a [`Ratio`]. The text in a variant is an excerpt, escaped and cut for reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseRatioError {
    /// The text is not digits with an optional fraction.
    NotADecimal {
        /// The whole text, excerpted.
        text: String,
    },
    /// More than 18 digits before or after the point.
    TooManyDigits {
        /// The whole text, excerpted.
        text: String,
    },
}

impl fmt::Display for ParseRatioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADecimal { text } => write!(
                f,
                "\"{text}\" is not a plain decimal number: write digits with an optional fraction, such as \"0.5\" or \
                 \"1\", without sign or exponent"
            ),
            Self::TooManyDigits { text } => write!(
                f,
                "\"{text}\" has too many digits: write at most {MOST_DIGITS} before and {MOST_DIGITS} after the point"
            ),
        }
    }
}

impl Error for ParseRatioError {}
