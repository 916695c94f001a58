//! What is counted about autoscalers.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::families::{IntGauge, register};
use super::labels::{HpaOutcome, HpaOutcomeLabel, HpaState, HpaStateLabel, HpaWrite, HpaWriteLabel};
use super::{Metrics, saturate};

/// What is counted about autoscalers: at admission by every replica, the rest by the leader.
#[derive(Debug)]
pub(super) struct HpaFamilies {
    conversions: Family<HpaOutcomeLabel, Counter>,
    states: Family<HpaStateLabel, IntGauge>,
    writes: Family<HpaWriteLabel, Counter>,
}

impl HpaFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let conversions: Family<HpaOutcomeLabel, Counter> =
            register(r, "hpa_conversions", "Metrics of autoscalers under review, by what became of them");
        for &outcome in HpaOutcome::ALL {
            conversions.get_or_create_owned(&HpaOutcomeLabel { outcome });
        }
        let states: Family<HpaStateLabel, IntGauge> =
            register(r, "hpas", "Autoscalers, by how they stand; on the leader only, 0 elsewhere");
        for &state in HpaState::ALL {
            states.get_or_create_owned(&HpaStateLabel { state });
        }
        let writes: Family<HpaWriteLabel, Counter> =
            register(r, "hpa_sync_writes", "Writes by which the leader keeps autoscalers, by how they ended");
        for &result in HpaWrite::ALL {
            writes.get_or_create_owned(&HpaWriteLabel { result });
        }
        Self { conversions, states, writes }
    }
}

impl Metrics {
    /// Counts what became of a metric of an autoscaler at admission.
    pub fn hpa_conversion(&self, outcome: HpaOutcome) {
        self.hpa.conversions.get_or_create(&HpaOutcomeLabel { outcome }).inc();
    }

    /// Counts a write of the keeper.
    pub fn hpa_write(&self, result: HpaWrite) {
        self.hpa.writes.get_or_create(&HpaWriteLabel { result }).inc();
    }

    /// Notes how all autoscalers stand, in place of what was noted before; none: another replica tells of them.
    pub fn hpa_states(&self, states: impl IntoIterator<Item = HpaState>) {
        let mut counts = vec![0_usize; HpaState::ALL.len()];
        for state in states {
            for (count, known) in counts.iter_mut().zip(HpaState::ALL) {
                *count += usize::from(*known == state);
            }
        }
        for (count, &state) in counts.into_iter().zip(HpaState::ALL) {
            self.hpa.states.get_or_create(&HpaStateLabel { state }).set(saturate(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_replace_those_before() {
        let metrics = Metrics::new("test");
        metrics.hpa_states([HpaState::Converted, HpaState::Pending, HpaState::Converted]);
        let text = metrics.encode();
        assert!(text.contains("plimsoll_hpas{state=\"converted\"} 2\n"), "{text}");
        metrics.hpa_states([HpaState::Native]);
        let text = metrics.encode();
        for line in ["{state=\"converted\"} 0", "{state=\"pending\"} 0", "{state=\"native\"} 1"] {
            assert!(text.contains(&format!("plimsoll_hpas{line}\n")), "{line}: {text}");
        }
    }
}
