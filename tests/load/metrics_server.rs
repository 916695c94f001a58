use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::metrics::Metrics;
use plimsoll::placement::PlacementState;
use plimsoll::placement::load::{LoadOptions, Loader, MetricsServerLoad, Source};
use plimsoll::recommender::sources::{MetricsServer, MetricsServerOptions};
use plimsoll_core::placement::{Metric, Settings};
use serde_json::{Value, json};

use crate::support::{Reply, SECOND, Server};
use crate::world::{TEN, counted, now, objects};

struct World {
    answer: Arc<Mutex<(u16, String)>>,
    server: Server,
    state: PlacementState,
    metrics: Arc<Metrics>,
    loader: Loader,
}

impl World {
    async fn new(nodes: &[&str]) -> Self {
        let answer = Arc::new(Mutex::new((200, list(&[]))));
        let known = Arc::clone(&answer);
        let server = Server::start(move |asked| {
            assert_eq!(asked.path, "/apis/metrics.k8s.io/v1beta1/nodes");
            let (code, body) = known.lock().unwrap().clone();
            Reply::status(code, body)
        })
        .await;
        let client = plimsoll::cluster::client(kube::Config::new(server.url().parse().unwrap())).unwrap();
        let options = MetricsServerOptions { per_namespace: false, timeout: Duration::from_millis(500) };
        let source = MetricsServerLoad::new(MetricsServer::new(client, options), LoadOptions::default());
        let state = PlacementState::new(Settings::default(), Arc::default());
        state.objects.store(Arc::new(objects(nodes)));
        let metrics = Arc::new(Metrics::new("test"));
        let loader = Loader::new(Source::MetricsServer(source), state.clone(), Arc::clone(&metrics));
        Self { answer, server, state, metrics, loader }
    }

    fn says(&self, nodes: &[Value]) {
        *self.answer.lock().unwrap() = (200, list(nodes));
    }

    fn mean(&self, node: &str, window: usize, metric: Metric) -> Option<f64> {
        self.state.load.load().nodes.get(node)?.means[window].get(metric)
    }
}

fn list(nodes: &[Value]) -> String {
    json!({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": nodes}).to_string()
}

fn node(name: &str, seconds: i64, cpu: &str, memory: &str) -> Value {
    let time = jiff::Timestamp::from_second(TEN + seconds).unwrap().to_string();
    json!({"metadata": {"name": name}, "timestamp": time, "window": "10s", "usage": {"cpu": cpu, "memory": memory}})
}

#[tokio::test]
async fn means_are_made_of_samples_since_the_start() {
    let mut world = World::new(&["n1", "n2"]).await;
    world.says(&[node("n1", 0, "1", "2G"), node("n2", -5, "2", "4G")]);
    world.loader.look(now(0)).await;
    assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.25), "the shortest window is there at once");
    assert_eq!(world.mean("n1", 2, Metric::Memory), None, "a sample is no day");
    assert_eq!(world.mean("n1", 0, Metric::Disk), None, "it does not tell");
    assert_eq!(world.state.load.load().nodes["n2"].sampled, now(0) - 5 * SECOND);
    world.loader.look(now(30)).await;
    world.says(&[node("n1", 60, "3", "2G"), node("n2", 60, "2", "4G")]);
    world.loader.look(now(60)).await;
    assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.5), "the same sample did not count twice");
    world.says(&[node("n1", 1_000, "3", "2G")]);
    world.loader.look(now(1_000)).await;
    assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.75), "the first ones are out of 15 minutes");
    assert!(!world.state.load.load().nodes.contains_key("n2"), "too old");
    assert_eq!(counted(&world.metrics, "load_nodes{state=\"without\"}"), 1.0);
}

/// Three busy minutes after the start are no busy day.
#[tokio::test]
async fn a_window_is_filled_when_half_of_it_was_seen() {
    let mut world = World::new(&["n1"]).await;
    let mut filled = [None; 3];
    for seconds in (0..=14 * 3_600).step_by(60) {
        let cpu = if seconds < 180 { "4" } else { "1" };
        world.says(&[node("n1", seconds, cpu, "2G")]);
        world.loader.look(now(seconds)).await;
        for (window, filled) in filled.iter_mut().enumerate() {
            if world.mean("n1", window, Metric::Cpu).is_some() {
                filled.get_or_insert(seconds);
            }
        }
        let missing = counted(&world.metrics, "load_missing_means{window=\"1d\"}");
        assert_eq!(missing, if filled[2].is_some() { 0.0 } else { 2.0 }, "after {seconds} s");
    }
    assert_eq!(filled, [Some(0), Some(1_800), Some(43_200)]);
    let day = world.mean("n1", 2, Metric::Cpu).unwrap();
    assert!((0.25..0.26).contains(&day), "{day}");
}

