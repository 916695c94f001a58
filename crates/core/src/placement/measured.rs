//! What was measured of all nodes, and the [`LoadSnapshot`] that is made of it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::placement::load::{LoadSnapshot, NodeLoad, Totals};
use crate::placement::mapping::KnownNodes;
use crate::placement::metric::{ByMetric, Metric};
use crate::placement::samples::{DropReason, Dropped, NodeTimes, NodeValues};
use crate::placement::settings::Settings;
use crate::placement::weights::ByResource;

/// What is known of all nodes at one moment, question by question.
#[derive(Clone, Debug, Default)]
pub struct Measured<'a> {
    /// Means by window, in the order of the settings. `None`: not asked for, or not answered for too long.
    pub means: Vec<ByMetric<Option<&'a NodeValues>>>,
    /// When each node was last measured.
    pub times: Option<&'a NodeTimes>,
    /// What nodes have, as far as it was asked for.
    pub totals: ByResource<Option<&'a NodeValues>>,
    /// Which share of a resource is idle, where that is not 1 - a mean.
    pub idle: ByResource<Option<&'a NodeValues>>,
}

impl Measured<'_> {
    /// The load of all nodes whose newest sample is at most `maximum_age` old, and of which there is any mean.
    /// Others are counted, and not in it.
    pub fn snapshot(
        &self,
        nodes: &KnownNodes,
        now: i64,
        maximum_age: i64,
        dropped: &mut Dropped,
    ) -> LoadSnapshot {
        let mut loads = HashMap::with_capacity(nodes.len());
        for (node, sampled) in self.times.into_iter().flat_map(NodeTimes::iter) {
            let Some(capacity) = nodes.capacity(node) else { continue };
            if now.saturating_sub(sampled) > maximum_age {
                dropped.count(DropReason::Stale);
                continue;
            }
            let means: Vec<_> = self.means.iter().map(|window| means_of(window, node)).collect();
            if means.iter().all(|means| *means == ByMetric::default()) {
                continue;
            }
            let totals = self.totals_of(node, &capacity);
            let mut idle = Totals::default();
            for (resource, values) in self.idle.iter() {
                idle.set(resource, values.and_then(|values| values.get(node)));
            }
            let load = NodeLoad { means, sampled, totals, idle };
            loads.insert(Arc::clone(node), load);
        }
        LoadSnapshot { nodes: loads, taken: now }
    }

    /// What a node has: as it was asked for, else what Kubernetes says.
    fn totals_of(&self, node: &str, capacity: &Totals) -> Totals {
        let mut totals = *capacity;
        for (resource, values) in self.totals.iter() {
            // Of nothing there is no share.
            if let Some(total) = values.and_then(|values| values.get(node)).filter(|total| *total > 0.0) {
                totals.set(resource, Some(total));
            }
        }
        totals
    }
}

fn means_of(window: &ByMetric<Option<&NodeValues>>, node: &str) -> ByMetric<Option<f64>> {
    let mut means = ByMetric::default();
    for (metric, values) in window.iter() {
        means.set(metric, values.and_then(|values| values.get(node)));
    }
    means
}

