//! What a workload is hungry for, compared with the cluster.

use plimsoll_quantity::Quantity;

use crate::objects::Recommendation;
use crate::resource::Resource;

/// Which resource a workload takes the larger share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserProfile {
    /// More than twice as large a share of the cluster's CPU as of its memory.
    CpuIntensive,
    /// More than twice as large a share of the cluster's memory as of its CPU.
    MemoryIntensive,
    /// Neither.
    Balanced,
}

impl UserProfile {
    /// As people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuIntensive => "cpu-intensive",
            Self::MemoryIntensive => "memory-intensive",
            Self::Balanced => "balanced",
        }
    }

    /// Of a workload that takes `need` of a cluster that has `total`: with s = CPU share / (CPU share + memory share),
    /// CPU-intensive above 2/3, memory-intensive below 1/3. Nothing if a share cannot be formed, because the workload
    /// takes nothing or the cluster has nothing.
    pub fn of(need: Amounts, total: Amounts) -> Option<Self> {
        let share = |need: f64, total: f64| if need > 0.0 { need / total } else { 0.0 };
        let (cpu, memory) = (share(need.cores, total.cores), share(need.bytes, total.bytes));
        let sum = cpu + memory;
        if !sum.is_finite() || sum <= 0.0 {
            return None;
        }
        // Without a division, so that the bounds are met exactly where the shares are exact.
        Some(if cpu > 2.0 * memory {
            Self::CpuIntensive
        } else if memory > 2.0 * cpu {
            Self::MemoryIntensive
        } else {
            Self::Balanced
        })
    }
}

/// CPU and memory together. For comparing, not for reckoning what a pod requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// CPU, in cores.
    pub cores: f64,
    /// Memory, in bytes.
    pub bytes: f64,
}

impl Amounts {
    /// The sum of the targets of a recommendation's containers.
    pub fn of(recommendation: &Recommendation) -> Self {
        let sum = |resource| {
            let targets = recommendation.containers.values().filter_map(|found| found.targets.get(&resource));
            targets.map(units).sum()
        };
        Self { cores: sum(Resource::Cpu), bytes: sum(Resource::Memory) }
    }
}

impl std::iter::Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            cores: sum.cores + one.cores,
            bytes: sum.bytes + one.bytes,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are compared, nothing is counted out")]
fn units(quantity: &Quantity) -> f64 {
    quantity.nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_by_shares() {
        let total = Amounts { cores: 100.0, bytes: 1000.0 };
        for (rule, cores, bytes, expected) in [
            ("CPU only", 1.0, 0.0, Some("cpu-intensive")),
            ("memory only", 0.0, 1.0, Some("memory-intensive")),
            ("as the cluster", 10.0, 100.0, Some("balanced")),
            ("exactly 2/3", 2.0, 10.0, Some("balanced")),
            ("above 2/3", 2.1, 10.0, Some("cpu-intensive")),
            ("exactly 1/3", 1.0, 20.0, Some("balanced")),
            ("below 1/3", 1.0, 20.1, Some("memory-intensive")),
            ("nothing", 0.0, 0.0, None),
        ] {
            let class = UserProfile::of(Amounts { cores, bytes }, total).map(UserProfile::as_str);
            assert_eq!(class, expected, "{rule}");
        }
        let need = Amounts { cores: 1.0, bytes: 1.0 };
        assert_eq!(UserProfile::of(need, Amounts::default()), None, "an empty cluster");
    }

    #[test]
    fn sums() {
        let amounts = [Amounts { cores: 0.5, bytes: 1.0 }, Amounts { cores: 1.5, bytes: 2.0 }];
        assert_eq!(amounts.into_iter().sum::<Amounts>(), Amounts { cores: 2.0, bytes: 3.0 });
    }
}
