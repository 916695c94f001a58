//! How loaded nodes are, as `node_exporter` and Prometheus say it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::prometheus::{Past, Prometheus, ScrapeTarget};

/// How far apart the samples of the past are, in seconds. Scraped as seldom, a mean over samples is one over time.
pub(crate) const STEP: u32 = 15;
/// How far the past reaches, in seconds: a little more than the longest window.
const PAST: i64 = 86_400 + 300;
const CORES: u32 = 2;
const MEMORY: f64 = 64.0 * 1024.0 * 1024.0 * 1024.0;

/// Means over 15 minutes, an hour and a day.
pub(crate) type Means = [f64; 3];

/// The load of a node; each figure is a share of the node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeMeans {
    /// It is measured since just now only.
    pub(crate) young: bool,
    pub(crate) cpu: Means,
    pub(crate) memory: Means,
    pub(crate) disk: Means,
    /// Load average by core.
    pub(crate) load: Means,
}

impl NodeMeans {
    /// The same in all metrics and windows.
    pub(crate) fn all(value: f64) -> Self {
        let means = [value; 3];
        Self { young: false, cpu: means, memory: means, disk: means, load: means }
    }
}

/// What was so many seconds ago, such that the means come out.
fn ago(means: Means, age: f64) -> f64 {
    let [quarter, hour, day] = means;
    if age <= 900.0 {
        quarter
    } else if age <= 3_600.0 {
        (4.0 * hour - quarter) / 3.0
    } else {
        (24.0 * day - hour) / 23.0
    }
}

/// How a node's exporter says a mean.
enum Form {
    /// It grows by so much a second at a share of 0, and by so much more at 1.
    Counter(f64, f64),
    /// It is so much at a share of 0, and so much more at 1.
    Gauge(f64, f64),
}

