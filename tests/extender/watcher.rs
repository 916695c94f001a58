//! The load of nodes, as Trimaran asks for it.

use plimsoll_core::placement::{ByMetric, LoadSnapshot, Metric, NodeLoad};
use serde_json::json;

use crate::support::{NOW, Running};

#[tokio::test]
async fn the_load_as_trimaran_reads_it() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    let message = connection.get("/watcher").await.refusal(503);
    assert!(message.contains("not known"), "{message}");
    connection.get("/watcher/health").await.refusal(503);

    let mut means = ByMetric::default();
    means.set(Metric::Cpu, Some(0.8));
    means.set(Metric::Memory, Some(0.6));
    let node = NodeLoad { means: vec![means], sampled: NOW, ..NodeLoad::default() };
    let nodes = [("n1".into(), node)].into_iter().collect();
    *running.engine.load.lock().unwrap() = LoadSnapshot { nodes, taken: NOW };
    let expected = json!({
        "timestamp": 1000,
        "window": {"duration": "15m", "start": 100, "end": 1000},
        "source": "Plimsoll",
        "data": {"NodeMetricsMap": {"n1": {"metrics": [
            {"name": "cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 80.0},
            {"name": "memory", "type": "Memory", "operator": "AVG", "rollup": "15m", "value": 60.0},
        ], "tags": {}, "metadata": {}}}},
    });
    assert_eq!(connection.get("/watcher").await.json(), expected);
    assert_eq!(connection.get("/watcher?host=n1").await.json(), expected);
    let message = connection.get("/watcher?host=n2").await.refusal(404);
    assert!(message.contains("\"n2\""), "{message}");
    assert_eq!(connection.get("/watcher/health").await.status, 200);
    assert_eq!(running.metric("plimsoll_extender_requests_total{verb=\"watcher\",outcome=\"ok\"}"), 2);
    assert_eq!(
        running.metric("plimsoll_extender_requests_total{verb=\"watcher\",outcome=\"unavailable\"}"),
        1
    );
    running.stop().await;
}
