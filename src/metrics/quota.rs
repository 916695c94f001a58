//! What quota counts.

use std::time::Duration;

use plimsoll_core::quota::Amounts;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{FloatGauge, IntGauge, register};
use super::labels::{
    ClaimEvent, ClaimLabel, EvictionLabel, EvictionResult, LedgerWrite, LedgerWriteLabel, QuotaOutcome,
    QuotaOutcomeLabel, TreeLabels,
};
use super::{Metrics, saturate};
use crate::crd::LedgerCounts;

/// Upper bounds of the buckets of a batch's size.
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Upper bounds of the buckets of a write's duration, in seconds.
const WRITE_BUCKETS: [f64; 10] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// What quota counts. The size of the ledger is as this replica wrote it last.
#[derive(Debug)]
pub(super) struct QuotaFamilies {
    decisions: Family<QuotaOutcomeLabel, Counter>,
    batch: Histogram,
    write_duration: Histogram,
    writes: Family<LedgerWriteLabel, Counter>,
    bytes: IntGauge,
    pods: IntGauge,
    reservations: IntGauge,
    claims: IntGauge,
    recounts: Counter,
    drifts: Counter,
    last_drift: IntGauge,
    evictions: Family<EvictionLabel, Counter>,
    claim_events: Family<ClaimLabel, Counter>,
    used: Family<TreeLabels, FloatGauge>,
    requested: Family<TreeLabels, FloatGauge>,
    max: Family<TreeLabels, FloatGauge>,
}

impl QuotaFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let decisions: Family<QuotaOutcomeLabel, Counter> = register(
            r,
            "quota_decisions",
            "Pods and resizes in bound namespaces that were decided about, by outcome",
        );
        for &outcome in QuotaOutcome::ALL {
            decisions.get_or_create_owned(&QuotaOutcomeLabel { outcome });
        }
        let batch = Histogram::new(BATCH_BUCKETS);
        r.register("quota_batch_size", "Requests that were decided together, in one write", batch.clone());
        let write_duration = Histogram::new(WRITE_BUCKETS);
        r.register(
            "quota_ledger_write_duration_seconds",
            "Time that a write of the ledger took",
            write_duration.clone(),
        );
        let writes: Family<LedgerWriteLabel, Counter> =
            register(r, "quota_ledger_writes", "Writes of the ledger, by how they ended");
        for &result in LedgerWrite::ALL {
            writes.get_or_create_owned(&LedgerWriteLabel { result });
        }
        let evictions: Family<EvictionLabel, Counter> =
            register(r, "quota_evictions", "Evictions for owners of guaranteed room, by how they ended");
        for &result in EvictionResult::ALL {
            evictions.get_or_create_owned(&EvictionLabel { result });
        }
        let claim_events: Family<ClaimLabel, Counter> =
            register(r, "quota_claim_events", "Claims to guaranteed room, by what became of them");
        for &event in ClaimEvent::ALL {
            claim_events.get_or_create_owned(&ClaimLabel { event });
        }
        Self {
            decisions,
            batch,
            write_duration,
            writes,
            bytes: register(r, "quota_ledger_bytes", "Size of the ledger's content as it was last written"),
            pods: register(r, "quota_ledger_pods", "Counted pods in the ledger as it was last written"),
            reservations: register(
                r,
                "quota_ledger_reservations",
                "Reservations in the ledger as it was last written: pods admitted and not counted yet",
            ),
            claims: register(
                r,
                "quota_ledger_claims",
                "Claims in the ledger as it was last written: owners that wait for guaranteed room",
            ),
            recounts: register(r, "quota_recounts", "Times that all pods were listed and counted anew"),
            drifts: register(r, "quota_drifts", "Recounts that found another usage than the ledger had"),
            last_drift: register(
                r,
                "quota_last_drift_namespaces",
                "Namespaces whose usage was another than the ledger's at the last recount",
            ),
            evictions,
            claim_events,
            used: register(r, "quota_used", "Usage of the whole tree, reservations included, by resource"),
            requested: register(
                r,
                "quota_requested",
                "Usage of the whole tree and what open claims wait for, by resource",
            ),
            max: register(r, "quota_max", "Maximum of the tree's root, by resource"),
        }
    }
}

