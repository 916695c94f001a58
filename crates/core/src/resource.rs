//! The resources whose requests may be lowered.

use std::fmt;

use plimsoll_quantity::Format;

/// One nano-unit is the smallest step of a quantity; a milli-unit is a million of them.
pub const MILLI: i128 = 1_000_000;
/// One whole unit (a core, a byte) in nano-units.
pub const UNIT: i128 = 1_000_000_000;

/// A resource that a profile may name. Extended resources and hugepages must have a request equal
/// to the limit, so there is no variant for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPU time, in cores.
    Cpu,
    /// Node-local storage, in bytes.
    EphemeralStorage,
    /// Memory, in bytes.
    Memory,
}

impl Resource {
    /// Every resource, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::EphemeralStorage, Self::Memory];

    /// The name in a resource list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Memory => "memory",
        }
    }

    /// The resource of that name, if a profile may name it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }

    /// The smallest step, in nano-units, that a request of it is written in: a milli-core or a byte.
    pub const fn step(self) -> i128 {
        match self {
            Self::Cpu => MILLI,
            Self::EphemeralStorage | Self::Memory => UNIT,
        }
    }

    /// How a value we computed is written.
    pub const fn format(self) -> Format {
        match self {
            Self::Cpu => Format::DecimalSi,
            Self::EphemeralStorage | Self::Memory => Format::BinarySi,
        }
    }

    /// Whether `spec.resources` of a pod may carry it.
    pub const fn pod_level(self) -> bool {
        matches!(self, Self::Cpu | Self::Memory)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
