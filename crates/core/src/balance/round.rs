//! What a round found, and what comes of it.

use std::fmt;
use std::sync::Arc;

use crate::balance::spared::Spared;
use crate::balance::state::{PastEviction, State};
use crate::placement::{Figures, PlacedPod, Qos, WorkloadKey};

/// What a round found.
#[derive(Clone, Debug)]
pub struct Round {
    /// What the next round is given. Whoever evicts notes it there.
    pub state: State,
    /// When it was, in nanoseconds since 1970.
    pub now: i64,
    /// The nodes that count, the busiest first.
    pub nodes: Vec<NodeView>,
    /// The mean of how busy they are, as measured.
    pub mean: f64,
    /// What came of it.
    pub verdict: Verdict,
    /// The node that is relieved, if the round came so far.
    pub source: Option<NodeView>,
    /// How much of the source is to go, a share of the whole node.
    pub excess: f64,
    /// Who may go: the first one does. The next one only if that one cannot be evicted.
    pub candidates: Vec<Move>,
    /// Every other pod of the source, and why it stays.
    pub spared: Vec<(PodName, Spared)>,
    /// Busier nodes that were to be relieved before the source, none of whose pods may go; or, if that is so of the source
    /// too, further ones.
    pub stuck: Vec<Stuck>,
    /// Claims that were not known, so that pods were spared that perhaps need not be: namespace and name.
    pub unread: Vec<(Arc<str>, Box<str>)>,
    /// Evictions in vain, as found in this round: a pod of the workload is on the node again.
    pub came_back: Vec<PastEviction>,
}

/// A node that is too busy, and none of its pods may go.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// The node.
    pub node: NodeView,
    /// Its pods, and why they stay.
    pub spared: Vec<(PodName, Spared)>,
}

/// How busy a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
    /// As measured, without what was evicted and still shows.
    pub usage: f64,
    /// Also with what was bound and does not show yet.
    pub expected: f64,
    /// How far the usage is above the mean.
    pub deviation: f64,
    /// For how many rounds in a row it has been too busy.
    pub rounds: u32,
    /// Whether pods may be moved to it.
    pub is_target: bool,
}

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl PodName {
    pub(super) fn of(pod: &PlacedPod) -> Self {
        Self { namespace: Arc::clone(pod.namespace()), name: Arc::clone(&pod.name) }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod that may go.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The pod.
    pub pod: PodName,
    /// Which of all pods of that name, over time.
    pub uid: Arc<str>,
    /// Its workload.
    pub workload: WorkloadKey,
    /// Its priority.
    pub priority: i32,
    /// Its QoS class.
    pub qos: Qos,
    /// What it uses: cores and bytes.
    pub uses: Figures,
    /// How much of the source's business it is.
    pub part: f64,
    /// Which shares of the source's CPU and memory it uses.
    pub share: Figures,
    /// The least busy node that it fits on. Where it goes the scheduler decides.
    pub target: Arc<str>,
}

impl Move {
    /// What is remembered of its eviction from `node`. One that is only tried takes no usage away.
    pub fn past(&self, node: &str, now: i64, really: bool) -> PastEviction {
        let Figures { cpu, memory } = if really { self.share } else { Figures::default() };
        PastEviction {
            workload: self.workload.to_string(),
            node: node.to_owned(),
            at: now / 1_000_000_000,
            cpu: short(cpu),
            memory: short(memory),
            back: false,
        }
    }
}

/// As many digits as matter: a thousand of them stand in an annotation.
fn short(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

/// What comes of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Not all pods are known yet.
    PodsUnknown,
    /// So few nodes have fresh load that their mean says nothing.
    FewNodes {
        /// So many have.
        fresh: usize,
        /// Ready and schedulable nodes.
        of: usize,
    },
    /// Too many nodes have no fresh load.
    Stale {
        /// So many have.
        fresh: usize,
        /// Ready and schedulable nodes.
        of: usize,
    },
    /// A node was lost, so many seconds ago; its pods look for room.
    NodeLost {
        /// How long ago, in seconds.
        ago: i64,
    },
    /// No node is too busy.
    Balanced,
    /// A node is too busy, but not for long enough.
    Waiting {
        /// The node.
        node: Arc<str>,
        /// For so many rounds in a row.
        rounds: u32,
        /// So many it must be.
        of: u32,
    },
    /// A node is too busy, but its load is that of the round before.
    NoNews {
        /// The node.
        node: Arc<str>,
    },
    /// No node has room.
    NoTarget {
        /// The node that is too busy.
        node: Arc<str>,
    },
    /// So many pods were evicted within an hour that no more may be.
    Capped {
        /// So many.
        evictions: u32,
    },
    /// No pod of the source may go.
    NoCandidate {
        /// The node that is too busy.
        node: Arc<str>,
    },
    /// The first of the candidates goes.
    Evict {
        /// The node that is too busy.
        node: Arc<str>,
    },
}

impl Verdict {
    /// Every name of a verdict.
    pub const NAMES: [&'static str; 11] = [
        "pods_unknown",
        "few_nodes",
        "stale",
        "node_lost",
        "balanced",
        "waiting",
        "no_news",
        "no_target",
        "capped",
        "no_candidate",
        "evict",
    ];

    /// One word, for metrics and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PodsUnknown => "pods_unknown",
            Self::FewNodes { .. } => "few_nodes",
            Self::Stale { .. } => "stale",
            Self::NodeLost { .. } => "node_lost",
            Self::Balanced => "balanced",
            Self::Waiting { .. } => "waiting",
            Self::NoNews { .. } => "no_news",
            Self::NoTarget { .. } => "no_target",
            Self::Capped { .. } => "capped",
            Self::NoCandidate { .. } => "no_candidate",
            Self::Evict { .. } => "evict",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodsUnknown => f.write_str("not all pods are known yet"),
            Self::FewNodes { fresh, of } => {
                write!(f, "{fresh} of {of} ready nodes have fresh load, and at least 3 must have")
            }
            Self::Stale { fresh, of } => {
                write!(f, "only {fresh} of {of} ready nodes have fresh load, which is less than 80 %")
            }
            Self::NodeLost { ago } => {
                write!(f, "a node was lost {ago} s ago, and its pods look for room")
            }
            Self::Balanced => f.write_str("no node is too busy"),
            Self::Waiting { node, rounds, of } => {
                write!(f, "node {node} is too busy, in round {rounds} of the {of} in a row that it takes")
            }
            Self::NoNews { node } => {
                write!(f, "node {node} is too busy, but its load is no newer than in the round before")
            }
            Self::NoTarget { node } => {
                write!(f, "node {node} is too busy, but no node has room for its pods")
            }
            Self::Capped { evictions } => {
                write!(f, "{evictions} pods were evicted within an hour, and no more may be")
            }
            Self::NoCandidate { node } => write!(f, "node {node} is too busy, but none of its pods may go"),
            Self::Evict { node } => write!(f, "node {node} is too busy, and a pod of it goes"),
        }
    }
}
