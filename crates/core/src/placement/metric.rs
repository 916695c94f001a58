//! What the load of a node is measured by.

use std::fmt;

/// A metric of a node's load, as a share of what the node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// The share of CPU time that was not idle.
    Cpu,
    /// 1 - available / total.
    Memory,
    /// The share of time in which the busiest data disk was busy.
    Disk,
    /// The load average per core; may be above 1.
    Load,
    /// The share of the bandwidth of the busiest interface.
    Network,
}

impl Metric {
    /// Every metric, in the order of [`Metric::index`].
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Memory, Self::Disk, Self::Load, Self::Network];

    /// Its place in [`ByMetric`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in the configuration, in files and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Load => "load",
            Self::Network => "network",
        }
    }

    /// The metric of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The greatest value that can be true: more is a fault of the measurement. Load averages have no such bound.
    pub const fn greatest(self) -> f64 {
        match self {
            Self::Load => f64::INFINITY,
            Self::Cpu | Self::Memory | Self::Disk | Self::Network => 1.05,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value for each metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ByMetric<T>([T; 5]);

impl<T: Copy> ByMetric<T> {
    /// The value of a metric.
    pub const fn get(&self, metric: Metric) -> T {
        let [cpu, memory, disk, load, network] = self.0;
        match metric {
            Metric::Cpu => cpu,
            Metric::Memory => memory,
            Metric::Disk => disk,
            Metric::Load => load,
            Metric::Network => network,
        }
    }

    /// Sets the value of a metric.
    pub fn set(&mut self, metric: Metric, value: T) {
        if let Some(place) = self.0.get_mut(metric.index()) {
            *place = value;
        }
    }

    /// Every metric with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, T)> {
        Metric::ALL.into_iter().zip(self.0)
    }
}
