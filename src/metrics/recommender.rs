//! What the recommender counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_core::recommender::Counts;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{FloatGauge, IntGauge, register};
use super::labels::{
    LeaderLabels, OutcomeLabel, RecommenderStep, SampleOutcome, ShardLabel, StepLabel, WriteLabels,
    WriteResult,
};
use super::{Metrics, saturate};
use crate::status::{Part, of_shard};

/// Upper bounds of the buckets of a step's duration, in seconds.
const STEP_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// What the recommender counts. Gauges are by shard; a replica that does not lead a shard has none for it.
#[derive(Debug)]
pub(super) struct RecommenderFamilies {
    steps: Family<StepLabel, Histogram, fn() -> Histogram>,
    samples: Family<OutcomeLabel, Counter>,
    kills: Counter,
    aggregates: Family<ShardLabel, IntGauge>,
    bytes: Family<ShardLabel, IntGauge>,
    last_success: Family<ShardLabel, FloatGauge>,
    failing_since: Family<ShardLabel, FloatGauge>,
    source_failures: Counter,
    leader: Family<LeaderLabels, IntGauge>,
    writes: Family<WriteLabels, Counter>,
    set_aside: Counter,
}

impl RecommenderFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let steps: Family<StepLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(STEP_BUCKETS));
        r.register(
            "recommender_step_duration_seconds",
            "Time that a step of a scan of the recommender took",
            steps.clone(),
        );
        for &step in RecommenderStep::ALL {
            steps.get_or_create_owned(&StepLabel { step });
        }
        let samples: Family<OutcomeLabel, Counter> =
            register(r, "recommender_samples", "Samples of usage, by what became of them");
        for &outcome in SampleOutcome::ALL {
            samples.get_or_create_owned(&OutcomeLabel { outcome });
        }
        let writes: Family<WriteLabels, Counter> =
            register(r, "recommender_writes", "Writes of recommendations and checkpoints, by how they ended");
        for kind in ["Recommendation", "UsageCheckpoint"] {
            for &result in WriteResult::ALL {
                writes.get_or_create_owned(&WriteLabels { kind, result });
            }
        }
        Self {
            leader: register(r, "leader", "1 while this replica leads the part of the program"),
            steps,
            samples,
            kills: register(r, "recommender_kills", "Kills for memory that were taken in"),
            aggregates: register(r, "recommender_aggregates", "Containers there are histograms of"),
            bytes: register(r, "recommender_histogram_bytes", "Memory that the histograms take"),
            last_success: register(
                r,
                "recommender_source_last_success_timestamp_seconds",
                "When the source of usage last answered, in seconds since the epoch",
            ),
            failing_since: register(
                r,
                "recommender_source_failing_since_timestamp_seconds",
                "Since when the source of usage has not answered, in seconds since the epoch; 0 while it does",
            ),
            source_failures: register(
                r,
                "recommender_source_failures",
                "Questions to the source of usage that failed, as a whole or in part",
            ),
            writes,
            set_aside: register(r, "recommender_checkpoints_set_aside", "Checkpoints that could not be used"),
        }
    }
}

impl Metrics {
    /// Notes how long a step of a scan took.
    pub fn recommender_step(&self, step: RecommenderStep, took: Duration) {
        self.recommender.steps.get_or_create(&StepLabel { step }).observe(took.as_secs_f64());
    }

    /// Adds what became of samples between two counts.
    pub fn recommender_samples(&self, before: &Counts, now: &Counts) {
        let of = |counts: &Counts| {
            [
                (SampleOutcome::Accepted, counts.accepted),
                (SampleOutcome::Future, counts.dropped.future),
                (SampleOutcome::Invalid, counts.dropped.invalid),
                (SampleOutcome::Duplicate, counts.dropped.duplicate),
                (SampleOutcome::Old, counts.dropped.old),
                (SampleOutcome::UnknownPod, counts.unknown),
                (SampleOutcome::NotRunning, counts.not_running),
                (SampleOutcome::Unmatched, counts.unmatched),
            ]
        };
        for ((outcome, before), (_, now)) in of(before).into_iter().zip(of(now)) {
            self.recommender_skipped(outcome, now.saturating_sub(before));
        }
        self.recommender.kills.inc_by(now.kills.saturating_sub(before.kills));
    }

    /// Adds samples that the source could not make sense of.
    pub fn recommender_skipped(&self, outcome: SampleOutcome, count: u64) {
        if count > 0 {
            self.recommender.samples.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
        }
    }

    /// Notes how much a shard holds.
    pub fn recommender_size(&self, shard: u32, aggregates: usize, bytes: usize) {
        self.recommender.aggregates.get_or_create(&ShardLabel { shard }).set(saturate(aggregates));
        self.recommender.bytes.get_or_create(&ShardLabel { shard }).set(saturate(bytes));
    }

    /// Notes how the source is: when it last answered, and since when it has not; in seconds since the epoch.
    pub fn recommender_source(&self, shard: u32, last_success: Option<f64>, failing_since: Option<f64>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let age = last_success.map(|time| Duration::try_from_secs_f64(now - time).unwrap_or_default());
        self.health.one_fresh_since(Part::UsageSource, of_shard(shard), age);
        let shard = ShardLabel { shard };
        if let Some(time) = last_success {
            self.recommender.last_success.get_or_create(&shard).set(time);
        }
        self.recommender.failing_since.get_or_create(&shard).set(failing_since.unwrap_or_default());
    }

    /// Counts a question to the source that failed.
    pub fn recommender_source_failure(&self) {
        self.recommender.source_failures.inc();
    }

    /// Counts a write of a `Recommendation` or `UsageCheckpoint`.
    pub fn object_written(&self, kind: &'static str, result: WriteResult) {
        self.recommender.writes.get_or_create(&WriteLabels { kind, result }).inc();
    }

    /// Notes whether this replica leads a shard of a part of the program.
    pub fn leader(&self, part: &'static str, shard: u32, leads: bool) {
        self.recommender.leader.get_or_create(&LeaderLabels { part, shard }).set(leads.into());
    }

    /// Counts a checkpoint that could not be used.
    pub fn recommender_set_aside(&self) {
        self.recommender.set_aside.inc();
    }

    /// Another replica leads the shard from now on.
    pub fn recommender_given_up(&self, shard: u32) {
        let shard = ShardLabel { shard };
        self.recommender.aggregates.remove(&shard);
        self.recommender.bytes.remove(&shard);
        self.recommender.last_success.remove(&shard);
        self.recommender.failing_since.remove(&shard);
    }
}
