use std::error::Error;
use std::fmt::{self, Write as _};

/// How much of a wrong text an error shows.
const SHOWN_CHARS: usize = 48;

/// Why a text is not a [`Quantity`](crate::Quantity).
///
/// The text in a variant is an excerpt made for reading: control characters are escaped, and a long text is
/// cut and ends in `...`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseQuantityError {
    /// The text is empty.
    Empty,
    /// The text does not begin with a decimal number.
    InvalidNumber {
        /// The whole text, excerpted.
        text: String,
    },
    /// What follows the number is not a suffix.
    InvalidSuffix {
        /// The whole text, excerpted.
        text: String,
        /// What follows the number, excerpted.
        suffix: String,
    },
    /// The value does not fit in a signed 128-bit number of nano-units (about 1.7 × 10²⁹ units).
    TooLarge {
        /// The whole text, excerpted.
        text: String,
    },
}

impl ParseQuantityError {
    pub(crate) fn invalid_number(text: &str) -> Self {
        Self::InvalidNumber { text: excerpt(text) }
    }

    pub(crate) fn invalid_suffix(text: &str, suffix: &[u8]) -> Self {
        Self::InvalidSuffix { text: excerpt(text), suffix: excerpt(&String::from_utf8_lossy(suffix)) }
    }

    pub(crate) fn too_large(text: &str) -> Self {
        Self::TooLarge { text: excerpt(text) }
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("an empty text is not a quantity: write a number with an optional suffix, such as \"500m\" or \"1Gi\"")
            }
            Self::InvalidNumber { text } => write!(
                f,
                "\"{text}\" is not a quantity: it must begin with a decimal number, such as \"500m\" or \"1.5Gi\", without blanks"
            ),
            Self::InvalidSuffix { text, suffix } => write!(
                f,
                "\"{text}\" is not a quantity: \"{suffix}\" is no suffix; use one of n, u, m, k, M, G, T, P, E, Ki, Mi, \
                 Gi, Ti, Pi, Ei, an exponent such as e3, or none"
            ),
            Self::TooLarge { text } => {
                write!(f, "\"{text}\" is too large: a quantity must be below 1.7e29 in magnitude")
            }
        }
    }
}

impl Error for ParseQuantityError {}

/// The beginning of `text`, escaped, so that a message stays one short line whatever came in.
pub(crate) fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(SHOWN_CHARS) {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{}", c.escape_debug());
    }
    if chars.next().is_some() {
        out.push_str("...");
    }
    out
}
