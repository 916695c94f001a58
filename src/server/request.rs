//! What a request's head says.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};

use super::Stage;
use super::status::Refusal;

/// Which review a request asks for, if it asks rightly.
pub(super) fn stage(head: &Parts) -> Result<Stage, Refusal> {
    let stage = match head.uri.path() {
        "/mutate" => Stage::Mutate,
        "/validate" => Stage::Validate,
        path => {
            let message = format!("no such path: {path:.200}; there are /mutate and /validate");
            return Err(Refusal::new(StatusCode::NOT_FOUND, message));
        }
    };
    if head.method != Method::POST {
        let message =
            format!("method {:.20} not allowed on {}; use POST", head.method.as_str(), head.uri.path());
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    if !is_json(&head.headers) {
        let message = "the Content-Type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(stage)
}

/// Whether the body is said to be JSON; parameters such as `charset=utf-8` are of no matter.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let media_type = value.split_once(';').map_or(value, |(media_type, _)| media_type);
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// How long the client waits for the answer, as its query says: `?timeout=10s`. What is not a positive duration is
/// as good as absent.
pub(super) fn timeout(head: &Parts) -> Option<Duration> {
    let query = head.uri.query()?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    go_duration(value).filter(|timeout| !timeout.is_zero())
}

/// A duration as Go prints it: decimal numbers with units, such as `1m30s` or `1.5s`.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 8] = [
        // Longer units stand before those that they begin like.
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("%C2%B5s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let mut rest = text;
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let (tail, unit) = UNITS.iter().find_map(|(unit, nanos)| Some((tail.strip_prefix(unit)?, *nanos)))?;
        nanos = nanos.checked_add(scale(number, unit)?)?;
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::from_nanos(nanos))
}

/// `number`, a decimal text, times `unit`, rounded down to a whole nanosecond.
fn scale(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        nanos = nanos.checked_add(place.checked_mul(u64::from(digit.to_digit(10)?))?)?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, uri: &str, content_type: Option<&str>) -> Parts {
        let mut builder = http::Request::builder().method(method).uri(uri);
        if let Some(content_type) = content_type {
            builder = builder.header(header::CONTENT_TYPE, content_type);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn routes() {
        const JSON: Option<&str> = Some("application/json");
        let rows = [
            ("mutate", "POST", "/mutate", JSON, Ok(Stage::Mutate)),
            ("validate", "POST", "/validate", JSON, Ok(Stage::Validate)),
            ("query", "POST", "/mutate?timeout=10s", JSON, Ok(Stage::Mutate)),
            ("parameters", "POST", "/mutate", Some("application/json; charset=utf-8"), Ok(Stage::Mutate)),
            ("case", "POST", "/mutate", Some("Application/JSON ;x=y"), Ok(Stage::Mutate)),
            ("GET", "GET", "/mutate", JSON, Err(405)),
            ("PUT", "PUT", "/validate", JSON, Err(405)),
            ("unknown path", "POST", "/", JSON, Err(404)),
            ("unknown path before method", "GET", "/other", None, Err(404)),
            ("trailing slash", "POST", "/mutate/", JSON, Err(404)),
            ("other type", "POST", "/mutate", Some("text/plain"), Err(415)),
            ("longer type", "POST", "/mutate", Some("application/jsonx"), Err(415)),
            ("YAML", "POST", "/mutate", Some("application/yaml"), Err(415)),
            ("empty type", "POST", "/mutate", Some(""), Err(415)),
            ("no type", "POST", "/mutate", None, Err(415)),
        ];
        for (rule, method, uri, content_type, want) in rows {
            let got = stage(&head(method, uri, content_type)).map_err(|refusal| refusal.code.as_u16());
            assert_eq!(got, want, "{rule}");
        }
    }

    #[test]
    fn timeouts() {
        let rows: [(&str, Option<u64>); 22] = [
            ("timeout=10s", Some(10_000_000)),
            ("timeout=500ms", Some(500_000)),
            ("timeout=1m30s", Some(90_000_000)),
            ("timeout=1h", Some(3_600_000_000)),
            ("timeout=1h2m3s4ms5us", Some(3_723_004_005)),
            ("timeout=1.5s", Some(1_500_000)),
            ("timeout=.5s", Some(500_000)),
            ("timeout=1.s", Some(1_000_000)),
            ("timeout=3%C2%B5s", Some(3)),
            ("x=1&timeout=2s&timeout=3s", Some(2_000_000)),
            ("timeout=0s", None),
            ("timeout=0", None),
            ("timeout=", None),
            ("timeout=10", None),
            ("timeout=s", None),
            ("timeout=.s", None),
            ("timeout=-1s", None),
            ("timeout=1.2.3s", None),
            ("timeout=1d", None),
            ("timeout=99999999999999999999h", None),
            ("timeout=9999999999h", None),
            ("nothing", None),
        ];
        for (query, want) in rows {
            let got = timeout(&head("POST", &format!("/mutate?{query}"), None));
            assert_eq!(got, want.map(Duration::from_micros), "{query}");
        }
    }

    #[test]
    fn a_long_path_is_not_repeated_in_full() {
        let refusal = stage(&head("POST", &format!("/{}", "x".repeat(10_000)), None)).unwrap_err();
        assert!(refusal.message.len() < 300);
    }
}
