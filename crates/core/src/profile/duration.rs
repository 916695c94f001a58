//! Durations as profiles write them: an integer and a unit.

use thiserror::Error;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a duration; write an integer and s, m, h or d, as in 24h")]
pub struct DurationError {
    text: String,
}

/// Seconds of a duration such as `90s`, `5m`, `24h` or `8d`.
///
/// # Errors
/// Anything else, also what does not fit in 64 bits of seconds.
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    let error = || DurationError { text: text.chars().take(40).collect() };
    let (digits, unit) =
        text.char_indices().last().map(|(at, unit)| (text.get(..at), unit)).ok_or_else(error)?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(error()),
    };
    let digits =
        digits.filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit())).ok_or_else(error)?;
    digits.parse::<i64>().ok().and_then(|count| count.checked_mul(seconds)).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations() {
        for (rule, text, expected) in [
            ("seconds", "90s", Some(90)),
            ("minutes", "5m", Some(300)),
            ("hours", "24h", Some(86_400)),
            ("days", "8d", Some(691_200)),
            ("zero", "0h", Some(0)),
            ("no unit", "24", None),
            ("no number", "h", None),
            ("empty", "", None),
            ("fraction", "1.5h", None),
            ("sign", "-1h", None),
            ("two units", "1h30m", None),
            ("blank", "1 h", None),
            ("unknown unit", "1w", None),
            ("too large", "9223372036854775807d", None),
            ("multi-byte unit", "1é", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected, "{rule}: {text:?}");
        }
    }
}
