//! Percent-encoding, as paths and queries have it.

use std::fmt::Write as _;

/// The text that was encoded; nothing if it is not encoded rightly, or is no UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let (high, low) = (hex(*after.first()?)?, hex(*after.get(1)?)?);
        bytes.push(high << 4 | low);
        rest = after.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The first value of a parameter of a query; `+` is a blank there.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    query?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |part: &str| decode(&part.replace('+', " "));
        (text(key)? == name).then(|| text(value))?
    })
}

/// A text as the value of a parameter.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("%2A", Some("*")),
            ("%2a", Some("*")),
            ("a%3Db%2cc", Some("a=b,c")),
            ("a+b", Some("a+b")),
            ("%", None),
            ("%2", None),
            ("%zz", None),
            ("%+1", None),
            ("%ff", None),
            ("%é1", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parameters_are_found() {
        let query = Some("labelSelector=app%3Dweb%2Ctier+in+%28a%29&limit=5&flag&limit=6");
        assert_eq!(parameter(query, "labelSelector").as_deref(), Some("app=web,tier in (a)"));
        assert_eq!(parameter(query, "limit").as_deref(), Some("5"));
        assert_eq!(parameter(query, "flag").as_deref(), Some(""));
        assert_eq!(parameter(query, "other"), None);
        assert_eq!(parameter(None, "limit"), None);
        let text = "app in (a, é),b=c&d";
        let query = format!("labelSelector={}", percent_encoded(text));
        assert_eq!(parameter(Some(&query), "labelSelector").as_deref(), Some(text));
    }
}