/// The series of `node_exporter` at `instance`.
fn series(instance: &str, means: &NodeMeans) -> Vec<(String, Means, Form)> {
    // With the job: else the present would be other series than the past.
    let name = |metric: &str, more: &str| format!(r#"{metric}{{instance="{instance}",job="node"{more}}}"#);
    let mut all = Vec::new();
    for core in 0..CORES {
        for (mode, form) in [("idle", Form::Counter(1.0, -1.0)), ("user", Form::Counter(0.0, 1.0))] {
            let labels = format!(r#",cpu="{core}",mode="{mode}""#);
            all.push((name("node_cpu_seconds_total", &labels), means.cpu, form));
        }
    }
    all.push((name("node_memory_MemTotal_bytes", ""), means.memory, Form::Gauge(MEMORY, 0.0)));
    all.push((name("node_memory_MemAvailable_bytes", ""), means.memory, Form::Gauge(MEMORY, -MEMORY)));
    for (device, share) in [("sda", 1.0), ("sdb", 0.25)] {
        let labels = format!(r#",device="{device}""#);
        all.push((name("node_disk_io_time_seconds_total", &labels), means.disk, Form::Counter(0.0, share)));
    }
    for metric in ["node_load1", "node_load5", "node_load15"] {
        all.push((name(metric, ""), means.load, Form::Gauge(0.0, f64::from(CORES))));
    }
    all
}

/// A Prometheus that has known these nodes for a day, by the address of their exporters, and looks at them every so many
/// seconds. They go on as in the last 15 minutes.
pub(crate) async fn exported(
    dir: &Path,
    every: u32,
    nodes: &[(String, NodeMeans)],
) -> Result<(ScrapeTarget, Prometheus)> {
    let target = ScrapeTarget::listen().await?;
    let mut past = Past::default();
    let now = Timestamp::now().as_second();
    for (instance, means) in nodes {
        for (name, of_series, form) in series(instance, means) {
            let mut counted = 0.0;
            let mut samples = Vec::new();
            for age in (1..=PAST).rev().step_by(usize::try_from(STEP)?) {
                #[expect(clippy::cast_precision_loss, reason = "a day of seconds")]
                let share = ago(of_series, age as f64);
                let value = match form {
                    Form::Counter(base, more) => {
                        counted += f64::from(STEP) * (base + more * share);
                        counted
                    }
                    Form::Gauge(base, more) => base + more * share,
                };
                samples.push((now - age, value));
            }
            if !means.young {
                past.add(&name, samples);
            }
            let [share, ..] = of_series;
            match form {
                Form::Counter(base, more) => target.grow_from(&name, counted, base + more * share),
                Form::Gauge(base, more) => target.set(&name, base + more * share),
            }
        }
    }
    let prometheus = Prometheus::start_every(every, dir, &past, &[&target]).await?;
    Ok((target, prometheus))
}

const METRICS: [&str; 2] = ["e2e_node_cpu", "e2e_node_memory"];

/// With the job, as in [`series`].
fn gauge(metric: &str, node: &str) -> String {
    format!(r#"{metric}{{node="{node}",job="node"}}"#)
}

/// Load that a scenario sets as it likes, seen within a second or two.
#[derive(Debug)]
pub(crate) struct Gauges {
    target: ScrapeTarget,
    prometheus: Prometheus,
}

/// How far the past of [`Gauges`] reaches, in seconds: more than the window.
const GAUGED: i64 = 90;

impl Gauges {
    pub(crate) async fn start(dir: &Path) -> Result<Self> {
        Self::start_after(dir, &BTreeMap::new()).await
    }

    /// These nodes have been used so much for a while.
    pub(crate) async fn start_after(dir: &Path, used: &BTreeMap<String, f64>) -> Result<Self> {
        let target = ScrapeTarget::listen().await?;
        let mut past = Past::default();
        let now = Timestamp::now().as_second();
        for (node, share) in used {
            for metric in METRICS {
                past.add(&gauge(metric, node), (1..GAUGED).rev().map(|age| (now - age, *share)));
                target.set(&gauge(metric, node), *share);
            }
        }
        let prometheus = Prometheus::start(dir, &past, &[&target]).await?;
        Ok(Self { target, prometheus })
    }

    /// The node is used so much from now on, its CPU and its memory.
    pub(crate) fn set(&self, node: &str, cpu: f64, memory: f64) {
        for (metric, share) in METRICS.into_iter().zip([cpu, memory]) {
            self.target.set(&gauge(metric, node), share);
        }
    }

    /// The node says nothing more.
    pub(crate) fn silence(&self, node: &str) {
        for metric in METRICS {
            self.target.remove(&gauge(metric, node));
        }
    }

    /// Container `app` of a pod uses so many cores and bytes from now on; `None`: it is gone.
    pub(crate) fn container(&self, namespace: &str, pod: &str, uses: Option<(f64, f64)>) {
        for (metric, value) in [
            ("e2e_container_cpu", uses.map(|(cpu, _)| cpu)),
            ("e2e_container_memory", uses.map(|(_, memory)| memory)),
        ] {
            let series = format!(r#"{metric}{{namespace="{namespace}",pod="{pod}",container="app"}}"#);
            match value {
                Some(value) => self.target.set(&series, value),
                None => self.target.remove(&series),
            }
        }
    }

    /// Prometheus dies.
    pub(crate) fn kill(&mut self) {
        self.prometheus.kill();
    }

    /// The section `placement` that reads this. The newest sample stands for the mean.
    pub(crate) fn section(&self) -> Value {
        self.section_by("last_over_time")
    }

    /// The same with means over the last minute.
    pub(crate) fn section_of_means(&self) -> Value {
        self.section_by("avg_over_time")
    }

    fn section_by(&self, function: &str) -> Value {
        json!({
            "load": {
                "windows": {"1m": 1},
                "metrics": {"cpu": 0.5, "memory": 0.5},
                "maximumAge": "15s",
                "queries": {
                    "cpu": format!("{function}(e2e_node_cpu[$window])"),
                    "memory": format!("{function}(e2e_node_memory[$window])"),
                    "time": "timestamp(e2e_node_cpu)",
                },
                "prometheus": {"address": self.prometheus.url()},
            },
            "usage": {"queries": {"cpu": "e2e_container_cpu", "memory": "e2e_container_memory"}},
        })
    }
}