impl Metrics {
    /// Counts what was decided about a pod or a resize.
    pub fn quota_decision(&self, outcome: QuotaOutcome) {
        self.quota.decisions.get_or_create(&QuotaOutcomeLabel { outcome }).inc();
    }

    /// Notes how many requests were decided together.
    pub fn quota_batch(&self, requests: usize) {
        self.quota.batch.observe(f64::from(u32::try_from(requests).unwrap_or(u32::MAX)));
    }

    /// Counts a write of the ledger, and notes how long it took.
    pub fn ledger_write(&self, result: LedgerWrite, took: Duration) {
        self.quota.writes.get_or_create(&LedgerWriteLabel { result }).inc();
        self.quota.write_duration.observe(took.as_secs_f64());
    }

    /// Notes how much is in the ledger.
    pub fn ledger_size(&self, counts: &LedgerCounts, bytes: usize) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.quota.bytes.set(saturate(bytes));
        self.quota.pods.set(number(counts.pods));
        self.quota.reservations.set(number(counts.reservations));
        self.quota.claims.set(number(counts.claims));
    }

    /// Counts that all pods were counted anew; `namespaces` is how many had another usage than the ledger said.
    pub fn quota_recount(&self, namespaces: usize) {
        self.quota.recounts.inc();
        self.quota.drifts.inc_by(u64::from(namespaces > 0));
        self.quota.last_drift.set(saturate(namespaces));
    }

    /// Counts an eviction.
    pub fn quota_eviction(&self, result: EvictionResult) {
        self.quota.evictions.get_or_create(&EvictionLabel { result }).inc();
    }

    /// Counts what became of a claim.
    pub fn quota_claim(&self, event: ClaimEvent) {
        self.quota.claim_events.get_or_create(&ClaimLabel { event }).inc();
    }

    /// Notes what a tree has at its root, in place of what was noted before.
    pub fn quota_tree(&self, tree: &str, used: &Amounts, requested: &Amounts, max: &Amounts) {
        self.quota_tree_gone();
        for (family, amounts) in
            [(&self.quota.used, used), (&self.quota.requested, requested), (&self.quota.max, max)]
        {
            for (resource, nanos) in amounts.iter() {
                let labels = TreeLabels { tree: tree.to_owned(), resource: resource.to_string() };
                family.get_or_create(&labels).set(units(nanos));
            }
        }
    }

    /// There is no tree, or another replica tells of it from now on.
    pub fn quota_tree_gone(&self) {
        for family in [&self.quota.used, &self.quota.requested, &self.quota.max] {
            family.clear();
        }
    }
}

/// Whole units, such as cores or bytes.
#[expect(clippy::cast_precision_loss, reason = "a gauge is no more exact than that")]
fn units(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_series_only() {
        let metrics = Metrics::new("test");
        let amounts = |entries: &[(&str, i128)]| entries.iter().copied().collect::<Amounts>();
        let billion = 1_000_000_000;
        metrics.quota_tree(
            "old",
            &amounts(&[("cpu", 5 * billion)]),
            &amounts(&[]),
            &amounts(&[("gpu", 4 * billion)]),
        );
        metrics.quota_tree("new", &amounts(&[("cpu", billion / 2)]), &amounts(&[]), &amounts(&[]));
        let text = metrics.encode();
        assert!(text.contains("plimsoll_quota_used{tree=\"new\",resource=\"cpu\"} 0.5\n"), "{text}");
        assert!(!text.contains("tree=\"old\""), "{text}");
    }

    #[test]
    fn a_recount_that_found_nothing_is_no_drift() {
        let metrics = Metrics::new("test");
        metrics.quota_recount(3);
        metrics.quota_recount(0);
        let text = metrics.encode();
        for line in ["quota_recounts_total 2", "quota_drifts_total 1", "quota_last_drift_namespaces 0"] {
            assert!(text.contains(&format!("plimsoll_{line}\n")), "{line}: {text}");
        }
    }
}
