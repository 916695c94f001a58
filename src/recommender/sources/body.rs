//! Bodies of answers, within a limit.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// More of a body that is an error is not read.
pub(crate) const ERROR_BYTES: usize = 64 * 1024;
/// No answer is waited for longer, whatever it says.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// So much of an answer is shown that is not what it should be.
const SHOWN: usize = 80;

/// Why there is no body.
pub(crate) enum NoBody<E> {
    /// It is longer than the limit.
    TooLarge,
    /// The connection broke.
    CutOff(E),
}

/// Reads a body to its end, but no more than `limit` bytes.
pub(crate) async fn collect<B>(mut body: B, limit: usize) -> Result<Vec<u8>, NoBody<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(NoBody::TooLarge);
    }
    let mut bytes = Vec::with_capacity(announced);
    while let Some(frame) = body.frame().await {
        // Trailers are of no matter.
        let Ok(data) = frame.map_err(NoBody::CutOff)?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(NoBody::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// What is there of a body that tells of an error.
pub(crate) async fn collect_error<B>(body: B) -> Vec<u8>
where
    B: Body<Data = Bytes> + Unpin,
{
    collect(body, ERROR_BYTES).await.unwrap_or_default()
}

/// For how long the server does not want to be asked. A date is taken by the server's own clock.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok();
    let retry = text(RETRY_AFTER)?.trim();
    let time =
        |text: &str| -> Option<Timestamp> { rfc2822::DateTimeParser::new().parse_timestamp(text).ok() };
    let seconds = if let Ok(seconds) = retry.parse() {
        seconds
    } else {
        let seconds = time(retry)?.as_second() - time(text(DATE)?)?.as_second();
        u64::try_from(seconds).unwrap_or(0)
    };
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

/// The first characters of an answer, on one line.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let head = body.get(..4 * SHOWN).unwrap_or(body);
    let text = String::from_utf8_lossy(head);
    let words: Vec<_> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() || head.len() < body.len() {
        shown.push_str("...");
    }
    if shown.is_empty() { "nothing".to_owned() } else { shown }
}

/// An error with its causes.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (rule, retry, date, expected) in [
            ("seconds", Some("7"), None, seconds(7)),
            ("at most an hour", Some("999999"), None, seconds(3600)),
            ("nothing", None, None, None),
            ("nonsense", Some("soon"), None, None),
            ("negative", Some("-1"), None, None),
            (
                "a date, by the server's clock",
                Some("Wed, 21 Oct 2015 07:28:30 GMT"),
                Some("Wed, 21 Oct 2015 07:28:00 GMT"),
                seconds(30),
            ),
            (
                "a date that has passed",
                Some("Wed, 21 Oct 2015 07:27:00 GMT"),
                Some("Wed, 21 Oct 2015 07:28:00 GMT"),
                seconds(0),
            ),
            ("a date without the server's clock", Some("Wed, 21 Oct 2015 07:28:30 GMT"), None, None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(RETRY_AFTER, retry), (DATE, date)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(retry_after(&headers), expected, "{rule}");
        }
    }

    #[test]
    fn excerpts_are_one_short_line() {
        let long = "é".repeat(1000);
        for (rule, body, expected) in [
            (
                "line ends and controls",
                "<html>\r\n  <body>\u{1b}[1m\0Sign in",
                "<html> <body> [1m Sign in".to_owned(),
            ),
            ("nothing", " \n", "nothing".to_owned()),
            ("long, and never half a character", &long, "é".repeat(SHOWN) + "..."),
        ] {
            assert_eq!(excerpt(body.as_bytes()), expected, "{rule}");
        }
    }
}
