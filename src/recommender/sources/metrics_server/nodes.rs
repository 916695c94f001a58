//! A list of `NodeMetrics`.

use jiff::Timestamp;
use serde::Deserialize;

use super::answer::{PodMetricsError, amount};
use crate::recommender::sources::scalar::Scalar;

/// What a node uses. What is absent, or no quantity, is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeUse<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// When, in nanoseconds since 1970.
    pub(crate) nanos: Option<i64>,
    /// Cores.
    pub(crate) cpu: Option<f64>,
    /// Bytes.
    pub(crate) memory: Option<f64>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow, default, deserialize_with = "some")]
    items: Option<Items<'a>>,
}

/// `null` is how Go writes a list that was never filled.
#[derive(Deserialize)]
#[serde(transparent)]
struct Items<'a>(#[serde(borrow)] Option<Vec<Item<'a>>>);

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow, default)]
    timestamp: Scalar<'a>,
    #[serde(borrow, default)]
    usage: Option<Usage<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Scalar<'a>,
}

#[derive(Deserialize)]
struct Usage<'a> {
    #[serde(borrow, default)]
    cpu: Scalar<'a>,
    #[serde(borrow, default)]
    memory: Scalar<'a>,
}

/// A list that is `null` is there; one that is absent is something else.
fn some<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a `NodeMetricsList` of `metrics.k8s.io/v1beta1`. Items without a name are passed over.
///
/// # Errors
/// It is something else. Nothing was given to `each` then.
pub(crate) fn read_node_metrics(
    body: &[u8],
    each: &mut dyn FnMut(NodeUse<'_>),
) -> Result<(), PodMetricsError> {
    let list: List<'_> = serde_json::from_slice(body)?;
    let items = list.items.ok_or(PodMetricsError::NoItems)?;
    for item in items.0.iter().flatten() {
        let Some(name) = item.metadata.as_ref().and_then(|metadata| metadata.name.text()) else { continue };
        let time = item.timestamp.text().and_then(|text| text.parse::<Timestamp>().ok());
        each(NodeUse {
            name,
            nanos: time.and_then(|time| i64::try_from(time.as_nanosecond()).ok()),
            cpu: item.usage.as_ref().and_then(|usage| amount(&usage.cpu)),
            memory: item.usage.as_ref().and_then(|usage| amount(&usage.memory)),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read() {
        const TEN: i64 = 1_772_359_200_000_000_000;
        let whole = |usage: &str| {
            format!(
                r#"{{"items":[{{"metadata":{{"name":"n1"}},"timestamp":"2026-03-01T10:00:00Z","window":"10s","usage":{usage}}}]}}"#
            )
        };
        for (rule, body, expected) in [
            (
                "a node",
                whole(r#"{"cpu":"1500m","memory":"1Gi"}"#),
                vec![("n1", Some(TEN), Some(1.5), Some(1_073_741_824.0))],
            ),
            (
                "nano-cores",
                whole(r#"{"cpu":"250000000n","memory":"0"}"#),
                vec![("n1", Some(TEN), Some(0.25), Some(0.0))],
            ),
            ("no quantity", whole(r#"{"cpu":"much","memory":[1]}"#), vec![("n1", Some(TEN), None, None)]),
            ("no usage", whole("null"), vec![("n1", Some(TEN), None, None)]),
            ("no nodes", r#"{"items":[]}"#.to_owned(), vec![]),
            ("a list that was never filled", r#"{"items":null}"#.to_owned(), vec![]),
            ("no name", r#"{"items":[{"metadata":{},"usage":{"cpu":"1"}}]}"#.to_owned(), vec![]),
            (
                "no time",
                r#"{"items":[{"metadata":{"name":"n1"},"timestamp":"now","usage":{"cpu":"1"}}]}"#.to_owned(),
                vec![("n1", None, Some(1.0), None)],
            ),
        ] {
            let mut found = Vec::new();
            let mut each = |node: NodeUse<'_>| {
                assert_eq!(node.name, "n1", "{rule}");
                found.push(("n1", node.nanos, node.cpu, node.memory));
            };
            read_node_metrics(body.as_bytes(), &mut each).unwrap();
            assert_eq!(found, expected, "{rule}");
        }
        for (rule, body) in [
            ("HTML", "<html>"),
            ("another object", r#"{"kind":"Status","code":503}"#),
            ("cut off", r#"{"items":[{"metadata":"#),
            ("items that are no list", r#"{"items":5}"#),
        ] {
            assert!(read_node_metrics(body.as_bytes(), &mut |_| panic!("{rule}")).is_err(), "{rule}");
        }
    }
}
