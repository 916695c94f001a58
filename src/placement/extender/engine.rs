//! Whoever decides.

use plimsoll_core::placement::WeightsFrom;
use plimsoll_core::placement::extender::NoLoad;
use plimsoll_core::pod::Pruned;

/// What the listener asks. It answers from memory, at once: a scheduler waits.
pub trait Engine: Send + Sync + 'static {
    /// The points of each node, in the order of `nodes`, for a pod, of which the parts
    /// [`PLACED_POD`](plimsoll_core::placement::PLACED_POD) are given if it was sent.
    fn prioritize(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Prioritized;

    /// Why a node is refused, for each of `nodes`, in their order.
    fn filter(&self, pod: Option<&Pruned<'_>>, nodes: &[&str]) -> Vec<Option<String>>;

    /// The load of all nodes, or of one, as the load-watcher tells it.
    ///
    /// # Errors
    /// Nothing is known.
    fn watcher(&self, host: Option<&str>) -> Result<Vec<u8>, NoLoad>;

    /// Whether the load of nodes is known.
    fn has_load(&self) -> bool;
}

/// What became of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prioritized {
    /// Points 0..=10 of each node; what is missing at the end is as good as average.
    pub points: Vec<u8>,
    /// Where the weights of resources came from, if they were needed.
    pub weights_from: Option<WeightsFrom>,
}
