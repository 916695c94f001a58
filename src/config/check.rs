//! Typed readers for untyped settings that note what is wrong and go on.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::error::{Origin, Violation};
use super::units;
use crate::input::kind_of;

/// Collects violations while settings are given their types.
///
/// Each reader answers with some value even when it notes a violation, so that the next setting is judged as
/// well; the whole result is thrown away when anything was noted.
pub(super) struct Check<'a> {
    origins: &'a BTreeMap<String, Origin>,
    violations: Vec<Violation>,
}

impl<'a> Check<'a> {
    pub(super) fn new(origins: &'a BTreeMap<String, Origin>) -> Self {
        Self { origins, violations: Vec::new() }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// How much was noted so far.
    pub(super) fn count_noted(&self) -> usize {
        self.violations.len()
    }

    /// Notes that a setting is wrong.
    pub(super) fn refuse(&mut self, path: &str, message: impl Into<String>) {
        let origin =
            self.origins.iter().find(|(leaf, _)| within(leaf, path)).map(|(_, origin)| origin.clone());
        let origin = origin.unwrap_or(Origin::Default);
        self.violations.push(Violation { path: path.to_owned(), message: message.into(), origin });
    }

    pub(super) fn text(&mut self, path: &str, value: &Value) -> String {
        match value {
            Value::String(text) if !text.is_empty() => text.clone(),
            other => {
                self.refuse(path, format!("{} is not a text of at least one character", shown(other)));
                String::new()
            }
        }
    }

    pub(super) fn file(&mut self, path: &str, value: &Value) -> PathBuf {
        match value {
            Value::String(text) if !text.is_empty() && !text.contains('\0') => PathBuf::from(text),
            other => {
                self.refuse(path, format!("{} is not the path of a file", shown(other)));
                PathBuf::new()
            }
        }
    }

    /// A setting that may be left out: null and the empty text mean absent.
    pub(super) fn optional<T>(
        &mut self,
        path: &str,
        value: &Value,
        read: impl FnOnce(&mut Self, &str, &Value) -> T,
    ) -> Option<T> {
        let absent = value.is_null() || value.as_str() == Some("");
        (!absent).then(|| read(self, path, value))
    }

    pub(super) fn flag(&mut self, path: &str, value: &Value) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.refuse(path, format!("{} is not true or false", shown(value)));
            false
        })
    }

    pub(super) fn count(&mut self, path: &str, value: &Value, range: RangeInclusive<u64>) -> usize {
        let read = value.as_u64().filter(|number| range.contains(number));
        read.and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| {
            let (low, high) = range.into_inner();
            self.refuse(path, format!("{} is not an integer from {low} to {high}", shown(value)));
            0
        })
    }

    /// A number, not only a whole one.
    pub(super) fn number(&mut self, path: &str, value: &Value, range: RangeInclusive<f64>) -> f64 {
        let read = value.as_f64().filter(|number| range.contains(number));
        read.unwrap_or_else(|| {
            let (low, high) = range.into_inner();
            self.refuse(path, format!("{} is not a number from {low} to {high}", shown(value)));
            low
        })
    }

    /// Weights by name: a mapping whose keys `read` understands, or says what would be right. At least one of them is
    /// above 0, unless the mapping is empty and may be.
    pub(super) fn weights<K>(
        &mut self,
        path: &str,
        value: &Value,
        may_be_empty: bool,
        mut read: impl FnMut(&str) -> Result<K, String>,
    ) -> Vec<(K, f64)> {
        const GREATEST: f64 = 1e6;
        let Value::Object(fields) = value else {
            self.refuse(path, format!("{} is not a mapping of names to weights", shown(value)));
            return Vec::new();
        };
        let noted = self.count_noted();
        let mut weights = Vec::with_capacity(fields.len());
        for (name, weight) in fields {
            let path = format!("{path}.{name}");
            let weight = self.number(&path, weight, 0.0..=GREATEST);
            match read(name) {
                Ok(key) => weights.push((key, weight)),
                Err(right) => self.refuse(&path, right),
            }
        }
        let counts = weights.iter().any(|(_, weight)| *weight > 0.0);
        if self.count_noted() == noted && !counts && !(may_be_empty && weights.is_empty()) {
            self.refuse(path, "has no weight above 0; at least one is needed");
        }
        weights
    }

    pub(super) fn duration(
        &mut self,
        path: &str,
        value: &Value,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(duration) = value.as_str().and_then(units::duration) else {
            let message =
                format!("{} is not a duration; write an integer and s, m, h or d, as in 10s", shown(value));
            self.refuse(path, message);
            return Duration::ZERO;
        };
        if !range.contains(&duration) {
            let (low, high) = range.into_inner();
            let (low, high) = (units::duration_text(low), units::duration_text(high));
            self.refuse(
                path,
                format!("{} is out of range; write a duration from {low} to {high}", shown(value)),
            );
        }
        duration
    }

    pub(super) fn bytes(&mut self, path: &str, value: &Value, range: RangeInclusive<u64>) -> usize {
        let size = value.as_u64().or_else(|| value.as_str().and_then(units::bytes));
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            let message =
                format!("{} is not a size; write an integer and Ki, Mi or Gi, as in 16Ki", shown(value));
            self.refuse(path, message);
            return 0;
        };
        if !range.contains(&(size as u64)) {
            let (low, high) = range.into_inner();
            let (low, high) = (units::bytes_text(low), units::bytes_text(high));
            self.refuse(path, format!("{} is out of range; write a size from {low} to {high}", shown(value)));
        }
        size
    }

    pub(super) fn address(&mut self, path: &str, value: &Value) -> SocketAddr {
        value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let right = "write an IP address and a port, as in 0.0.0.0:8443 or [::]:8443";
            self.refuse(path, format!("{} is not an address; {right}", shown(value)));
            SocketAddr::from(([0, 0, 0, 0], 0))
        })
    }

    /// One of a few words; letter case does not matter.
    pub(super) fn choice<T: Copy>(
        &mut self,
        path: &str,
        value: &Value,
        choices: &[(&str, T)],
        fallback: T,
    ) -> T {
        let text = match value {
            Value::String(text) => text.clone(),
            // `minVersion: 1.2` without quotes is a number in YAML, and clear enough.
            other => other.to_string(),
        };
        let found = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
        found.map_or_else(
            || {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.refuse(path, format!("{} is not one of {}", shown(value), words.join(", ")));
                fallback
            },
            |(_, choice)| *choice,
        )
    }

    /// A list; each item is read on its own under the path of the item.
    pub(super) fn list<T>(
        &mut self,
        path: &str,
        value: &Value,
        mut read: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> Vec<T> {
        let Value::Array(items) = value else {
            self.refuse(path, format!("{} is not a list", shown(value)));
            return Vec::new();
        };
        items.iter().enumerate().map(|(index, item)| read(self, &format!("{path}[{index}]"), item)).collect()
    }

    pub(super) fn namespace(&mut self, path: &str, value: &Value) -> String {
        let name = value.as_str().unwrap_or_default();
        if !is_label(name) {
            let right = "write at most 63 lower-case letters, digits and '-', as in kube-system";
            self.refuse(path, format!("{} is not the name of a namespace; {right}", shown(value)));
        }
        name.to_owned()
    }

    pub(super) fn host(&mut self, path: &str, value: &Value) -> String {
        let name = value.as_str().unwrap_or_default();
        if !is_host(name) {
            self.refuse(path, format!("{} is neither a DNS name nor an IP address", shown(value)));
        }
        name.to_owned()
    }
}

