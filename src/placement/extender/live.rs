//! Decisions by what the process knows.

use plimsoll_core::objects::Objects;
use plimsoll_core::placement::extender::{NoLoad, has_load, watcher_metrics};
use plimsoll_core::placement::{Incoming, refuse, score};
use plimsoll_core::pod::{Json, Pruned};

use super::engine::{Engine, Prioritized};
use crate::placement::{PlacementState, now};

impl Engine for PlacementState {
    fn prioritize(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Prioritized {
        let now = now();
        let (decision, pod) = self.decide(now, |view| {
            let pod = incoming(pod, view.objects);
            (score(&pod, nodes, view), pod)
        });
        // Only now: whoever reads the table is not to wait for a decision.
        if let Some(node) = decision.likely(nodes, &pod.uid) {
            self.pods.note_answer(&pod, node, now);
        }
        Prioritized {
            points: decision.nodes.iter().map(|node| node.points).collect(),
            weights_from: decision.weights.map(|(_, from)| from),
        }
    }

    fn filter(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Vec<Option<String>> {
        let refused = self.decide(now(), |view| refuse(&incoming(pod, view.objects), nodes, view));
        refused.into_iter().map(|why| why.map(|why| why.to_string())).collect()
    }

    fn watcher(&self, host: Option<&str>) -> Result<Vec<u8>, NoLoad> {
        watcher_metrics(&self.load.load(), &self.settings.load().load, host, now())
    }

    fn has_load(&self) -> bool {
        has_load(&self.load.load(), &self.settings.load().load, now())
    }
}

fn incoming(pod: Option<&Pruned<'_>>, objects: &Objects) -> Incoming {
    match pod {
        Some(pod) => Incoming::read(pod, objects),
        None => Incoming::read(&Pruned(Json::Null), objects),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::placement::{LoadFile, Settings};
    use serde_json::{Value, json};

    use super::*;

    /// The table of section "load-aware scoring" of the documents; n1 is too hot.
    fn state() -> PlacementState {
        let state = PlacementState::new(Settings::default(), Arc::default());
        let node = |cpu: f64| json!({"cpu": {"15m": cpu, "1h": cpu, "1d": cpu}, "memory": {"15m": 0.5, "1h": 0.5, "1d": 0.5}});
        let file = json!({"nodes": {"n1": node(0.9), "n2": node(0.1)}});
        let file = LoadFile::read(&file, &Settings::default().load, now()).unwrap();
        state.load.store(Arc::new(file.load));
        state
    }

    #[test]
    fn decisions_follow_the_load() {
        let state = state();
        let points = state.prioritize(None, &["n2", "n1", "unknown"]).points;
        assert!(points[0] > points[2] && points[2] > points[1], "{points:?}");
        let refused = state.filter(None, &["n1", "n2", "unknown"]);
        assert_eq!(refused[0].as_deref(), Some("90.0 % of its cpu is used, more than 85 %"));
        assert_eq!(refused[1..], [None, None]);
        assert_eq!(state.filter(None, &["n1"]), [None], "unless all would be refused");
        let told: Value = serde_json::from_slice(&state.watcher(Some("n2")).unwrap()).unwrap();
        assert_eq!(told["data"]["NodeMetricsMap"]["n2"]["metrics"][0]["value"], 10.0);
        assert!(state.has_load());
    }

    #[test]
    fn a_burst_does_not_get_one_answer() {
        let state = state();
        let pod = |number: usize| json!({"metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("uid-{number}")}});
        let best = |number: usize| {
            let pod = pod(number);
            let points = state.prioritize(Some(&Pruned::of_placed(&pod)), &["n2", "n1"]).points;
            points[0] > points[1]
        };
        assert!((0..6).all(best), "as many as cost nothing");
        state.prioritize(None, &["n2"]);
        assert_eq!(state.pods.read().answered().len(), 6, "whoever asks for no pod gets none counted");
        let seen = |state: &PlacementState| {
            state.decide(now(), |view| {
                let decision = score(&incoming(None, view.objects), &["n2", "n1"], view);
                (decision.nodes[0].expected, decision.nodes[0].penalty > 0.0)
            })
        };
        assert_eq!(seen(&state), (6, true), "six of them do");
        best(3);
        assert_eq!(seen(&state).0, 6, "asked again, and counted once");
        assert_eq!(seen(&state).0, 6, "a question that no scheduler asks is not counted");
    }

    #[test]
    fn where_nothing_is_known_all_are_equal() {
        let state = PlacementState::new(Settings::default(), Arc::default());
        let pod = json!({"metadata": {"name": 7}, "spec": "x"});
        let pod = Pruned::of_placed(&pod);
        assert_eq!(state.prioritize(Some(&pod), &["a", "b"]).points, [5, 5]);
        assert_eq!(state.filter(Some(&pod), &["a", "b"]), [None, None]);
        assert!(state.prioritize(None, &[]).points.is_empty());
        assert!(!state.has_load());
        assert_eq!(state.watcher(None), Err(NoLoad::Unknown));
    }
}
