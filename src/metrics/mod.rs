//! What the server counts.
//!
//! One [`Metrics`] is made at start and passed down. Handles of the hot path are resolved once, at registration, so
//! that a request costs a few atomic additions. `docs/metrics.md` lists every family; a test compares the two.

mod balance;
mod certificates;
mod extender;
mod families;
mod hpa;
mod hpa_api;
mod labels;
mod listener;
mod nodes;
mod placement_load;
mod problems;
mod process;
mod quota;
mod recommender;
mod snapshot_age;

use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::balance::BalanceFamilies;
use self::certificates::CertificateFamilies;
use self::extender::ExtenderFamilies;
use self::families::{AdmissionFamilies, FloatCounter, IntGauge, StateFamilies};
use self::hpa::HpaFamilies;
use self::hpa_api::HpaApiFamilies;
use self::labels::{
    AdmissionLabels, KindLabel, NamespaceReadLabel, ProfileLabel, ReasonLabel, ReloadLabel, VersionLabel,
};
pub use self::labels::{
    ApiGroup, ApiOutcome, BalanceEviction, ClaimEvent, EvictionResult, ExtenderOutcome, ExtenderVerb,
    HpaOutcome, HpaState, HpaWrite, LedgerWrite, LoadOf, LoadState, NamespaceRead, NodeWrite, Operation,
    PlacedState, ProfileState, QuotaOutcome, RecommenderStep, ReloadResult, ReviewKind, ReviewResult,
    RotationStep, SampleOutcome, ScaleOutcome, UpstreamError, WeightsOf, WriteResult,
};
pub use self::listener::ListenerMetrics;
use self::nodes::NodesFamilies;
use self::placement_load::LoadFamilies;
use self::problems::Problems;
use self::process::ProcessCollector;
use self::quota::QuotaFamilies;
use self::recommender::RecommenderFamilies;
use crate::server::Stage;
use crate::status::{Health, Part};

/// The media type of what [`Metrics::encode`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything the server counts, and the registry that prints it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admission: AdmissionFamilies,
    listener: ListenerMetrics,
    state: StateFamilies,
    recommender: RecommenderFamilies,
    quota: QuotaFamilies,
    hpa: HpaFamilies,
    hpa_api: HpaApiFamilies,
    balance: BalanceFamilies,
    extender: ExtenderFamilies,
    nodes: NodesFamilies,
    load: LoadFamilies,
    certificates: CertificateFamilies,
    health: Health,
}

