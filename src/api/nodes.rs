//! What placement knows of each node.

use http::StatusCode;
use plimsoll_core::placement::NodesReport;

use super::Answer;
use crate::placement::{PlacementState, now};

pub(super) fn answer(placement: Option<&PlacementState>) -> Answer {
    let Some(state) = placement else {
        let message = "this replica does not know the load of nodes; placement.enabled must be true";
        return Err((StatusCode::NOT_FOUND, message.to_owned()));
    };
    answer_at(state, now())
}

fn answer_at(state: &PlacementState, now: i64) -> Answer {
    let report = state.decide_at_leisure(now, NodesReport::of);
    serde_json::to_string(&report).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use plimsoll_core::objects::{Objects, read_manifest};
    use plimsoll_core::placement::{ByMetric, LoadSnapshot, Metric, NodeLoad, Placed, PlacedPod, Settings};
    use serde_json::{Value, json};

    use super::*;
    use crate::placement::PlacedPods;

    #[test]
    fn a_node_with_all_that_is_known_of_it() {
        let mut objects = Objects::default();
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "labels": {"plimsoll.dev/load-class": "low"}},
            "status": {
                "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "allocatable": {"cpu": "7500m", "memory": "30Gi"},
            },
        });
        objects.put(read_manifest(&node).unwrap().unwrap());
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "p", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
        });
        let pod = PlacedPod::read(&pod, &objects).unwrap();
        let mut state = PlacementState::new(Settings::default(), Arc::new(ArcSwap::from_pointee(objects)));
        state.pods = PlacedPods::of(Placed::listed([pod]));
        let mut means = ByMetric::default();
        means.set(Metric::Cpu, Some(0.25));
        let load = NodeLoad { means: vec![means], sampled: 1_000_000_000, ..NodeLoad::default() };
        let nodes = [(Arc::from("n1"), load)].into();
        state.load.store(Arc::new(LoadSnapshot { nodes, taken: 2_000_000_000 }));

        let answer: Value = serde_json::from_str(&answer_at(&state, 3_000_000_000).unwrap()).unwrap();
        assert_eq!(answer["taken"], "1970-01-01T00:00:02Z");
        assert_eq!(
            answer["nodes"],
            json!([{
                "name": "n1", "ready": true, "unschedulable": false, "class": "low",
                "sampled": "1970-01-01T00:00:01Z",
                "U": 0.25, "metrics": {"cpu": 0.25}, "load": {"cpu": {"15m": 0.25}},
                "score": 75.0, "bindings": 0, "penalty": 0.0,
                "pods": 1, "requested": {"cpu": "500m", "memory": "0"},
                "allocatable": {"cpu": "7500m", "memory": "32212254720"},
                "capacity": {"cpu": "8", "memory": "34359738368"},
            }])
        );
    }
    /// Nobody has read the source since, or the exporter of the node is dead.
    #[test]
    fn of_a_node_with_stale_load_nothing_is_told() {
        let mut means = ByMetric::default();
        means.set(Metric::Cpu, Some(0.25));
        let second = 1_000_000_000;
        let load = |sampled: i64| NodeLoad { means: vec![means], sampled, ..NodeLoad::default() };
        let state = PlacementState::new(Settings::default(), Arc::default());
        let nodes = [("fresh", 301), ("stale", 300)].map(|(name, at)| (Arc::from(name), load(at * second)));
        state.load.store(Arc::new(LoadSnapshot { nodes: nodes.into(), taken: 301 * second }));

        let answer: Value = serde_json::from_str(&answer_at(&state, 601 * second).unwrap()).unwrap();
        let [fresh, old] = answer["nodes"].as_array().unwrap().as_slice() else { panic!("{answer}") };
        assert_eq!(fresh["sampled"], "1970-01-01T00:05:01Z");
        assert_eq!(fresh["load"], json!({"cpu": {"15m": 0.25}}));
        assert_eq!((&old["sampled"], &old["U"]), (&Value::Null, &Value::Null), "{old}");
        assert_eq!((&old["load"], &old["metrics"]), (&json!({}), &json!({})), "{old}");
        assert_eq!(old["score"], fresh["score"], "the median of the others");
    }
}
