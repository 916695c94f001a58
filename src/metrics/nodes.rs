//! What is counted about the nodes and pods that placement knows.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::families::{IntGauge, register};
use super::labels::{NodeWrite, NodeWriteLabels, PlacedState, PlacedStateLabel, WriteResult};
use super::{Metrics, saturate};

/// What is counted about nodes and pods: pods by every replica, writes by the leader.
#[derive(Debug)]
pub(super) struct NodesFamilies {
    pods: Family<PlacedStateLabel, IntGauge>,
    lost: Counter,
    writes: Family<NodeWriteLabels, Counter>,
    steered: Counter,
}

impl NodesFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        let pods: Family<PlacedStateLabel, IntGauge> =
            register(r, "placement_pods", "Pods that placement knows, all and those that wait for a node");
        for &state in PlacedState::ALL {
            pods.get_or_create_owned(&PlacedStateLabel { state });
        }
        let writes: Family<NodeWriteLabels, Counter> = register(
            r,
            "placement_node_writes",
            "Labels and annotations written on nodes, by how they ended",
        );
        for &kind in NodeWrite::ALL {
            for &result in WriteResult::ALL {
                writes.get_or_create_owned(&NodeWriteLabels { kind, result });
            }
        }
        Self {
            pods,
            lost: register(r, "placement_nodes_lost", "Nodes that were gone or no longer ready all at once"),
            writes,
            steered: register(
                r,
                "placement_load_class_terms",
                "Admitted pods that were told to prefer nodes by their load class",
            ),
        }
    }
}

impl Metrics {
    /// Notes how many pods are known, and how many of them wait for a node.
    pub fn placement_pods(&self, all: usize, pending: usize) {
        for (state, count) in [(PlacedState::All, all), (PlacedState::Pending, pending)] {
            self.nodes.pods.get_or_create(&PlacedStateLabel { state }).set(saturate(count));
        }
    }

    /// Counts nodes that were lost.
    pub fn placement_nodes_lost(&self, nodes: usize) {
        self.nodes.lost.inc_by(u64::try_from(nodes).unwrap_or(u64::MAX));
    }

    /// Counts a write on a node.
    pub fn placement_node_write(&self, kind: NodeWrite, result: WriteResult) {
        self.nodes.writes.get_or_create(&NodeWriteLabels { kind, result }).inc();
    }

    /// Counts a pod that was told to prefer nodes by their load class.
    pub fn placement_load_class_terms(&self) {
        self.nodes.steered.inc();
    }
}