impl Metrics {
    /// Makes the registry with every family in it. `version` is shown by `plimsoll_build_info`.
    ///
    /// Series of closed sets exist from the start: a rate over a series that appears with its first failure misses
    /// that failure.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let r = registry.sub_registry_with_prefix("plimsoll");
        r.register("build", "The running version", Info::new(VersionLabel { version: version.to_owned() }));
        let health = Health::default();
        let admission = AdmissionFamilies::register(r);
        let listener = ListenerMetrics::register(r, "", "admission", &health);
        let state = StateFamilies::register(r);
        let recommender = RecommenderFamilies::register(r);
        let quota = QuotaFamilies::register(r);
        let hpa = HpaFamilies::register(r);
        let hpa_api = HpaApiFamilies::register(r, &health);
        let balance = BalanceFamilies::register(r);
        let extender = ExtenderFamilies::register(r, &health);
        let nodes = NodesFamilies::register(r);
        let load = LoadFamilies::register(r);
        let certificates = CertificateFamilies::register(r);
        r.register_collector(Box::new(Problems(health.clone())));
        Self {
            registry,
            admission,
            listener,
            state,
            recommender,
            quota,
            hpa,
            hpa_api,
            balance,
            extender,
            nodes,
            load,
            certificates,
            health,
        }
    }

    /// What fails now, for people who look: beside being counted, it is told there in words.
    #[must_use]
    pub const fn health(&self) -> &Health {
        &self.health
    }

    /// The age of the snapshot that is the oldest; nothing while none was read.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Option<Duration> {
        self.state.snapshot_ages.oldest()
    }

    /// Counts one answered admission request. `outcome` is one of a closed set: `applied`, `unchanged`,
    /// `skipped_<reason>`, `denied`, `error`.
    pub fn admission_request(&self, stage: Stage, operation: Operation, outcome: &'static str) {
        self.admission
            .requests
            .get_or_create(&AdmissionLabels { stage: stage.as_str(), operation, outcome })
            .inc();
    }

    /// Notes how long one admission request took.
    pub fn admission_duration(&self, stage: Stage, duration: Duration) {
        self.admission.stage(stage).duration.observe(duration.as_secs_f64());
    }

    /// Counts a request as in flight until the guard is dropped.
    #[must_use]
    pub fn admission_in_flight(&self) -> GaugeGuard {
        GaugeGuard::new(&self.admission.in_flight)
    }

    /// Counts an admission request that was turned away because the server was full.
    pub fn admission_shed(&self, stage: Stage) {
        self.admission.stage(stage).shed.inc();
    }

    /// Counts a panic that was caught while an admission request was answered.
    pub fn admission_panic(&self) {
        self.admission.panics.inc();
    }

    /// Counts a patch that was not sent because its self-check failed.
    pub fn self_check_failure(&self) {
        self.admission.self_check_failures.inc();
    }

    /// Counts a look-up of a pod's namespace.
    pub fn namespace_read(&self, result: NamespaceRead) {
        self.admission.namespace_reads.get_or_create(&NamespaceReadLabel { result }).inc();
    }

    /// Adds one pod's CPU requests, in cores, before and after lowering.
    pub fn requested_cpu(&self, before_cores: f64, after_cores: f64) {
        add(&self.admission.before_cpu, before_cores);
        add(&self.admission.after_cpu, after_cores);
    }

    /// Adds one pod's memory requests, in bytes, before and after lowering.
    pub fn requested_memory(&self, before_bytes: f64, after_bytes: f64) {
        add(&self.admission.before_memory, before_bytes);
        add(&self.admission.after_memory, after_bytes);
    }

    /// What pods requested before and after lowering since the start: cores, then bytes.
    #[must_use]
    pub fn requested_totals(&self) -> [[f64; 2]; 2] {
        let of = |counter: &FloatCounter| counter.get();
        [
            [of(&self.admission.before_cpu), of(&self.admission.after_cpu)],
            [of(&self.admission.before_memory), of(&self.admission.after_memory)],
        ]
    }

    /// What the listener for admission counts.
    #[must_use]
    pub const fn listener(&self) -> &ListenerMetrics {
        &self.listener
    }

    /// Counts an attempt to take up a changed configuration. After a success also call
    /// [`config_loaded`](Self::config_loaded).
    pub fn config_reload(&self, result: ReloadResult) {
        self.state.config_reloads.get_or_create(&ReloadLabel { result }).inc();
        if result == ReloadResult::Success {
            self.health.works(Part::Configuration, "reload");
        }
    }

    /// Notes when the configuration in use was loaded, in seconds since the epoch.
    pub fn config_loaded(&self, seconds: f64) {
        self.state.config_last_success.set(seconds);
    }

    /// Notes how many profiles are in `state`.
    pub fn profiles(&self, state: ProfileState, count: usize) {
        self.state.profiles.get_or_create(&ProfileLabel { state }).set(saturate(count));
    }

    /// Notes how many objects of `kind` the snapshot holds.
    pub fn snapshot_objects(&self, kind: &'static str, count: usize) {
        self.state.snapshot_objects.get_or_create(&KindLabel { kind }).set(saturate(count));
    }

    /// Notes whether the first list of `kind` is complete.
    pub fn snapshot_synced(&self, kind: &'static str, synced: bool) {
        self.state.snapshot_synced.get_or_create(&KindLabel { kind }).set(synced.into());
    }

    /// Notes that the API server was heard about `kind` just now: an event, a bookmark or a list. The gauge
    /// `plimsoll_snapshot_age_seconds` is the time since the last call.
    pub fn snapshot_heard(&self, kind: &'static str) {
        self.state.snapshot_ages.heard(kind);
    }

    /// Notes that `kind` is no longer watched, and that this is as it should be.
    pub fn snapshot_given_up(&self, kind: &'static str) {
        self.state.snapshot_ages.forget(kind);
        self.state.snapshot_synced.remove(&KindLabel { kind });
    }

    /// Counts a failed list or watch of `kind`.
    pub fn watch_error(&self, kind: &'static str) {
        self.state.watch_errors.get_or_create(&KindLabel { kind }).inc();
    }

    /// Counts an object that was left out of the snapshot because it cannot be used.
    pub fn object_refused(&self, kind: &'static str) {
        self.state.objects_refused.get_or_create(&KindLabel { kind }).inc();
    }

    /// Notes whether the server works without something it wants, such as an absent CRD.
    pub fn degraded(&self, reason: &'static str, degraded: bool) {
        self.state.degraded.get_or_create(&ReasonLabel { reason }).set(degraded.into());
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

/// Adds to a counter, which must never go down: what is not a positive number is left out.
fn add(counter: &FloatCounter, value: f64) {
    if value.is_finite() && value > 0.0 {
        counter.inc_by(value);
    }
}

fn saturate(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
