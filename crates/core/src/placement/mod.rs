//! On which node a pod should run, by what the nodes really use.
//!
//! ```text
//! load (measured), placed pods, learnt weights, settings -> View
//! a pod and the nodes that are offered for it -> score -> Decision: a score and whole points for each node, and why
//!                                             \-> refuse: nodes that are too full already
//! ```
//!
//! Sources: "Workload-specific weights for container clouds" (Network Telecom, June 2019) and "Intelligent scheduling of
//! service instances on cloud-native container platforms"; `docs/placement.md` restates both.

mod answered;
mod crane;
mod estimate;
pub mod extender;
mod load;
mod load_class;
mod load_file;
mod mapping;
mod measured;
mod memory;
mod metric;
mod placed;
mod pod;
mod report;
mod running;
mod samples;
mod score;
mod settings;
mod weights;

pub use answered::{Answered, Expected};
pub use crane::{CraneValues, CraneWritten, crane_annotations, crane_is_due, crane_values};
pub use estimate::{Figures, estimate, units};
pub use load::{LoadSnapshot, NodeLoad, Totals};
pub use load_class::{ClassBounds, ClassChange, ClassRounds, LoadClass};
pub use load_file::{LoadFile, workload_key};
pub use mapping::{KnownNode, KnownNodes};
pub use measured::{Measured, wanted_metrics};
pub use memory::WeightsMemory;
pub use metric::{ByMetric, Metric};
pub use placed::{NodePods, Placed};
pub use pod::{
    ContainerFigures, ControllerRef, Incoming, PLACED_POD, PlacedPod, PlacedShape, Qos, STAYS, WorkloadKey,
};
pub use report::{NodeReport, NodesReport};
pub use running::RunningMeans;
pub use samples::{DropReason, Dropped, NodeTimes, NodeValues, checked};
pub use score::{
    Decision, FloodCause, NodeScore, Refusal, UsageOf, View, refuse, score, unseen_part, usages,
};
pub use settings::{
    FilterSettings, Flood, FloodForm, HotSpot, HotSpotForm, LoadSettings, PointsForm, Policies, Settings,
    Window,
};
pub use weights::{
    ByResource, ContainerUse, ContainerUses, LearntWeights, NodeResource, Weights, WeightsFrom, learn,
    normalised,
};
