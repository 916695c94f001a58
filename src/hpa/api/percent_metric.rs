//! The metrics of our own.

use plimsoll_core::resource::Resource;

/// Usage in percent of what it is meant against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PercentMetric(pub(super) Resource);

impl PercentMetric {
    pub(super) const ALL: [Self; 2] = [Self(Resource::Cpu), Self(Resource::Memory)];

    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            Resource::Cpu => "plimsoll_cpu_percent",
            Resource::Memory => "plimsoll_memory_percent",
        }
    }

    /// The metric of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }
}
