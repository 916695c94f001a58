//! What a request asks for: the parts of its path, and its parameters.

use std::fmt::Write as _;

use super::Refusal;

/// The longest path or query that is read; no page has a longer one.
const LONGEST: usize = 4096;

/// The parts of a path between slashes, decoded.
///
/// # Errors
/// It is none that a page has: it is too long, empty parts, `..`, controls, or escapes that are no UTF-8.
pub(super) fn segments(path: &str) -> Result<Vec<String>, Refusal> {
    if path.len() > LONGEST {
        return Err(Refusal::bad("the address is too long; no page has one of more than 4096 letters"));
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/').map(segment).collect()
}

fn segment(raw: &str) -> Result<String, Refusal> {
    let text = decoded(raw, false)
        .ok_or_else(|| Refusal::bad("the address has an escape (%..) that is no text in UTF-8"))?;
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '\\']) {
        return Err(Refusal::bad(
            "the address has a part that no page has: an empty one, a dot, or a slash in it",
        ));
    }
    if text.contains(char::is_control) {
        return Err(Refusal::bad("the address holds a control character"));
    }
    Ok(text)
}

/// Undoes `%41`; `None` for escapes that are broken, or that are no UTF-8.
fn decoded(raw: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A text as a part of a path or a value of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The parameters of a request. An empty one is as good as none: forms send what was left blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// No parameter.
    pub(super) const EMPTY: Self = Self(Vec::new());

    /// Reads parameters, of which `known` are the ones that the page has.
    ///
    /// # Errors
    /// One is not known, is there twice, or is no text.
    pub(super) fn parse(text: &str, known: &[&str]) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal::bad("the parameters are too long; 4096 letters are read"));
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let both = decoded(key, true).zip(decoded(value, true));
            let (key, value) =
                both.ok_or_else(|| Refusal::bad("a parameter has an escape (%..) that is no text in UTF-8"))?;
            if key != REFRESH && !known.contains(&key.as_str()) {
                let names = if known.is_empty() { "none but refresh".to_owned() } else { known.join(", ") };
                return Err(Refusal::bad(&format!("this page has no parameter {key:?}; it has {names}")));
            }
            if pairs.iter().any(|(there, _)| *there == key) {
                return Err(Refusal::bad(&format!("parameter {key:?} is there twice; leave one out")));
            }
            if !value.is_empty() {
                pairs.push((key, value));
            }
        }
        Ok(Self(pairs))
    }

    /// A parameter, or an empty text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// One of some words; the first one where it is not given.
    ///
    /// # Errors
    /// It is another word.
    pub(super) fn word<'w>(&self, name: &str, words: &[&'w str]) -> Result<&'w str, Refusal> {
        let given = self.text(name);
        if given.is_empty() {
            return Ok(words.first().copied().unwrap_or_default());
        }
        words.iter().find(|word| **word == given).copied().ok_or_else(|| {
            let known: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
            Refusal::bad(&format!("{name} is {given:?}, but must be one of {}", known.join(", ")))
        })
    }

    /// Which page, from 1.
    ///
    /// # Errors
    /// It is no such number.
    pub(super) fn page(&self) -> Result<usize, Refusal> {
        let given = self.text("page");
        if given.is_empty() {
            return Ok(1);
        }
        let number = given.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| Refusal::bad(&format!("page is {given:?}, but must be a number from 1")))
    }

    /// Whether the page is to load itself again every 30 seconds.
    ///
    /// # Errors
    /// It asks for another time.
    pub(super) fn refreshes(&self) -> Result<bool, Refusal> {
        match self.text(REFRESH) {
            "" => Ok(false),
            "30" => Ok(true),
            other => {
                Err(Refusal::bad(&format!("refresh is {other:?}, but must be 30 (seconds), or left out")))
            }
        }
    }

    /// The address of the same page with some parameters set, or left out where empty.
    pub(super) fn with(&self, path: &str, changes: &[(&str, &str)]) -> String {
        let kept = self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let kept = kept.filter(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
        let pairs: Vec<String> = kept
            .chain(changes.iter().copied())
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
            .collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// The parameter that every page has.
pub(super) const REFRESH: &str = "refresh";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths() {
        for (rule, path, expected) in [
            ("root", "/", Some(vec![])),
            ("parts", "/workloads/shop/Deployment/web", Some(vec!["workloads", "shop", "Deployment", "web"])),
            ("slash at the end", "/quota/", Some(vec!["quota"])),
            ("escapes", "/workloads/a%3Ab/%C3%A4/x%2ey", Some(vec!["workloads", "a:b", "ä", "x.y"])),
            ("plus is plus", "/a+b", Some(vec!["a+b"])),
            ("up", "/workloads/../quota", None),
            ("up, escaped", "/workloads/%2e%2e/quota", None),
            ("here", "/./quota", None),
            ("two slashes", "//quota", None),
            ("slash, escaped", "/workloads/a%2Fb", None),
            ("backslash", "/workloads/a%5Cb", None),
            ("nul", "/quota%00", None),
            ("line feed", "/quota%0a", None),
            ("no UTF-8", "/workloads/%ff", None),
            ("half an escape", "/quota%2", None),
            ("no escape", "/quota%zz", None),
            ("signs are no digits", "/quota%+1", None),
        ] {
            let found = segments(path).ok();
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, expected, "{rule}");
        }
        assert!(segments(&format!("/{}", "a".repeat(LONGEST))).is_err());
    }

    #[test]
    fn parameters() {
        let query = Query::parse("q=a+b%26c&page=&sort=cpu", &["q", "page", "sort"]).unwrap();
        assert_eq!((query.text("q"), query.text("page"), query.text("none")), ("a b&c", "", ""));
        assert_eq!(query.page().unwrap(), 1);
        assert_eq!(query.word("sort", &["memory", "cpu"]).unwrap(), "cpu");
        assert_eq!(query.with("/w", &[("page", "2"), ("sort", "")]), "/w?q=a%20b%26c&page=2");
        assert_eq!(Query::default().with("/w", &[]), "/w");
        for (rule, text, part) in [
            ("unknown", "a=1", "has no parameter \"a\"; it has q, page"),
            ("twice", "q=1&q=2", "twice"),
            ("broken", "q=%f", "no text in UTF-8"),
            ("page of letters", "page=x", "number from 1"),
            ("page 0", "page=0", "number from 1"),
            ("page below", "page=-1", "number from 1"),
            ("page beyond", "page=99999999999999999999999", "number from 1"),
            ("refresh", "refresh=1", "must be 30"),
        ] {
            let read = Query::parse(text, &["q", "page"]);
            let error = read.and_then(|query| query.page().and_then(|_| query.refreshes())).unwrap_err();
            assert!(error.message.contains(part), "{rule}: {}", error.message);
        }
        assert!(Query::parse(&"q=1&".repeat(LONGEST), &["q"]).is_err());
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["", "web", "a/b?c&d=e#f", "<script>\"'", "ä\u{202e} %41+"] {
            assert_eq!(decoded(&encoded(text), true).as_deref(), Some(text));
        }
    }
}