/// The time of an item is by the clock of its node.
#[tokio::test]
async fn a_node_whose_clock_is_wrong_is_fresh_when_its_time_moves() {
    for (rule, first, second, at_first, then) in [
        ("right", 0, 60, true, true),
        ("six minutes behind", -360, -300, false, true),
        ("six minutes ahead", 360, 420, false, true),
        ("set back", 60, -1_000, true, true),
        ("it stands still, and is old", -360, -360, false, false),
    ] {
        let mut world = World::new(&["n1"]).await;
        let is_fresh = |world: &World| world.state.load.load().nodes.contains_key("n1");
        world.says(&[node("n1", first, "1", "2G")]);
        world.loader.look(now(0)).await;
        assert_eq!(is_fresh(&world), at_first, "{rule}: at first");
        world.says(&[node("n1", second, "1", "2G")]);
        world.loader.look(now(60)).await;
        assert_eq!(is_fresh(&world), then, "{rule}: then");
        if then {
            assert_eq!(world.state.load.load().nodes["n1"].sampled, now(60), "{rule}");
            world.loader.look(now(361)).await;
            assert!(!is_fresh(&world), "{rule}: it does not move any more");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_true_is_dropped() {
    let mut world = World::new(&["n1", "n2", "n3"]).await;
    world.says(&[
        node("n1", 0, "5", "2G"),
        node("n2", 0, "-1", "much"),
        node("n3", 400, "1", "1G"),
        node("n9", 0, "1", "1G"),
        json!({"metadata": {"name": "n3"}, "timestamp": "now", "usage": {"cpu": "1"}}),
        json!({"usage": {"cpu": "1"}}),
    ]);
    world.loader.look(now(0)).await;
    assert_eq!(world.mean("n1", 0, Metric::Cpu), None, "more than there are");
    assert_eq!(world.mean("n1", 0, Metric::Memory), Some(0.25));
    assert_eq!(world.state.load.load().nodes.len(), 1);
    for (reason, count) in
        [("too_great", 1.0), ("negative", 1.0), ("not_a_number", 2.0), ("future", 1.0), ("unknown_node", 1.0)]
    {
        let series = format!("load_samples_dropped_total{{reason=\"{reason}\"}}");
        assert_eq!(counted(&world.metrics, &series), count, "{reason}");
    }
}

#[tokio::test]
async fn an_outage_leaves_what_was_known_until_it_is_too_old() {
    for (rule, code, body) in [
        ("not installed", 404, "404 page not found"),
        ("forbidden", 403, r#"{"message":"nodes.metrics.k8s.io is forbidden"}"#),
        ("overloaded", 503, "down"),
        ("HTML", 200, "<html>"),
        ("another object", 200, r#"{"kind":"Status"}"#),
        ("cut off", 200, r#"{"items":[{"#),
    ] {
        let mut world = World::new(&["n1"]).await;
        world.says(&[node("n1", 0, "1", "2G")]);
        world.loader.look(now(0)).await;
        *world.answer.lock().unwrap() = (code, body.to_owned());
        world.loader.look(now(60)).await;
        assert_eq!(world.mean("n1", 0, Metric::Cpu), Some(0.25), "{rule}");
        assert_eq!(world.state.load.load().taken, now(0), "{rule}: its age shows");
        assert_eq!(counted(&world.metrics, "load_query_failures_total{query=\"nodes\"}"), 1.0, "{rule}");
        let calls = world.server.asked().len();
        world.loader.look(now(60)).await;
        assert_eq!(world.server.asked().len(), calls, "{rule}: it is left alone for a while");
        world.loader.look(now(301)).await;
        assert!(world.state.load.load().nodes.is_empty(), "{rule}: too old");
    }
}
