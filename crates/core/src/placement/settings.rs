//! What an operator decides about placement.

use std::sync::Arc;

use crate::placement::metric::Metric;
use crate::placement::weights::ByResource;

/// How nodes are scored.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The weight of each policy; at least one is above 0.
    pub policies: Policies,
    /// How scores become whole points.
    pub points: PointsForm,
    /// Points that each replica of the same workload costs, beyond the smallest count among the offered nodes.
    pub replica_penalty: u32,
    /// Load.
    pub load: LoadSettings,
    /// Weights for workloads of which nothing is known, by resource.
    pub default_weights: ByResource<f64>,
    /// Nodes to which much was bound lately.
    pub hot_spot: HotSpot,
    /// When much is bound at once.
    pub flood: Flood,
    /// Usage above which a node is refused.
    pub filter: FilterSettings,
}

/// Weights of the policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policies {
    /// By measured load.
    pub load: f64,
    /// By idle shares, weighted by what the workload uses.
    pub weights: f64,
    /// By how much limits exceed the node.
    pub overcommit_risk: f64,
}

/// How scores become the whole numbers 0..10 that a scheduler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointsForm {
    /// Around the middle of the offered nodes, so that small differences stay small; all equal gives 5.
    Spread,
    /// A tenth of the score.
    Absolute,
}

/// Windows and metrics of the load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSettings {
    /// Windows, shortest first; at least one has a weight above 0.
    pub windows: Vec<Window>,
    /// Metrics with their weights; at least one is above 0.
    pub metrics: Vec<(Metric, f64)>,
    /// The share of nodes up to which a missing metric is taken to be the others' median; beyond, it is dropped for all.
    pub missing: f64,
    /// What is older, in seconds, is not known any more.
    pub maximum_age: i64,
}

/// A window that a mean is taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// As it is written: `15m`.
    pub name: Arc<str>,
    /// Its length.
    pub seconds: i64,
    /// Its weight.
    pub weight: f64,
}

/// Nodes to which much was bound lately lose points: what was bound does not show in their load yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotSpot {
    /// How far back bindings count, in seconds.
    pub window: i64,
    /// Bindings that cost nothing; at least 1.
    pub bindings: u32,
    /// What more of them costs.
    pub form: HotSpotForm,
    /// What is taken off in the form `Step`.
    pub penalty: f64,
}

/// What bindings cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotSpotForm {
    /// More than M bindings cost D.
    Step,
    /// Every M bindings cost 10.
    Linear,
}

/// When much is bound at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flood {
    /// More pending pods than this are a flood; 0: never.
    pub pending: u32,
    /// The window of hot spots in a flood, in seconds.
    pub window: i64,
    /// For how long a node that was lost makes a flood, in seconds.
    pub node_lost: i64,
    /// What becomes of scores in a flood.
    pub form: FloodForm,
}

/// What becomes of scores in a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodForm {
    /// The wider window is all.
    Buffer,
    /// Load is not looked at: the node to which least was bound in the wider window is best.
    Fuse,
}

/// Usage above which a node is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterSettings {
    /// The share of CPU, in the shortest window.
    pub cpu: f64,
    /// The share of memory, in the shortest window.
    pub memory: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policies: Policies { load: 1.0, weights: 0.0, overcommit_risk: 0.0 },
            points: PointsForm::Spread,
            replica_penalty: 2,
            load: LoadSettings::default(),
            default_weights: ByResource::all(1.0),
            hot_spot: HotSpot::default(),
            flood: Flood { pending: 100, window: 300, node_lost: 600, form: FloodForm::Buffer },
            filter: FilterSettings { cpu: 0.85, memory: 0.90 },
        }
    }
}

impl Default for LoadSettings {
    fn default() -> Self {
        let window = |name: &str, seconds, weight| Window { name: name.into(), seconds, weight };
        Self {
            windows: vec![window("15m", 900, 0.2), window("1h", 3_600, 0.3), window("1d", 86_400, 0.5)],
            metrics: vec![
                (Metric::Cpu, 0.4),
                (Metric::Memory, 0.3),
                (Metric::Disk, 0.2),
                (Metric::Load, 0.1),
            ],
            missing: 0.10,
            maximum_age: 300,
        }
    }
}

impl Default for HotSpot {
    fn default() -> Self {
        Self { window: 60, bindings: 5, form: HotSpotForm::Step, penalty: 20.0 }
    }
}
