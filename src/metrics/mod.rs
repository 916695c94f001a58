//! What the server counts.
//!
//! One [`Metrics`] is made at start and passed down. Handles of the hot path are resolved once, here, so that a
//! request costs a few atomic additions. `docs/metrics.md` lists every family; a test compares it with this module.

mod labels;
mod process;
mod snapshot_age;

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::labels::{
    AdmissionLabels, CodeLabel, KindLabel, NamespaceReadLabel, ProfileLabel, ReasonLabel, ReloadLabel,
    StageLabel, VersionLabel,
};
pub use self::labels::{NamespaceRead, Operation, ProfileState, ReloadResult};
use self::process::ProcessCollector;
use self::snapshot_age::SnapshotAges;
use crate::server::Stage;

/// The media type of what [`Metrics::encode`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the admission latency buckets, in seconds.
const LATENCY_BUCKETS: [f64; 12] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

type FloatCounter = Counter<f64, AtomicU64>;
type FloatGauge = Gauge<f64, AtomicU64>;
type IntGauge = Gauge<i64, AtomicI64>;

/// Everything the server counts, and the registry that prints it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admission_requests: Family<AdmissionLabels, Counter>,
    mutate: StageHandles,
    validate: StageHandles,
    in_flight: IntGauge,
    panics: Counter,
    self_check_failures: Counter,
    namespace_reads: Family<NamespaceReadLabel, Counter>,
    requested_before_cpu: FloatCounter,
    requested_after_cpu: FloatCounter,
    requested_before_memory: FloatCounter,
    requested_after_memory: FloatCounter,
    http_rejected: Family<CodeLabel, Counter>,
    connections: IntGauge,
    connections_accepted: Counter,
    connection_limit_waits: Counter,
    accept_errors: Counter,
    tls_handshake_failures: Counter,
    tls_not_after: IntGauge,
    tls_reloads: Family<ReloadLabel, Counter>,
    config_reloads: Family<ReloadLabel, Counter>,
    config_last_success: FloatGauge,
    profiles: Family<ProfileLabel, IntGauge>,
    snapshot_objects: Family<KindLabel, IntGauge>,
    snapshot_synced: Family<KindLabel, IntGauge>,
    snapshot_ages: SnapshotAges,
    watch_errors: Family<KindLabel, Counter>,
    degraded: Family<ReasonLabel, IntGauge>,
}

/// The handles of one stage that each request touches.
#[derive(Debug)]
struct StageHandles {
    duration: Histogram,
    shed: Counter,
}

impl Metrics {
    /// Makes the registry with every family in it. `version` is shown by `plimsoll_build_info`.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut root = Registry::default();
        root.register_collector(Box::new(ProcessCollector));
        let r = root.sub_registry_with_prefix("plimsoll");

        r.register("build", "The running version", Info::new(VersionLabel { version: version.to_owned() }));

