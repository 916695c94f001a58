//! What is counted about balance; on the leader only.

use plimsoll_core::balance::{Round, Spared, Verdict};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{FloatGauge, IntGauge, register};
use super::labels::{BalanceEviction, BalanceEvictionLabel, ReasonLabel, VerdictLabel};
use super::{Metrics, saturate};

/// Upper bounds of the buckets of how long planning takes, in seconds.
const PLAN_BUCKETS: [f64; 9] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5];

/// What is counted about balance.
#[derive(Debug)]
pub(super) struct BalanceFamilies {
    rounds: Family<VerdictLabel, Counter>,
    evictions: Family<BalanceEvictionLabel, Counter>,
    spared: Family<ReasonLabel, IntGauge>,
    plan_duration: Histogram,
    mean: FloatGauge,
    deviation: FloatGauge,
}

impl BalanceFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let rounds: Family<VerdictLabel, Counter> =
            register(r, "balance_rounds", "Rounds of the balance controller, by what came of them");
        for verdict in Verdict::NAMES {
            rounds.get_or_create_owned(&VerdictLabel { verdict });
        }
        let evictions: Family<BalanceEvictionLabel, Counter> =
            register(r, "balance_evictions", "Evictions from the busiest node, by how they ended");
        for &result in BalanceEviction::ALL {
            evictions.get_or_create_owned(&BalanceEvictionLabel { result });
        }
        let spared: Family<ReasonLabel, IntGauge> = register(
            r,
            "balance_pods_spared",
            "Pods of nodes that are to be relieved that stay, by reason; of the last round, on the leader only",
        );
        for reason in Spared::NAMES {
            spared.get_or_create_owned(&ReasonLabel { reason });
        }
        let plan_duration = Histogram::new(PLAN_BUCKETS);
        r.register("balance_plan_duration_seconds", "Time that planning a round took", plan_duration.clone());
        Self {
            rounds,
            evictions,
            spared,
            plan_duration,
            mean: register(
                r,
                "balance_mean_usage",
                "How busy nodes are on average, 0 to 1, as measured; on the leader only, 0 elsewhere",
            ),
            deviation: register(
                r,
                "balance_highest_deviation",
                "How far the busiest node is above the mean; on the leader only, 0 elsewhere",
            ),
        }
    }
}

impl Metrics {
    /// Notes what came of a round, and how long planning it took, in seconds.
    pub fn balance_round(&self, round: &Round, seconds: f64) {
        let families = &self.balance;
        families.rounds.get_or_create(&VerdictLabel { verdict: round.verdict.name() }).inc();
        families.plan_duration.observe(seconds);
        families.mean.set(round.mean);
        families.deviation.set(round.nodes.first().map_or(0.0, |node| node.deviation));
        let spared = || round.stuck.iter().flat_map(|stuck| &stuck.spared).chain(&round.spared);
        self.note_spared(|reason| spared().filter(|(_, why)| why.name() == reason).count());
    }

    /// Counts an eviction.
    pub fn balance_eviction(&self, result: BalanceEviction) {
        self.balance.evictions.get_or_create(&BalanceEvictionLabel { result }).inc();
    }

    /// Notes that another replica tells of nodes from now on.
    pub fn balance_ends(&self) {
        self.balance.mean.set(0.0);
        self.balance.deviation.set(0.0);
        self.note_spared(|_| 0);
    }

    fn note_spared(&self, count: impl Fn(&str) -> usize) {
        for reason in Spared::NAMES {
            self.balance.spared.get_or_create(&ReasonLabel { reason }).set(saturate(count(reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_there_from_the_start() {
        let text = Metrics::new("test").encode();
        for line in [
            "plimsoll_balance_rounds_total{verdict=\"evict\"} 0",
            "plimsoll_balance_evictions_total{result=\"dry_run\"} 0",
            "plimsoll_balance_pods_spared{reason=\"cooldown\"} 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
        }
    }
}