/// Whether `path` is the setting `leaf` or an item or field of it.
fn within(leaf: &str, path: &str) -> bool {
    path.strip_prefix(leaf).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

/// A value as it is shown in a message: JSON, and not the whole of a long one.
pub(super) fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        scalar => {
            let text = scalar.to_string();
            if text.chars().count() <= LONGEST {
                return text;
            }
            text.chars().take(LONGEST).chain("...".chars()).collect()
        }
    }
}

/// A label of RFC 1123: what names of namespaces and Services are made of.
pub(crate) fn is_label(name: &str) -> bool {
    let inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A name that a certificate can be made for: an IP address, or a DNS name whose first label may be `*`.
pub(crate) fn is_host(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let labels = name.strip_prefix("*.").unwrap_or(name);
    // A name of digits and dots only would be an IP address that is none.
    name.len() <= 253
        && !labels.split('.').all(|label| label.bytes().all(|letter| letter.is_ascii_digit()))
        && labels.split('.').all(|label| is_label(&label.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for good in [
            "localhost",
            "a.b.svc",
            "127.0.0.1",
            "::1",
            "*.example.org",
            "A.example",
            "1.a",
            "xn--bcher-kva.example",
        ] {
            assert!(is_host(good), "{good}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for bad in [
            "",
            ".",
            "a.",
            "-a",
            "a_b",
            "*",
            "*.*.a",
            "a.*.b",
            "1.2.3",
            "256.1.1.1",
            "a b",
            "bücher.example",
            &long,
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
