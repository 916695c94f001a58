//! Nodes that are too full already.

use std::fmt;

use super::View;
use crate::placement::{Incoming, Metric};

/// Why a node is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// Of what too much is used.
    pub metric: Metric,
    /// How much, 0 to 1.
    pub usage: f64,
    /// How much may be.
    pub most: f64,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (usage, most) = (100.0 * self.usage, 100.0 * self.most);
        write!(f, "{usage:.1} % of its {} is used, more than {most:.0} %", self.metric)
    }
}

/// For each offered node whether it is refused: more of its CPU or memory is used, in the shortest window, than the filter
/// allows. Nobody is refused if all would be, nor for a pod that goes to each node by itself; what was not measured passes.
pub fn refuse(pod: &Incoming, nodes: &[&str], view: &View<'_>) -> Vec<Option<Refusal>> {
    if pod.shape.is_daemon() {
        return vec![None; nodes.len()];
    }
    let filter = &view.settings.filter;
    let judge = |node: &&str| {
        let load = view.measured(node)?;
        [(Metric::Cpu, filter.cpu), (Metric::Memory, filter.memory)].into_iter().find_map(|(metric, most)| {
            let usage = load.newest(metric, &view.settings.load)?;
            (usage > most).then_some(Refusal { metric, usage, most })
        })
    };
    let refusals: Vec<_> = nodes.iter().map(judge).collect();
    if refusals.iter().all(Option::is_some) { vec![None; nodes.len()] } else { refusals }
}
