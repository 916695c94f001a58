//! The load of nodes as the load-watcher tells it, which the Trimaran plugins of other schedulers read.
//!
//! They look for `CPU` and `Memory` with the operator `AVG`, in percent, and compare the window's end with the times at
//! which pods were bound. Deviations (`STD`) are not known here, and not made up.

use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::placement::{LoadSettings, LoadSnapshot, Metric, NodeLoad};

const NANOS: i64 = 1_000_000_000;

/// Why there is nothing to tell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoLoad {
    /// No load was read yet.
    #[error("the load of nodes is not known; the server's log says why it cannot be read")]
    Unknown,
    /// Of one node.
    #[error("no fresh load is known of node {0:?}")]
    Node(String),
}

#[derive(Serialize)]
struct WatcherMetrics<'a> {
    timestamp: i64,
    window: Window<'a>,
    source: &'static str,
    data: Data,
}

#[derive(Serialize)]
struct Window<'a> {
    duration: &'a str,
    start: i64,
    end: i64,
}

#[derive(Serialize)]
struct Data {
    #[serde(rename = "NodeMetricsMap")]
    nodes: Map<String, Value>,
}

/// What is known of all nodes, or of the node `host`, at `now` (nanoseconds since 1970), as JSON: of each metric the mean
/// over the shortest window that has one.
///
/// # Errors
/// Nothing is known.
pub fn watcher_metrics(
    load: &LoadSnapshot,
    settings: &LoadSettings,
    host: Option<&str>,
    now: i64,
) -> Result<Vec<u8>, NoLoad> {
    let Some(window) = settings.windows.first().filter(|_| has_load(load, settings, now)) else {
        return Err(NoLoad::Unknown);
    };
    let of_node = |name: &str| Some((name.to_owned(), metrics(load.fresh(name, now, settings)?, settings)));
    let nodes = match host {
        None => load.nodes.keys().filter_map(|name| of_node(name)).collect(),
        Some(host) => {
            let node = of_node(host).ok_or_else(|| NoLoad::Node(host.chars().take(253).collect()))?;
            [node].into_iter().collect()
        }
    };
    let end = load.taken.div_euclid(NANOS);
    let answer = WatcherMetrics {
        timestamp: end,
        window: Window { duration: &window.name, start: end.saturating_sub(window.seconds), end },
        source: "Plimsoll",
        data: Data { nodes },
    };
    // Numbers and texts always become JSON.
    Ok(serde_json::to_vec(&answer).unwrap_or_default())
}

/// Whether the load of any node is known at `now`, in nanoseconds since 1970.
pub fn has_load(load: &LoadSnapshot, settings: &LoadSettings, now: i64) -> bool {
    load.nodes.keys().any(|name| load.fresh(name, now, settings).is_some())
}

fn metrics(node: &NodeLoad, settings: &LoadSettings) -> Value {
    let told = Metric::ALL.into_iter().filter_map(|metric| {
        let kind = kind(metric)?;
        let mut windows = settings.windows.iter().zip(&node.means);
        let (window, mean) = windows.find_map(|(window, means)| Some((window, means.get(metric)?)))?;
        let value = percent(mean)?;
        Some(json!({"name": metric.name(), "type": kind, "operator": "AVG", "rollup": &*window.name, "value": value}))
    });
    json!({"metrics": told.collect::<Vec<_>>(), "tags": {}, "metadata": {}})
}

/// What the load-watcher calls a metric; it has no word for load averages.
const fn kind(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::Cpu => Some("CPU"),
        Metric::Memory => Some("Memory"),
        Metric::Disk => Some("Storage"),
        Metric::Network => Some("Bandwidth"),
        Metric::Load => None,
    }
}

/// A share in percent, with four digits: parsers of Trimaran's kind dislike long fractions.
fn percent(share: f64) -> Option<f64> {
    share.is_finite().then(|| (share.clamp(0.0, 1.0) * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::ByMetric;

    #[test]
    fn as_trimaran_reads_it() {
        let means = |cpu: Option<f64>, memory: Option<f64>| {
            let mut means = ByMetric::default();
            means.set(Metric::Cpu, cpu);
            means.set(Metric::Memory, memory);
            means.set(Metric::Load, Some(3.0));
            means
        };
        let taken = 1_700_000_000 * NANOS + 5;
        let node = NodeLoad {
            sampled: taken,
            means: vec![means(Some(0.123_456_78), None), means(Some(0.5), Some(1.2)), means(None, None)],
            ..NodeLoad::default()
        };
        let nodes = [
            ("n1".into(), node),
            ("n2".into(), NodeLoad { sampled: taken, ..NodeLoad::default() }),
            ("old".into(), NodeLoad::default()),
        ]
        .into_iter()
        .collect();
        let load = LoadSnapshot { nodes, taken };
        let settings = LoadSettings::default();
        let read = |host| {
            watcher_metrics(&load, &settings, host, taken + 60 * NANOS)
                .map(|body| serde_json::from_slice::<Value>(&body).unwrap())
        };
        let n1 = json!({"metrics": [
            {"name": "cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 12.3457},
            {"name": "memory", "type": "Memory", "operator": "AVG", "rollup": "1h", "value": 100.0},
        ], "tags": {}, "metadata": {}});
        let all = read(None).unwrap();
        assert_eq!(all["timestamp"], 1_700_000_000);
        assert_eq!(
            all["window"],
            json!({"duration": "15m", "start": 1_700_000_000 - 900, "end": 1_700_000_000})
        );
        assert_eq!(all["data"]["NodeMetricsMap"]["n1"], n1);
        assert_eq!(all["data"]["NodeMetricsMap"]["n2"]["metrics"], json!([]));
        assert_eq!(read(Some("n1")).unwrap()["data"], json!({"NodeMetricsMap": {"n1": n1}}));
        assert_eq!(read(Some("n3")), Err(NoLoad::Node("n3".to_owned())));
        assert_eq!(all["data"]["NodeMetricsMap"].get("old"), None);
        assert_eq!(read(Some("old")), Err(NoLoad::Node("old".to_owned())));
        let nothing = LoadSnapshot::default();
        assert_eq!(watcher_metrics(&nothing, &settings, None, taken), Err(NoLoad::Unknown));
        let much_later = taken + 3600 * NANOS;
        assert_eq!(
            watcher_metrics(&load, &settings, None, much_later),
            Err(NoLoad::Unknown),
            "nobody read it since"
        );
    }
}
