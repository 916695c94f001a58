//! What the recommender counts.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{IntGauge, register};
use super::labels::{RecommenderStep, StepLabel, WriteResult};
use super::{Metrics, saturate};

/// Upper bounds of the buckets of the loop's steps, in seconds.
const STEP_BUCKETS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaderLabels {
    part: &'static str,
    shard: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    kind: &'static str,
    result: WriteResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DroppedLabel {
    reason: &'static str,
}

/// When the source last answered.
#[derive(Clone, Debug, Default)]
struct SourceAge(Arc<Mutex<Option<Instant>>>);

impl Collector for SourceAge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let heard = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(heard) = heard else { return Ok(()) };
        let metric = encoder.encode_descriptor(
            "recommender_source_age_seconds",
            "Time since usage was last taken without a failure",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(heard.elapsed().as_secs_f64()).encode(metric)
    }
}

/// The families of the recommender.
#[derive(Debug)]
pub(super) struct RecommenderFamilies {
    leader: Family<LeaderLabels, IntGauge>,
    steps: Family<StepLabel, Histogram>,
    accepted: Counter,
    dropped: Family<DroppedLabel, Counter>,
    aggregates: IntGauge,
    source_failures: Counter,
    source_age: SourceAge,
    writes: Family<WriteLabels, Counter>,
}

impl RecommenderFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let steps = Family::<StepLabel, Histogram>::new_with_constructor(|| Histogram::new(STEP_BUCKETS));
        r.register(
            "recommender_step_duration_seconds",
            "How long the steps of the recommender's loop took",
            steps.clone(),
        );
        for &step in RecommenderStep::ALL {
            steps.get_or_create_owned(&StepLabel { step });
        }
        let writes: Family<WriteLabels, Counter> =
            register(r, "recommender_writes", "Writes of recommendations and checkpoints, by how they ended");
        for kind in ["Recommendation", "UsageCheckpoint"] {
            for &result in WriteResult::ALL {
                writes.get_or_create_owned(&WriteLabels { kind, result });
            }
        }
        let source_age = SourceAge::default();
        r.register_collector(Box::new(source_age.clone()));
        Self {
            leader: register(r, "leader", "1 while this replica leads the part of the program"),
            steps,
            accepted: register(r, "recommender_samples", "Usage samples taken in"),
            dropped: register(
                r,
                "recommender_samples_dropped",
                "Usage samples that were not taken in, by reason",
            ),
            aggregates: register(r, "recommender_aggregates", "Containers whose usage is kept in memory"),
            source_failures: register(
                r,
                "recommender_source_failures",
                "Questions to the source of usage that failed",
            ),
            source_age,
            writes,
        }
    }
}

impl Metrics {
    /// Notes whether this replica leads a shard of a part of the program.
    pub fn leader(&self, part: &'static str, shard: u32, leads: bool) {
        self.recommender.leader.get_or_create(&LeaderLabels { part, shard }).set(leads.into());
    }

    /// Notes how long a step of the recommender's loop took.
    pub fn recommender_step(&self, step: RecommenderStep, duration: Duration) {
        self.recommender.steps.get_or_create(&StepLabel { step }).observe(duration.as_secs_f64());
    }

    /// Counts usage samples that were taken in.
    pub fn samples_accepted(&self, count: u64) {
        self.recommender.accepted.inc_by(count);
    }

    /// Counts usage samples that were not taken in. `reason` is one of a closed set.
    pub fn samples_dropped(&self, reason: &'static str, count: u64) {
        if count > 0 {
            self.recommender.dropped.get_or_create(&DroppedLabel { reason }).inc_by(count);
        }
    }

    /// Notes of how many containers the usage is kept in memory.
    pub fn aggregates(&self, count: usize) {
        self.recommender.aggregates.set(saturate(count));
    }

    /// Notes that the source of usage answered every question of a scan. The gauge
    /// `plimsoll_recommender_source_age_seconds` is the time since the last call.
    pub fn source_answered(&self) {
        *self.recommender.source_age.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Notes that usage is no longer taken, and that this is as it should be.
    pub fn source_given_up(&self) {
        *self.recommender.source_age.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.recommender.aggregates.set(0);
    }

    /// Counts questions to the source of usage that failed.
    pub fn source_failures(&self, count: u64) {
        self.recommender.source_failures.inc_by(count);
    }

    /// Counts a write of a `Recommendation` or `UsageCheckpoint`.
    pub fn object_written(&self, kind: &'static str, result: WriteResult) {
        self.recommender.writes.get_or_create(&WriteLabels { kind, result }).inc();
    }
}
