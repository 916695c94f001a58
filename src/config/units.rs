//! Durations and sizes as they are written in configurations.

use std::time::Duration;

/// Reads a duration: an integer and `ms`, `s`, `m`, `h` or `d`. Nothing if it is none, or beyond a century.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    const CENTURY_MS: u64 = 100 * 366 * 86_400_000;
    let (number, unit) = split(text)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let total = number.checked_mul(milliseconds)?;
    (total <= CENTURY_MS).then(|| Duration::from_millis(total))
}

/// A duration in the largest unit that divides it, as [`duration`] reads it.
pub(crate) fn duration_text(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if milliseconds >= size && milliseconds.is_multiple_of(size) {
            return format!("{}{unit}", milliseconds / size);
        }
    }
    if milliseconds == 0 { "0s".to_owned() } else { format!("{milliseconds}ms") }
}

/// Reads a size in bytes: an integer, alone or with `Ki`, `Mi` or `Gi`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A size in the largest unit that divides it, as [`bytes`] reads it.
pub(crate) fn bytes_text(bytes: u64) -> String {
    for (unit, size) in [("Gi", 1_u64 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)] {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{}{unit}", bytes / size);
        }
    }
    bytes.to_string()
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let table = [
            ("500ms", Some(500)),
            ("0s", Some(0)),
            ("10s", Some(10_000)),
            ("007s", Some(7_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("8d", Some(691_200_000)),
            ("", None),
            ("10", None),
            ("s", None),
            ("5x", None),
            ("1.5s", None),
            ("-1s", None),
            ("+1s", None),
            (" 1s", None),
            ("1s ", None),
            ("1h30m", None),
            ("1S", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("40000d", None),
            ("١s", None),
        ];
        for (text, expected) in table {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        let table = [
            ("0", Some(0)),
            ("16Ki", Some(16_384)),
            ("7Mi", Some(7_340_032)),
            ("1Gi", Some(1_073_741_824)),
            ("16ki", None),
            ("16K", None),
            ("1.5Mi", None),
            ("Ki", None),
            ("", None),
            ("18446744073709551615Ki", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn texts_read_back() {
        for milliseconds in [0, 1, 999, 1_000, 61_000, 60_000, 3_600_000, 86_400_000] {
            let duration_in = Duration::from_millis(milliseconds);
            assert_eq!(duration(&duration_text(duration_in)), Some(duration_in));
        }
        for size in [0, 1, 1_023, 1_024, 1_536, 1 << 20, 1 << 31] {
            assert_eq!(bytes(&bytes_text(size)), Some(size));
        }
    }
}
