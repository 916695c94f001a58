//! The settings of the recommender.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use super::checked::{HOUR, MILLISECOND, MINUTE, SECOND};
use super::prometheus::{self, PrometheusAccess, Written, label};
use super::raw::{RawPrometheus, RawRecommender};
use super::units::duration_text;

/// Where usage comes from, and how often it becomes recommendations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommender {
    /// Whether recommendations are made at all.
    pub enabled: bool,
    /// Where usage comes from.
    pub source: UsageSource,
    /// How often usage is taken.
    pub scan_interval: Duration,
    /// The longest that one question to the source may take.
    pub source_timeout: Duration,
    /// A table of usage; present with [`UsageSource::File`].
    pub file: Option<PathBuf>,
    /// Into how many parts the namespaces are divided; each has its own leader.
    pub shards: u32,
    /// Each changed workload's state is written about once in this time.
    pub checkpoint_interval: Duration,
    /// The most objects that are written in a second, recommendations and checkpoints together.
    pub writes_per_second: u32,
    /// After this time without a sign of life of the leader another replica takes over; whole seconds.
    pub lease_duration: Duration,
    /// How often the leader gives a sign of life.
    pub renew_interval: Duration,
    /// How metrics-server is asked.
    pub metrics_server: MetricsServer,
    /// How Prometheus is asked.
    pub prometheus: Prometheus,
}

/// Where usage comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageSource {
    /// The API `metrics.k8s.io`.
    MetricsServer,
    /// Prometheus, or what speaks its API.
    Prometheus,
    /// A table in a file.
    File,
}

/// How metrics-server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsServer {
    /// One question for each namespace, in place of one for all.
    pub per_namespace: bool,
}

/// How Prometheus, or what speaks its API, is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prometheus {
    /// How it is reached; there is an address with [`UsageSource::Prometheus`].
    pub access: PrometheusAccess,
    /// Gives the CPU usage of each container, in cores.
    pub cpu_query: String,
    /// Gives the memory usage of each container, in bytes.
    pub memory_query: String,
    /// The label with the namespace.
    pub namespace_label: String,
    /// The label with the pod.
    pub pod_label: String,
    /// The label with the container.
    pub container_label: String,
    /// How much of the past is loaded at the first start; zero: nothing.
    pub history: Duration,
    /// How far apart the samples of the past are.
    pub history_step: Duration,
    /// How much time one query about the past covers.
    pub history_chunk: Duration,
}

impl Recommender {
    /// Whether there is something to do. Without a cluster there is no metrics-server to ask.
    pub fn runs(&self, standalone: bool) -> bool {
        self.enabled && !(standalone && self.source == UsageSource::MetricsServer)
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        if self.enabled && self.source == UsageSource::Prometheus && self.prometheus.access.address.is_none()
        {
            check.refuse(
                "recommender.prometheus.address",
                "is needed because recommender.source is Prometheus; write its URL, as in \
                 http://prometheus.monitoring.svc:9090",
            );
        }
        if self.enabled && self.source == UsageSource::File && self.file.is_none() {
            check.refuse(
                "recommender.file",
                "is needed because recommender.source is File; give a table of usage (*.csv, *.csv.gz, *.csv.zst)",
            );
        }
        if self.renew_interval * 2 > self.lease_duration {
            let message = format!(
                "{} is more than half of recommender.leaseDuration ({}): one call that fails would cost the lease",
                duration_text(self.renew_interval),
                duration_text(self.lease_duration)
            );
            check.refuse("recommender.renewInterval", message);
        }
        if !self.lease_duration.as_millis().is_multiple_of(1000) {
            let message = format!(
                "{} is not in whole seconds, as a Lease needs it",
                duration_text(self.lease_duration)
            );
            check.refuse("recommender.leaseDuration", message);
        }
        self.prometheus.check_together(check);
    }
}

/// The most points of a series that Prometheus gives in one answer is 11000.
const MOST_POINTS: u128 = 10_000;