/// The metrics that have to be measured: those with a weight, and with them those that the filter looks at, and those
/// that idle shares are made of where workloads have weights of their own. How busy a disk is says nothing of how full it
/// is.
pub fn wanted_metrics(settings: &Settings) -> Vec<Metric> {
    let weighted =
        |metric| settings.load.metrics.iter().any(|(found, weight)| *found == metric && *weight > 0.0);
    let idle_shares = settings.policies.weights > 0.0;
    Metric::ALL
        .into_iter()
        .filter(|metric| match metric {
            Metric::Cpu | Metric::Memory => true,
            Metric::Network => idle_shares || weighted(*metric),
            Metric::Disk | Metric::Load => weighted(*metric),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::mapping::KnownNode;
    use crate::placement::settings::Policies;
    use crate::placement::weights::NodeResource;

    const SECOND: i64 = 1_000_000_000;
    const NOW: i64 = 1_772_359_200 * SECOND;

    fn counts(dropped: &Dropped) -> Vec<(&'static str, u64)> {
        dropped.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| (reason.name(), count)).collect()
    }

    fn known(names: &[&str]) -> KnownNodes {
        let mut capacity = Totals::default();
        capacity.set(NodeResource::Cpu, Some(8.0));
        capacity.set(NodeResource::Memory, Some(1e9));
        KnownNodes::new(names.iter().map(|name| KnownNode {
            name: (*name).into(),
            capacity,
            ..KnownNode::default()
        }))
    }

    #[test]
    fn a_snapshot_has_the_nodes_that_are_fresh() {
        let mut dropped = Dropped::default();
        let values = |nodes: &[(&str, f64)]| {
            let mut values = NodeValues::default();
            for (node, value) in nodes {
                values.put(&(*node).into(), Some(*value), 1e18, &mut Dropped::default());
            }
            values
        };
        let cpu = values(&[("fresh", 0.5), ("stale", 0.5), ("gone", 0.5), ("timeless", 0.5)]);
        let memory = values(&[("fresh", 0.25)]);
        let disk = values(&[("fresh", 5e11), ("stale", 0.0)]);
        let mut times = NodeTimes::default();
        for (node, seconds) in [("fresh", -60), ("stale", -301), ("gone", -1), ("empty", -1)] {
            times.put(&node.into(), NOW + seconds * SECOND, NOW, NOW, 300 * SECOND, &mut dropped);
        }
        let (mut short, mut long) = (ByMetric::default(), ByMetric::default());
        short.set(Metric::Cpu, Some(&cpu));
        long.set(Metric::Memory, Some(&memory));
        let mut totals = ByResource::default();
        totals.set(NodeResource::Disk, Some(&disk));
        let mut idle = ByResource::default();
        let unused = values(&[("fresh", 0.75)]);
        idle.set(NodeResource::Disk, Some(&unused));
        let measured = Measured { means: vec![short, long], times: Some(&times), totals, idle };
        let nodes = known(&["fresh", "stale", "timeless", "empty"]);
        let found = measured.snapshot(&nodes, NOW, 300 * SECOND, &mut dropped);
        assert_eq!(counts(&dropped), [("stale", 1)]);
        let names: Vec<_> = found.nodes.keys().map(AsRef::as_ref).collect();
        assert_eq!(
            names,
            ["fresh"],
            "not the stale, not the unknown, none without a time, none without a mean"
        );
        let load = &found.nodes["fresh"];
        assert_eq!((load.sampled, found.taken), (NOW - 60 * SECOND, NOW));
        assert_eq!(load.means[0].get(Metric::Cpu), Some(0.5));
        assert_eq!(
            (load.means[0].get(Metric::Memory), load.means[1].get(Metric::Memory)),
            (None, Some(0.25))
        );
        let totals = NodeResource::ALL.map(|resource| load.totals.get(resource));
        assert_eq!(totals, [Some(8.0), Some(1e9), None, Some(5e11)]);
        let idle = NodeResource::ALL.map(|resource| load.idle.get(resource));
        assert_eq!(idle, [None, None, None, Some(0.75)]);

        let nothing = Measured::default().snapshot(&nodes, NOW, 300 * SECOND, &mut dropped);
        assert!(nothing.nodes.is_empty(), "without times nothing is fresh");
    }

    #[test]
    fn what_must_be_measured() {
        let mut settings = Settings::default();
        settings.load.metrics = vec![(Metric::Load, 1.0), (Metric::Disk, 0.0)];
        assert_eq!(
            wanted_metrics(&settings),
            [Metric::Cpu, Metric::Memory, Metric::Load],
            "the filter needs two"
        );
        settings.policies = Policies { load: 0.0, weights: 1.0, overcommit_risk: 0.0 };
        assert_eq!(
            wanted_metrics(&settings),
            [Metric::Cpu, Metric::Memory, Metric::Load, Metric::Network],
            "idle shares need the network, and not how busy disks are"
        );
    }
}