        let duration =
            Family::<StageLabel, Histogram>::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS));
        r.register(
            "admission_duration_seconds",
            "Time from the whole request read to the answer ready, waiting for a slot included",
            duration.clone(),
        );
        let shed = Family::<StageLabel, Counter>::default();
        r.register(
            "admission_shed",
            "Admission requests turned away because the server was full",
            shed.clone(),
        );
        let handles = |stage| StageHandles {
            duration: duration.get_or_create_owned(&StageLabel { stage }),
            shed: shed.get_or_create_owned(&StageLabel { stage }),
        };
        let (mutate, validate) = (handles(Stage::Mutate), handles(Stage::Validate));

        let mut metrics = Self {
            admission_requests: register(
                r,
                "admission_requests",
                "Admission requests answered, by how they ended",
            ),
            mutate,
            validate,
            in_flight: register(r, "admission_in_flight", "Admission requests that hold a slot now"),
            panics: register(r, "admission_panics", "Panics caught while answering an admission request"),
            self_check_failures: register(
                r,
                "self_check_failures",
                "Patches not sent because applying them did not give what was wanted",
            ),
            namespace_reads: register(
                r,
                "namespace_reads",
                "Look-ups of a pod's namespace, by where it was found",
            ),
            requested_before_cpu: register(
                r,
                "requested_before_cpu_cores",
                "Sum of the CPU requests of admitted pods before lowering, in cores",
            ),
            requested_after_cpu: register(
                r,
                "requested_after_cpu_cores",
                "Sum of the CPU requests of admitted pods after lowering, in cores",
            ),
            requested_before_memory: register(
                r,
                "requested_before_memory_bytes",
                "Sum of the memory requests of admitted pods before lowering, in bytes",
            ),
            requested_after_memory: register(
                r,
                "requested_after_memory_bytes",
                "Sum of the memory requests of admitted pods after lowering, in bytes",
            ),
            http_rejected: register(
                r,
                "http_rejected",
                "HTTP requests refused before admission, by status code",
            ),
            connections: register(r, "connections", "Open connections of the admission listener"),
            connections_accepted: register(
                r,
                "connections_accepted",
                "Connections accepted by the admission listener",
            ),
            connection_limit_waits: register(
                r,
                "connection_limit_waits",
                "Times the listener stopped accepting because the connection limit was reached",
            ),
            accept_errors: register(r, "accept_errors", "Errors while accepting connections"),
            tls_handshake_failures: register(
                r,
                "tls_handshake_failures",
                "TLS handshakes that failed or took too long",
            ),
            tls_not_after: register(
                r,
                "tls_certificate_not_after_seconds",
                "End of validity of the served certificate, in seconds since the epoch",
            ),
            tls_reloads: register(
                r,
                "tls_reloads",
                "Attempts to take up changed certificate files, by result",
            ),
            config_reloads: register(
                r,
                "config_reloads",
                "Attempts to take up a changed configuration, by result",
            ),
            config_last_success: register(
                r,
                "config_last_reload_success_timestamp_seconds",
                "When the configuration in use was loaded, in seconds since the epoch",
            ),
            profiles: register(r, "profiles", "Overcommit profiles known, by state"),
            snapshot_objects: register(r, "snapshot_objects", "Objects in the snapshot, by kind"),
            snapshot_synced: register(
                r,
                "snapshot_synced",
                "1 once the first list of the kind is complete, by kind",
            ),
            snapshot_ages: SnapshotAges::default(),
            watch_errors: register(r, "watch_errors", "Failed lists and watches, by kind"),
            degraded: register(
                r,
                "degraded",
                "1 while the server works without something it wants, by reason",
            ),
            registry: Registry::default(),
        };
        r.register_collector(Box::new(metrics.snapshot_ages.clone()));
        metrics.registry = root;
        metrics.preset();
        metrics
    }

    /// Makes the series of closed sets exist from the start: a rate over a series that appears with its first
    /// failure misses that failure.
    fn preset(&self) {
        for &result in ReloadResult::ALL {
            self.tls_reloads.get_or_create_owned(&ReloadLabel { result });
            self.config_reloads.get_or_create_owned(&ReloadLabel { result });
        }
        for &result in NamespaceRead::ALL {
            self.namespace_reads.get_or_create_owned(&NamespaceReadLabel { result });
        }
        for &state in ProfileState::ALL {
            self.profiles.get_or_create_owned(&ProfileLabel { state });
        }
        for code in [400, 404, 405, 408, 413, 415, 429, 431, 500] {
            self.http_rejected.get_or_create_owned(&CodeLabel { code });
        }
    }

    fn stage(&self, stage: Stage) -> &StageHandles {
        match stage {
            Stage::Mutate => &self.mutate,
            Stage::Validate => &self.validate,
        }
    }

    /// Counts one answered admission request. `outcome` is one of a closed set: `applied`, `unchanged`,
    /// `skipped_<reason>`, `denied`, `error`.
    pub fn admission_request(&self, stage: Stage, operation: Operation, outcome: &'static str) {
        self.admission_requests.get_or_create(&AdmissionLabels { stage, operation, outcome }).inc();
    }

    /// Notes how long one admission request took.
    pub fn admission_duration(&self, stage: Stage, duration: Duration) {
        self.stage(stage).duration.observe(duration.as_secs_f64());
    }

    /// Counts a request as in flight until the guard is dropped.
    #[must_use]
    pub fn admission_in_flight(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_flight)
    }

    /// Counts an admission request that was turned away because the server was full.
    pub fn admission_shed(&self, stage: Stage) {
        self.stage(stage).shed.inc();
    }

    /// Counts a panic that was caught while an admission request was answered.
    pub fn admission_panic(&self) {
        self.panics.inc();
    }

    /// Counts a patch that was not sent because its self-check failed.
    pub fn self_check_failure(&self) {
        self.self_check_failures.inc();
    }

    /// Counts a look-up of a pod's namespace.
    pub fn namespace_read(&self, result: NamespaceRead) {
        self.namespace_reads.get_or_create(&NamespaceReadLabel { result }).inc();
    }

    /// Adds one pod's CPU requests, in cores, before and after lowering.
    pub fn requested_cpu(&self, before_cores: f64, after_cores: f64) {
        add(&self.requested_before_cpu, before_cores);
        add(&self.requested_after_cpu, after_cores);
    }

    /// Adds one pod's memory requests, in bytes, before and after lowering.
    pub fn requested_memory(&self, before_bytes: f64, after_bytes: f64) {
        add(&self.requested_before_memory, before_bytes);
        add(&self.requested_after_memory, after_bytes);
    }

    /// Counts an HTTP request that was refused with `code` before admission saw it.
    pub fn http_rejected(&self, code: http::StatusCode) {
        self.http_rejected.get_or_create(&CodeLabel { code: code.as_u16() }).inc();
    }

    /// Counts an accepted connection, and counts it as open until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> GaugeGuard {
        self.connections_accepted.inc();
        GaugeGuard::new(&self.connections)
    }

    /// Counts that accepting stopped because the connection limit was reached.
    pub fn connection_limit_wait(&self) {
        self.connection_limit_waits.inc();
    }

    /// Counts an error of the listening socket.
    pub fn accept_error(&self) {
        self.accept_errors.inc();
    }

    /// Counts a TLS handshake that failed or took too long.
    pub fn tls_handshake_failure(&self) {
        self.tls_handshake_failures.inc();
    }

    /// Notes the end of validity of the served certificate, in seconds since the epoch.
    pub fn tls_not_after(&self, seconds: i64) {
        self.tls_not_after.set(seconds);
    }

    /// Counts an attempt to take up changed certificate files.
    pub fn tls_reload(&self, result: ReloadResult) {
        self.tls_reloads.get_or_create(&ReloadLabel { result }).inc();
    }

    /// Counts an attempt to take up a changed configuration. After a success also call
    /// [`config_loaded`](Self::config_loaded).
    pub fn config_reload(&self, result: ReloadResult) {
        self.config_reloads.get_or_create(&ReloadLabel { result }).inc();
    }

    /// Notes when the configuration in use was loaded, in seconds since the epoch.
    pub fn config_loaded(&self, seconds: f64) {
        self.config_last_success.set(seconds);
    }

    /// Notes how many profiles are in `state`.
    pub fn profiles(&self, state: ProfileState, count: usize) {
        self.profiles.get_or_create(&ProfileLabel { state }).set(saturate(count));
    }

    /// Notes how many objects of `kind` the snapshot holds.
    pub fn snapshot_objects(&self, kind: &'static str, count: usize) {
        self.snapshot_objects.get_or_create(&KindLabel { kind }).set(saturate(count));
    }

    /// Notes whether the first list of `kind` is complete.
    pub fn snapshot_synced(&self, kind: &'static str, synced: bool) {
        self.snapshot_synced.get_or_create(&KindLabel { kind }).set(synced.into());
    }

    /// Notes that the API server was heard about `kind` just now: an event, a bookmark or a list. The gauge
    /// `plimsoll_snapshot_age_seconds` is the time since the last call.
    pub fn snapshot_heard(&self, kind: &'static str) {
        self.snapshot_ages.heard(kind);
    }

    /// Counts a failed list or watch of `kind`.
    pub fn watch_error(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&KindLabel { kind }).inc();
    }

    /// Notes whether the server works without something it wants, such as an absent CRD.
    pub fn degraded(&self, reason: &'static str, degraded: bool) {
        self.degraded.get_or_create(&ReasonLabel { reason }).set(degraded.into());
    }

    /// All families in the OpenMetrics text format, whose media type is [`CONTENT_TYPE`].
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        // Writing to a `String` does not fail; a collector that did would only shorten this scrape.
        if text::encode(&mut out, &self.registry).is_err() {
            tracing::warn!("the metrics could not be printed completely");
        }
        out
    }
}

/// Adds one to a gauge while it lives.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Makes a metric, registers it and returns it.
fn register<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Adds to a counter, which must never go down: what is not a positive number is left out.
fn add(counter: &FloatCounter, value: f64) {
    if value.is_finite() && value > 0.0 {
        counter.inc_by(value);
    }
}

fn saturate(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