impl Prometheus {
    fn check_together(&self, check: &mut Check<'_>) {
        self.access.check_together(check, "recommender.prometheus");
        let text = duration_text;
        if self.history > Duration::ZERO && self.history < self.history_step {
            let message = format!(
                "{} is shorter than recommender.prometheus.historyStep ({}); write a longer one, or 0s for none",
                text(self.history),
                text(self.history_step)
            );
            check.refuse("recommender.prometheus.history", message);
        }
        let points = self.history_chunk.as_millis().checked_div(self.history_step.as_millis());
        if points.is_some_and(|points| !(1..=MOST_POINTS).contains(&points)) {
            let message = format!(
                "{} must be from once to {MOST_POINTS} times recommender.prometheus.historyStep ({}): a server gives \
                 no more points in one answer",
                text(self.history_chunk),
                text(self.history_step)
            );
            check.refuse("recommender.prometheus.historyChunk", message);
        }
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawRecommender) -> Recommender {
    let noted = check.count_noted();
    let recommender = Recommender {
        enabled: check.flag("recommender.enabled", &raw.enabled),
        source: check.choice(
            "recommender.source",
            &raw.source,
            &[
                ("MetricsServer", UsageSource::MetricsServer),
                ("Prometheus", UsageSource::Prometheus),
                ("File", UsageSource::File),
            ],
            UsageSource::MetricsServer,
        ),
        scan_interval: check.duration("recommender.scanInterval", &raw.scan_interval, SECOND..=HOUR),
        source_timeout: check.duration("recommender.sourceTimeout", &raw.source_timeout, SECOND..=5 * MINUTE),
        file: check.optional("recommender.file", &raw.file, Check::file),
        shards: number(check, "recommender.shards", &raw.shards, 64),
        checkpoint_interval: check.duration(
            "recommender.checkpointInterval",
            &raw.checkpoint_interval,
            10 * SECOND..=24 * HOUR,
        ),
        writes_per_second: number(check, "recommender.writesPerSecond", &raw.writes_per_second, 1000),
        lease_duration: check.duration(
            "recommender.leaseDuration",
            &raw.lease_duration,
            2 * SECOND..=5 * MINUTE,
        ),
        renew_interval: check.duration(
            "recommender.renewInterval",
            &raw.renew_interval,
            500 * MILLISECOND..=MINUTE,
        ),
        metrics_server: MetricsServer {
            per_namespace: check
                .flag("recommender.metricsServer.perNamespace", &raw.metrics_server.per_namespace),
        },
        prometheus: prometheus(check, &raw.prometheus),
    };
    if check.count_noted() == noted {
        recommender.check_together(check);
    }
    recommender
}

fn prometheus(check: &mut Check<'_>, raw: &RawPrometheus) -> Prometheus {
    let path = |key: &str| format!("recommender.prometheus.{key}");
    Prometheus {
        access: prometheus::check(check, &Written::of_recommender(raw)),
        cpu_query: check.text(&path("cpuQuery"), &raw.cpu_query),
        memory_query: check.text(&path("memoryQuery"), &raw.memory_query),
        namespace_label: label(check, &path("namespaceLabel"), &raw.namespace_label),
        pod_label: label(check, &path("podLabel"), &raw.pod_label),
        container_label: label(check, &path("containerLabel"), &raw.container_label),
        history: check.duration(&path("history"), &raw.history, Duration::ZERO..=90 * 24 * HOUR),
        history_step: check.duration(&path("historyStep"), &raw.history_step, SECOND..=24 * HOUR),
        history_chunk: check.duration(&path("historyChunk"), &raw.history_chunk, MINUTE..=90 * 24 * HOUR),
    }
}

fn number(check: &mut Check<'_>, path: &str, value: &Value, most: u32) -> u32 {
    u32::try_from(check.count(path, value, 1..=most.into())).unwrap_or(most)
}
