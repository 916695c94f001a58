//! Usage is taken from the source.

use std::time::{Duration, Instant};

use plimsoll_core::recommender::Sample;

use super::Shard;
use crate::metrics::{RecommenderStep, SampleOutcome};
use crate::recommender::sources::Scan;
use crate::recommender::store::Store;
use crate::status::Part;

/// What may fail, as it is told.
const SCAN: &str = "read usage";

impl<S: Store> Shard<S> {
    pub(super) async fn take_usage(&mut self) {
        let clock = self.options.clock;
        let now = clock();
        if self.attempts.is_due(now) {
            let began = Instant::now();
            let before = self.recommender.counts();
            self.source.set_namespaces(self.recommender.namespaces().map(str::to_owned).collect());
            let scan = if self.options.without_pods {
                self.take_usage_of_strangers(now).await
            } else {
                let recommender = &mut self.recommender;
                self.source.scan(now, &mut |sample| recommender.observe(sample, now)).await
            };
            self.attempts.record(clock(), &scan);
            self.note_failures(&scan);
            self.metrics.recommender_samples(&before, &self.recommender.counts());
            self.metrics.recommender_step(RecommenderStep::Usage, began.elapsed());
        }
        let before = self.recommender.counts();
        let now = clock();
        self.recommender.take_kills(now);
        self.recommender.end_scan(now);
        self.metrics.recommender_samples(&before, &self.recommender.counts());
        let shard = self.options.state.shard;
        self.metrics.recommender_size(shard, self.recommender.aggregates(), self.recommender.bytes());
        let seconds =
            |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()).as_secs_f64();
        let (success, failing) = (self.attempts.last_success(), self.attempts.failing_since());
        self.metrics.recommender_source(shard, success.map(seconds), failing.map(seconds));
    }

    /// Where nobody tells of pods, their usage does.
    async fn take_usage_of_strangers(&mut self, now: i64) -> Scan {
        let mut samples = Vec::new();
        let (recommender, mut new) = (&mut self.recommender, false);
        let scan = self
            .source
            .scan(now, &mut |sample| {
                new |= recommender.introduce(sample);
                let names = [sample.namespace, sample.pod, sample.container].map(str::to_owned);
                samples.push((names, sample.nanos, sample.cpu, sample.memory));
            })
            .await;
        if new {
            self.assign().await;
        }
        for ([namespace, pod, container], nanos, cpu, memory) in &samples {
            let sample = Sample { namespace, pod, container, nanos: *nanos, cpu: *cpu, memory: *memory };
            self.recommender.observe(&sample, now);
        }
        scan
    }

    pub(super) fn note_failures(&self, scan: &Scan) {
        for (word, count) in scan.skipped.by_reason() {
            self.metrics.recommender_skipped(outcome_of(word), count);
        }
        let Some(failure) = scan.failures.first() else {
            self.works(Part::UsageSource, SCAN);
            return;
        };
        self.metrics.recommender_source_failure();
        if self.failed(Part::UsageSource, SCAN, failure.to_string()) {
            tracing::warn!(
                scope = failure.scope,
                error = failure.message,
                further = scan.failures.len() - 1,
                samples = scan.samples,
                "the source of usage failed; what was learnt stays"
            );
        }
    }
}

fn outcome_of(word: &str) -> SampleOutcome {
    match word {
        "missing_labels" => SampleOutcome::MissingLabels,
        "duplicate" => SampleOutcome::Duplicate,
        "no_value" => SampleOutcome::NoValue,
        _ => SampleOutcome::Invalid,
    }
}
