//! The metrics of our own.

use plimsoll_core::resource::Resource;

/// Usage in percent of what it is meant against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PercentMetric {
    Cpu,
    Memory,
}

impl PercentMetric {
    pub(super) const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "plimsoll_cpu_percent",
            Self::Memory => "plimsoll_memory_percent",
        }
    }

    pub(super) const fn resource(self) -> Resource {
        match self {
            Self::Cpu => Resource::Cpu,
            Self::Memory => Resource::Memory,
        }
    }

    /// The metric of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }
}
