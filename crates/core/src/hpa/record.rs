//! The annotation that records what targets were before they were converted.
//!
//! Only our webhook writes it. People may edit it all the same, or cut it off: then it cannot be read, which is
//! reported, and nothing is guessed from what is left of it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::hpa::{MeanBase, MetricKey};
use crate::overcommit::Amount;
use crate::profile::Basis;

/// What was converted, by metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Originals(pub BTreeMap<MetricKey, Original>);

/// The original of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The utilization that the autoscaler's author wrote, in percent.
    pub target: i64,
    /// What was written instead; none while the workload is not known.
    pub written: Option<Written>,
}

/// What was written instead of a utilization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The average value.
    pub value: Amount,
    /// The bases that it was computed from.
    pub base: MeanBase,
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OriginalsError {
    /// It is not the JSON that we write.
    #[error("it is not what Plimsoll wrote: {0}")]
    NotOurs(String),
    /// It names a metric that is never converted.
    #[error("entry {index} is about {type_name} {resource:?}, which is never converted")]
    NoKey {
        /// Its place in the list.
        index: usize,
        /// What `type` says.
        type_name: String,
        /// What `resource` says.
        resource: String,
    },
    /// A value in it cannot be.
    #[error("entry {index}: {field} {value:?} cannot be; {right}")]
    Value {
        /// Its place in the list.
        index: usize,
        /// Which member.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What would be right.
        right: &'static str,
    },
    /// Two entries are about one metric.
    #[error("two entries are about {0}")]
    Twice(MetricKey),
}

#[derive(Serialize, Deserialize)]
struct Text {
    metrics: Vec<Entry>,
}

/// A metric and its bases, as they stand in annotations.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    pub(super) type_name: String,
    pub(super) resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) basis: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pods: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<String>,
    /// Beside `missing`: the controller can divide all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) keep: bool,
    #[serde(default, rename = "asWritten", skip_serializing_if = "std::ops::Not::not")]
    pub(super) as_written: bool,
}

impl Entry {
    pub(super) fn about(key: &MetricKey) -> Self {
        Self {
            type_name: key.type_name().to_owned(),
            resource: key.resource.name().to_owned(),
            container: key.container.clone(),
            target: None,
            basis: None,
            sum: None,
            pods: None,
            value: None,
            missing: None,
            keep: false,
            as_written: false,
        }
    }

    pub(super) fn with_base(self, key: &MetricKey, base: &MeanBase) -> Self {
        Self {
            basis: Some(basis_text(base.basis).to_owned()),
            sum: Some(Amount::computed(key.resource, base.sum).text),
            pods: Some(base.pods),
            ..self
        }
    }

    pub(super) fn key(&self, index: usize) -> Result<MetricKey, OriginalsError> {
        MetricKey::of(&self.type_name, &self.resource, self.container.as_deref()).ok_or_else(|| {
            OriginalsError::NoKey {
                index,
                type_name: brief(&self.type_name),
                resource: brief(&self.resource),
            }
        })
    }

    /// The bases in it; none if it has none.
    pub(super) fn base(&self, index: usize) -> Result<Option<MeanBase>, OriginalsError> {
        let wrong =
            |field, value: &str, right| OriginalsError::Value { index, field, value: brief(value), right };
        let (basis, sum, pods) = match (&self.basis, &self.sum, self.pods) {
            (None, None, None) => return Ok(None),
            (Some(basis), Some(sum), Some(pods)) => (basis, sum, pods),
            _ => return Err(wrong("base", "", "basis, sum and pods stand together")),
        };
        let basis = match basis.as_str() {
            "request" => Some(Basis::Request),
            "limit" => Some(Basis::Limit),
            "mixed" => None,
            other => return Err(wrong("basis", other, "request, limit or mixed")),
        };
        let amount = Amount::parse(sum).filter(|sum| sum.nanos >= 0);
        let amount = amount.ok_or_else(|| wrong("sum", sum, "a quantity that is not negative"))?;
        if pods == 0 {
            return Err(wrong("pods", "0", "at least 1"));
        }
        Ok(Some(MeanBase { basis, sum: amount.nanos, pods }))
    }
}

/// Reads an object; `serde` alone would take a list of the members as well.
pub(super) fn read_object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if !text.trim_start().starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

const fn basis_text(basis: Option<Basis>) -> &'static str {
    match basis {
        Some(basis) => basis.lower_case(),
        None => "mixed",
    }
}

fn brief(text: &str) -> String {
    text.chars().take(80).collect()
}

impl Originals {
    /// Reads the annotation's text.
    ///
    /// # Errors
    /// It is not what we write.
    pub fn read(text: &str) -> Result<Self, OriginalsError> {
        let read: Text = read_object(text).map_err(OriginalsError::NotOurs)?;
        let mut originals = BTreeMap::new();
        for (index, entry) in read.metrics.iter().enumerate() {
            let key = entry.key(index)?;
            let wrong = |field, value: &str, right| OriginalsError::Value {
                index,
                field,
                value: brief(value),
                right,
            };
            let target = entry.target.unwrap_or_default();
            if target < 1 {
                return Err(wrong("target", &target.to_string(), "a percentage of at least 1"));
            }
            let written = match (&entry.value, entry.base(index)?) {
                (None, None) => None,
                (Some(text), Some(base)) => {
                    let value = Amount::parse(text).filter(|value| value.nanos > 0);
                    let value = value.ok_or_else(|| wrong("value", text, "a positive quantity"))?;
                    // Whoever changed one of them by hand did not change the others.
                    if base.value(&key, target).map(|right| right.nanos) != Some(value.nanos) {
                        return Err(wrong("value", text, "target percent of sum divided by pods is"));
                    }
                    Some(Written { value, base })
                }
                (value, _) => {
                    let value = value.as_deref().unwrap_or_default();
                    return Err(wrong("value", value, "value, basis, sum and pods stand together"));
                }
            };
            if originals.insert(key.clone(), Original { target, written }).is_some() {
                return Err(OriginalsError::Twice(key));
            }
        }
        Ok(Self(originals))
    }

    /// Whether something was written in place of a utilization.
    pub fn has_written(&self) -> bool {
        self.0.values().any(|original| original.written.is_some())
    }

    /// The annotation's text; none if nothing is recorded. The same record always gives the same text.
    pub fn write(&self) -> Option<String> {
        let metrics = self.0.iter().map(|(key, original)| {
            let entry = Entry { target: Some(original.target), ..Entry::about(key) };
            match &original.written {
                None => entry,
                Some(Written { value, base }) => {
                    Entry { value: Some(value.text.clone()), ..entry.with_base(key, base) }
                }
            }
        });
        // Strings and numbers can always be written.
        (!self.0.is_empty())
            .then(|| serde_json::to_string(&Text { metrics: metrics.collect() }).ok())
            .flatten()
    }
}
