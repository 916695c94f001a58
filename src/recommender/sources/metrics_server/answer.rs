//! A list of `PodMetrics`, read as it comes: no tree of JSON is built, and names are borrowed from the answer.

use std::fmt;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use crate::recommender::sources::scalar::Scalar;
use crate::recommender::sources::{Sample, Sink, Skipped};

/// Why an answer is not a list of `PodMetrics` or `NodeMetrics`.
#[derive(Debug, Error)]
pub enum PodMetricsError {
    /// It is no JSON, or its parts are of other types.
    #[error("is no list of PodMetrics or NodeMetrics: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of something else.
    #[error("is no list of PodMetrics or NodeMetrics: it has no `items`")]
    NoItems,
}

/// Reads a `PodMetricsList` of `metrics.k8s.io/v1beta1` and delivers its samples; the result is their number.
/// A container or value that cannot be used is counted and costs nothing but itself.
///
/// # Errors
/// It is something else. What was read until then has been delivered.
pub fn read_pod_metrics(
    body: &[u8],
    skipped: &mut Skipped,
    sink: &mut Sink<'_>,
) -> Result<u64, PodMetricsError> {
    let mut list = List { skipped, sink, samples: 0, items: false };
    let mut json = serde_json::Deserializer::from_slice(body);
    (&mut list).deserialize(&mut json)?;
    json.end()?;
    if list.items { Ok(list.samples) } else { Err(PodMetricsError::NoItems) }
}

struct List<'s, 'f> {
    skipped: &'s mut Skipped,
    sink: &'s mut Sink<'f>,
    samples: u64,
    /// Whether there were any, or none on purpose.
    items: bool,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow, default)]
    timestamp: Scalar<'a>,
    #[serde(borrow, default)]
    containers: Option<Vec<Container<'a>>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Scalar<'a>,
    #[serde(borrow, default)]
    namespace: Scalar<'a>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow, default)]
    name: Scalar<'a>,
    #[serde(borrow, default)]
    usage: Option<Usage<'a>>,
}

#[derive(Deserialize)]
struct Usage<'a> {
    #[serde(borrow, default)]
    cpu: Scalar<'a>,
    #[serde(borrow, default)]
    memory: Scalar<'a>,
}

impl List<'_, '_> {
    fn take(&mut self, item: &Item<'_>) {
        let containers = item.containers.as_deref().unwrap_or_default();
        let count = u64::try_from(containers.len()).unwrap_or(u64::MAX);
        let names =
            item.metadata.as_ref().and_then(|metadata| metadata.namespace.text().zip(metadata.name.text()));
        let Some((namespace, pod)) = names else {
            self.skipped.missing_labels += count.max(1);
            return;
        };
        let time = item.timestamp.text().and_then(|text| text.parse::<Timestamp>().ok());
        // Times beyond the year 2262 do not fit.
        let Some(nanos) = time.and_then(|time| i64::try_from(time.as_nanosecond()).ok()) else {
            self.skipped.invalid += count.max(1);
            return;
        };
        for container in containers {
            let Some(name) = container.name.text() else {
                self.skipped.missing_labels += 1;
                continue;
            };
            let usage = container.usage.as_ref();
            let mut amount = |quantity: &Scalar<'_>| match quantity {
                Scalar::Absent => None,
                present => self.skipped.checked(amount(present)),
            };
            let cpu = usage.and_then(|usage| amount(&usage.cpu));
            let memory = usage.and_then(|usage| amount(&usage.memory));
            if cpu.is_none() && memory.is_none() {
                self.skipped.no_value += 1;
                continue;
            }
            self.samples += 1;
            (self.sink)(&Sample { namespace, pod, container: name, nanos, cpu, memory });
        }
    }
}

/// A quantity in whole units.
pub(super) fn amount(quantity: &Scalar<'_>) -> Option<f64> {
    match quantity {
        Scalar::Text(text) => Quantity::parse(text).ok().map(|quantity| units(quantity.nanos())),
        Scalar::Number(number) => Some(*number),
        _ => None,
    }
}

/// In two parts, so that a whole number of units stays one.
#[expect(clippy::cast_precision_loss, reason = "a measured value; 15 digits are more than it has")]
fn units(nanos: i128) -> f64 {
    const UNIT: i128 = 1_000_000_000;
    (nanos / UNIT) as f64 + (nanos % UNIT) as f64 / 1e9
}

impl<'de> DeserializeSeed<'de> for &mut List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a PodMetricsList")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            if key.text() == Some("items") {
                self.items = true;
                map.next_value_seed(Items(self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Items<'l, 's, 'f>(&'l mut List<'s, 'f>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of PodMetrics")
    }

    /// How Go writes a list that was never filled.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<Item<'de>>()? {
            self.0.take(&item);
        }
        Ok(())
    }
}
