//! Which workloads may not be disturbed, as far as was found out by trying.

use std::collections::HashMap;

use plimsoll_core::balance::Move;
use plimsoll_core::placement::WorkloadKey;

/// For so many rounds a workload whose eviction was refused comes after the others.
const REMEMBERED: u32 = 10;

/// The workloads of which evictions were refused lately, by for how many rounds that counts yet.
///
/// Only so many pods are tried in a round. Without this the same ones would be tried first in each, under a budget that
/// never allows it, and those behind them never.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(HashMap<WorkloadKey, u32>);

impl Refusals {
    /// Another round begins.
    pub(super) fn begin_round(&mut self) {
        self.0.retain(|_, rounds| {
            *rounds -= 1;
            *rounds > 0
        });
    }

    /// Notes that a pod of this workload could not be evicted.
    pub(super) fn note(&mut self, workload: &WorkloadKey) {
        self.0.insert(workload.clone(), REMEMBERED);
    }

    /// In which order these are tried, by their indices: as they are, but those that were refused lately last.
    pub(super) fn order(&self, candidates: &[Move]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by_key(|index| {
            candidates.get(*index).is_some_and(|goes| self.0.contains_key(&goes.workload))
        });
        order
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::balance::PodName;
    use plimsoll_core::placement::{Figures, Qos};
    use plimsoll_core::pod::Workload;

    use super::*;

    fn goes(name: &str) -> Move {
        let workload =
            Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: name.to_owned() };
        Move {
            pod: PodName { namespace: "shop".into(), name: name.into() },
            uid: name.into(),
            workload: WorkloadKey { namespace: "shop".into(), workload: Arc::new(workload) },
            priority: 0,
            qos: Qos::Burstable,
            uses: Figures::default(),
            part: 0.1,
            share: Figures::default(),
            target: "n".into(),
        }
    }

    #[test]
    fn five_under_a_budget_do_not_keep_the_sixth() {
        let candidates = ["a", "b", "c", "d", "e", "f", "g"].map(goes);
        let mut refusals = Refusals::default();
        refusals.begin_round();
        assert_eq!(refusals.order(&candidates), [0, 1, 2, 3, 4, 5, 6]);
        for refused in candidates.iter().take(5) {
            refusals.note(&refused.workload);
        }
        for _ in 1..REMEMBERED {
            refusals.begin_round();
            assert_eq!(refusals.order(&candidates), [5, 6, 0, 1, 2, 3, 4]);
        }
        refusals.begin_round();
        assert_eq!(refusals.order(&candidates), [0, 1, 2, 3, 4, 5, 6], "budgets change");
    }
}
