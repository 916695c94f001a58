//! The checked form of a profile. Field meanings and defaults are those of the API reference.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_quantity::{Quantity, Ratio};

use crate::profile::Selector;
use crate::resource::Resource;

/// A profile whose every field was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `metadata.name`.
    pub name: String,
    /// The highest matching profile wins.
    pub priority: i32,
    /// Which pods.
    pub matches: ProfileMatch,
    /// How requests are lowered.
    pub mode: Mode,
    /// False: recommendations are made, pods are not changed.
    pub apply: bool,
    /// The figure that HPA utilisation is meant against.
    pub basis: Basis,
    /// Lowering by fixed factors.
    pub fixed: StaticPolicy,
    /// Lowering by what was used.
    pub dynamic: DynamicPolicy,
    /// What happens to pods of QoS class Guaranteed.
    pub guaranteed_pods: GuaranteedPods,
    /// Who may opt out.
    pub opt_out: OptOut,
    /// How autoscalers keep their meaning; `None`: as the configuration says.
    pub hpa_mode: Option<HpaMode>,
}

/// All given parts must hold; a part that is absent or empty holds for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileMatch {
    /// By the namespace's labels.
    pub namespaces: Selector,
    /// By the pod's labels.
    pub pods: Selector,
    /// By pool.
    pub pools: Vec<String>,
    /// By the kind of the topmost owner; a pod without controller is of kind `Pod`.
    pub workload_kinds: Vec<String>,
}

/// How requests are lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    #[default]
    Off,
    /// By factors.
    Static,
    /// By recommendations only.
    Dynamic,
    /// By recommendations where there are usable ones, else by factors.
    StaticThenDynamic,
}

/// The figure that HPA utilisation is meant against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The original request.
    #[default]
    Request,
    /// The limit.
    Limit,
}

impl Basis {
    /// As it stands in the annotation.
    pub const fn lower_case(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Limit => "limit",
        }
    }
}

/// Lowering by fixed factors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPolicy {
    /// In (0, 1]; a resource that is absent is left alone.
    pub factors: BTreeMap<Resource, Ratio>,
    /// Memory is rounded to multiples of this many nano-units (of a byte).
    pub rounding_memory: i128,
    /// Requests are not lowered below this.
    pub minimum: BTreeMap<Resource, Quantity>,
}

/// Lowering by what was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicPolicy {
    /// For which resources recommendations are used.
    pub resources: BTreeSet<Resource>,
    /// What one recommendation stands for.
    pub granularity: Granularity,
    /// Where absent values come from.
    pub preset: Preset,
    /// Which percentile is the target.
    pub percentile: BTreeMap<Resource, u32>,
    /// Half-life of a sample's weight, in seconds.
    pub half_life: BTreeMap<Resource, i64>,
    /// What the target is multiplied by; absent = 1.
    pub expansion: BTreeMap<Resource, Ratio>,
    /// What is added after that; absent = 0.
    pub margin: BTreeMap<Resource, Quantity>,
    /// How CPU samples weigh.
    pub cpu_sample_weight: CpuSampleWeight,
    /// Which memory samples count.
    pub memory_samples: MemorySamples,
    /// Seconds between the first and last sample that a recommendation needs to be used.
    pub minimum_history: i64,
    /// Seconds after its last sample when a recommendation is not used any more.
    pub maximum_age: i64,
}

/// What one recommendation stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// All pods of a namespace, by container name.
    Namespace,
    /// All pods of a workload.
    #[default]
    Workload,
    /// One pod.
    Pod,
}

/// Named sets of dynamic values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// The values of the documents that the product was conceived from.
    #[default]
    Seed,
    /// The values that replay on real traces found better.
    Tuned,
}

/// How CPU samples weigh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSampleWeight {
    /// By the container's original request in cores.
    Request,
    /// All the same.
    Fixed(Ratio),
}

/// Which memory samples count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemorySamples {
    /// Each scan's working set.
    #[default]
    PerScan,
    /// The peak of each window.
    PeakPerInterval,
}

/// What happens to pods of QoS class Guaranteed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuaranteedPods {
    /// They are lowered, and become Burstable.
    #[default]
    Apply,
    /// They are left alone.
    Skip,
}

/// Who may opt out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptOut {
    /// Pods and namespaces.
    #[default]
    Pod,
    /// Namespaces only.
    Namespace,
    /// Nobody.
    None,
}

/// How a `HorizontalPodAutoscaler` keeps its meaning when the requests of its pods are lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HpaMode {
    /// Its utilisation targets are turned into average values.
    #[default]
    Convert,
    /// It is left alone; the controller is told scaled usage by `metrics.k8s.io`.
    Shim,
    /// It is left alone; whoever made it uses the metrics that are served by `custom.metrics.k8s.io` or
    /// `external.metrics.k8s.io`.
    External,
    /// It is left alone, and means the lowered requests.
    Off,
}

impl HpaMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Convert, Self::Shim, Self::External, Self::Off];

    /// As it is written in profiles and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Convert => "Convert",
            Self::Shim => "Shim",
            Self::External => "External",
            Self::Off => "Off",
        }
    }
}
