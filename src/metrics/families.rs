//! The families in groups, each with its names and help texts.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::labels::{
    AdmissionLabels, KindLabel, NamespaceRead, NamespaceReadLabel, ProfileLabel, ProfileState, ReasonLabel,
    ReloadLabel, ReloadResult, StageLabel,
};
use super::snapshot_age::SnapshotAges;
use crate::server::Stage;

/// Upper bounds of the admission latency buckets, in seconds.
const LATENCY_BUCKETS: [f64; 12] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

pub(super) type FloatCounter = Counter<f64, AtomicU64>;
pub(super) type FloatGauge = Gauge<f64, AtomicU64>;
pub(super) type IntGauge = Gauge<i64, AtomicI64>;

/// Makes a metric, registers it and returns it.
pub(super) fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The handles of one stage that each request touches.
#[derive(Debug)]
pub(super) struct StageHandles {
    pub(super) duration: Histogram,
    pub(super) shed: Counter,
}

/// What happens to admission requests.
#[derive(Debug)]
pub(super) struct AdmissionFamilies {
    pub(super) requests: Family<AdmissionLabels, Counter>,
    mutate: StageHandles,
    validate: StageHandles,
    pub(super) in_flight: IntGauge,
    pub(super) panics: Counter,
    pub(super) self_check_failures: Counter,
    pub(super) namespace_reads: Family<NamespaceReadLabel, Counter>,
    pub(super) before_cpu: FloatCounter,
    pub(super) after_cpu: FloatCounter,
    pub(super) before_memory: FloatCounter,
    pub(super) after_memory: FloatCounter,
}

impl AdmissionFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let durations =
            Family::<StageLabel, Histogram>::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS));
        r.register(
            "admission_duration_seconds",
            "Time from the whole request read to the answer ready, waiting for a slot included",
            durations.clone(),
        );
        let shed: Family<StageLabel, Counter> =
            register(r, "admission_shed", "Admission requests turned away because the server was full");
        let handles = |stage: Stage| StageHandles {
            duration: durations.get_or_create_owned(&StageLabel { stage: stage.as_str() }),
            shed: shed.get_or_create_owned(&StageLabel { stage: stage.as_str() }),
        };
        let namespace_reads: Family<NamespaceReadLabel, Counter> = register(
            r,
            "namespace_reads",
            "Live reads of namespaces that the snapshot did not hold yet, by how they ended",
        );
        for &result in NamespaceRead::ALL {
            namespace_reads.get_or_create_owned(&NamespaceReadLabel { result });
        }
        Self {
            requests: register(r, "admission_requests", "Admission requests answered, by how they ended"),
            mutate: handles(Stage::Mutate),
            validate: handles(Stage::Validate),
            in_flight: register(r, "admission_in_flight", "Admission requests that hold a slot now"),
            panics: register(r, "admission_panics", "Panics caught while answering an admission request"),
            self_check_failures: register(
                r,
                "self_check_failures",
                "Patches not sent because applying them did not give what was wanted",
            ),
            namespace_reads,
            before_cpu: register(
                r,
                "requested_before_cpu_cores",
                "Sum of the CPU requests of admitted pods before lowering, in cores",
            ),
            after_cpu: register(
                r,
                "requested_after_cpu_cores",
                "Sum of the CPU requests of admitted pods after lowering, in cores",
            ),
            before_memory: register(
                r,
                "requested_before_memory_bytes",
                "Sum of the memory requests of admitted pods before lowering, in bytes",
            ),
            after_memory: register(
                r,
                "requested_after_memory_bytes",
                "Sum of the memory requests of admitted pods after lowering, in bytes",
            ),
        }
    }

    pub(super) fn stage(&self, stage: Stage) -> &StageHandles {
        match stage {
            Stage::Mutate => &self.mutate,
            Stage::Validate => &self.validate,
        }
    }
}

/// What the server works with: configuration and snapshots.
#[derive(Debug)]
pub(super) struct StateFamilies {
    pub(super) config_reloads: Family<ReloadLabel, Counter>,
    pub(super) config_last_success: FloatGauge,
    pub(super) profiles: Family<ProfileLabel, IntGauge>,
    pub(super) snapshot_objects: Family<KindLabel, IntGauge>,
    pub(super) snapshot_synced: Family<KindLabel, IntGauge>,
    pub(super) snapshot_ages: SnapshotAges,
    pub(super) watch_errors: Family<KindLabel, Counter>,
    pub(super) objects_refused: Family<KindLabel, Counter>,
    pub(super) degraded: Family<ReasonLabel, IntGauge>,
}

impl StateFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let snapshot_ages = SnapshotAges::default();
        r.register_collector(Box::new(snapshot_ages.clone()));
        let profiles: Family<ProfileLabel, IntGauge> =
            register(r, "profiles", "Overcommit profiles known, by state");
        for &state in ProfileState::ALL {
            profiles.get_or_create_owned(&ProfileLabel { state });
        }
        Self {
            config_reloads: reloads(
                r,
                "config_reloads",
                "Attempts to take up a changed configuration, by result",
            ),
            config_last_success: register(
                r,
                "config_last_reload_success_timestamp_seconds",
                "When the configuration in use was loaded, in seconds since the epoch",
            ),
            profiles,
            snapshot_objects: register(r, "snapshot_objects", "Objects in the snapshot, by kind"),
            snapshot_synced: register(r, "snapshot_synced", "1 once the first list of the kind is complete"),
            snapshot_ages,
            watch_errors: register(r, "watch_errors", "Failed lists and watches, by kind"),
            objects_refused: register(
                r,
                "objects_refused",
                "Objects left out of the snapshot because they cannot be used, by kind",
            ),
            degraded: register(
                r,
                "degraded",
                "1 while the server works without something it wants, by reason",
            ),
        }
    }
}

pub(super) fn reloads(r: &mut Registry, name: &str, help: &str) -> Family<ReloadLabel, Counter> {
    let family: Family<ReloadLabel, Counter> = register(r, name, help);
    for &result in ReloadResult::ALL {
        family.get_or_create_owned(&ReloadLabel { result });
    }
    family
}
