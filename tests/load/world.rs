//! Nodes, and a Prometheus that says what a test wants it to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::metrics::Metrics;
use plimsoll::placement::PlacementState;
use plimsoll::placement::load::{LoadOptions, LoadQueries, Loader, PrometheusLoad, Source};
use plimsoll::recommender::sources::prometheus::Endpoint;
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::{Metric, NodeLoad, Settings};
use serde_json::json;

use crate::support::{Asked, Reply, SECOND, Server};

/// 2026-03-01T10:00:00Z
pub(crate) const TEN: i64 = 1_772_359_200;

/// What Prometheus answers, by the first word of a query and its window; `time` has none.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<BTreeMap<String, String>>>);

/// What a series says of a node: its labels and its value.
pub(crate) fn series(labels: &[(&str, &str)], value: &str) -> String {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    format!(r#"{{"metric":{},"value":[{TEN}.5,"{value}"]}}"#, serde_json::to_string(&labels).unwrap())
}

pub(crate) fn vector(series: &[String]) -> String {
    let result = series.join(",");
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
}

/// One series for each node, named by its exporter's address.
pub(crate) fn exporters(values: &[(&str, f64)]) -> String {
    let all: Vec<_> = values
        .iter()
        .map(|(node, value)| series(&[("instance", &format!("{node}:9100"))], &value.to_string()))
        .collect();
    vector(&all)
}

impl Answers {
    pub(crate) fn set(&self, query: &str, answer: impl Into<String>) {
        self.0.lock().unwrap().insert(query.to_owned(), answer.into());
    }

    /// When nodes were measured, in seconds before the query.
    pub(crate) fn set_ages(&self, ages: &[(&str, f64)]) {
        let all: Vec<_> = ages
            .iter()
            .map(|(node, age)| {
                #[expect(clippy::cast_precision_loss, reason = "exact")]
                let time = TEN as f64 + 0.5 - age;
                series(&[("instance", &format!("{node}:9100"))], &time.to_string())
            })
            .collect();
        self.set("time", vector(&all));
    }

    pub(crate) fn answer(&self, asked: &Asked) -> Reply {
        let all = self.0.lock().unwrap();
        all.get(asked.get("query")).map_or_else(|| Reply::ok(vector(&[])), |text| Reply::ok(text.clone()))
    }
}

/// Queries that are short: `cpu 15m`.
pub(crate) fn queries() -> LoadQueries {
    let text = |name: &str| format!("{name} $window");
    LoadQueries {
        cpu: text("cpu"),
        memory: text("memory"),
        disk: text("disk"),
        load: text("load"),
        network: text("network"),
        time: Some("time".to_owned()),
        total_bandwidth: None,
        total_disk: None,
        idle_disk: None,
    }
}

pub(crate) fn options() -> LoadOptions {
    LoadOptions { queries: queries(), ..LoadOptions::default() }
}

/// Nodes of these names, each with 4 cores and 8 GB, and an address of its own.
pub(crate) fn objects(names: &[&str]) -> Objects {
    let mut objects = Objects::default();
    for (number, name) in names.iter().enumerate() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": "4", "memory": "8G"},
                "allocatable": {"cpu": "40", "memory": "80G"},
                "addresses": [{"type": "InternalIP", "address": format!("10.0.{}.{}", number / 250, number % 250)}],
            },
        });
        objects.put(read_manifest(&manifest).unwrap().unwrap());
    }
    objects
}

pub(crate) struct World {
    pub(crate) answers: Answers,
    pub(crate) server: Server,
    pub(crate) state: PlacementState,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) loader: Loader,
}

impl World {
    /// A server that answers what is set.
    pub(crate) async fn new(nodes: &[&str]) -> Self {
        let answers = Answers::default();
        let known = answers.clone();
        let server = Server::start(move |asked| known.answer(asked)).await;
        Self::with(server, answers, nodes, options())
    }

    /// A server that does as the test says.
    pub(crate) fn with(server: Server, answers: Answers, nodes: &[&str], options: LoadOptions) -> Self {
        Self::at(&server.url(), server, answers, nodes, options)
    }

    pub(crate) fn at(
        url: &str,
        server: Server,
        answers: Answers,
        nodes: &[&str],
        options: LoadOptions,
    ) -> Self {
        let endpoint = Endpoint { timeout: Duration::from_millis(500), ..Endpoint::new(url) };
        let source = Source::Prometheus(PrometheusLoad::new(&endpoint, options).unwrap());
        let state = PlacementState::new(Settings::default(), Arc::default());
        state.objects.store(Arc::new(objects(nodes)));
        let metrics = Arc::new(Metrics::new("test"));
        let loader = Loader::new(source, state.clone(), Arc::clone(&metrics));
        Self { answers, server, state, metrics, loader }
    }

    /// Looks at so many seconds after ten.
    pub(crate) async fn look(&mut self, seconds: i64) {
        self.loader.look(now(seconds)).await;
    }

    pub(crate) fn node(&self, name: &str) -> Option<NodeLoad> {
        self.state.load.load().nodes.get(name).cloned()
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        let load = self.state.load.load();
        let mut names: Vec<_> = load.nodes.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// A mean of a node, by the place of the window.
    pub(crate) fn mean(&self, node: &str, window: usize, metric: Metric) -> Option<f64> {
        self.node(node)?.means[window].get(metric)
    }

    /// A counter or gauge without its prefix.
    pub(crate) fn counted(&self, series: &str) -> f64 {
        counted(&self.metrics, series)
    }
}

pub(crate) fn counted(metrics: &Metrics, series: &str) -> f64 {
    let text = metrics.encode();
    let mut start = String::from("plimsoll_placement_");
    write!(start, "{series} ").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().unwrap()
}

pub(crate) fn now(seconds: i64) -> i64 {
    (TEN + seconds) * SECOND
}
