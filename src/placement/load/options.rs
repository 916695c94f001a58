//! How load is read.

use std::time::Duration;

use plimsoll_core::placement::{Metric, NodeResource};

use super::queries;

/// How load is read from Prometheus.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How often it is looked at.
    pub interval: Duration,
    /// A node whose newest sample is older has no load.
    pub maximum_age: Duration,
    /// Labels in which a node is looked for, in this order.
    pub node_labels: Vec<String>,
    /// What is asked.
    pub queries: LoadQueries,
}

/// What Prometheus is asked of nodes.
#[derive(Clone, Debug)]
pub struct LoadQueries {
    /// The share of CPU time in use.
    pub cpu: String,
    /// The share of memory in use.
    pub memory: String,
    /// The share of time in which a disk was busy.
    pub disk: String,
    /// The load average per core.
    pub load: String,
    /// The share of bandwidth in use.
    pub network: String,
    /// When a node was measured last, in seconds since 1970; `None`: each answer is taken to be of the time at which it was
    /// asked for.
    pub time: Option<String>,
    /// Bits a second that a node can send and receive; `None`: it is not asked for.
    pub total_bandwidth: Option<String>,
    /// Bytes that a node can store; `None`: it is not asked for.
    pub total_disk: Option<String>,
    /// The share of its file systems that is free; `None`: it is not asked for.
    pub idle_disk: Option<String>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            maximum_age: Duration::from_secs(300),
            node_labels: ["node", "nodename", "instance"].map(str::to_owned).into(),
            queries: LoadQueries::default(),
        }
    }
}

impl Default for LoadQueries {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            cpu: text(queries::CPU),
            memory: text(queries::MEMORY),
            disk: text(queries::DISK),
            load: text(queries::LOAD),
            network: text(queries::NETWORK),
            time: Some(text(queries::TIME)),
            total_bandwidth: None,
            total_disk: None,
            idle_disk: None,
        }
    }
}

impl LoadQueries {
    pub(super) fn of(&self, metric: Metric) -> &str {
        match metric {
            Metric::Cpu => &self.cpu,
            Metric::Memory => &self.memory,
            Metric::Disk => &self.disk,
            Metric::Load => &self.load,
            Metric::Network => &self.network,
        }
    }

    pub(super) fn total(&self, resource: NodeResource) -> Option<&str> {
        match resource {
            NodeResource::Bandwidth => self.total_bandwidth.as_deref(),
            NodeResource::Disk => self.total_disk.as_deref(),
            // Kubernetes tells these.
            NodeResource::Cpu | NodeResource::Memory => None,
        }
    }

    pub(super) fn idle(&self, resource: NodeResource) -> Option<&str> {
        match resource {
            NodeResource::Disk => self.idle_disk.as_deref(),
            // These are what a mean leaves.
            NodeResource::Cpu | NodeResource::Memory | NodeResource::Bandwidth => None,
        }
    }
}
