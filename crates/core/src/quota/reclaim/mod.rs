//! Who gives room back to a leaf that is below its guarantee.
//!
//! [`plan`] is a pure function: the leader asks it about the pods that it watches, the commands about those in files.
//! Evicting is somebody else's work. A victim that cannot be evicted is handed in as excluded, and the plan made anew.

mod candidates;
mod search;
mod share;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use self::search::{Deficit, Pass, Search};
use crate::quota::{Amounts, Block, NodeId, QuotaPod, Used};

pub use candidates::{Candidates, NEVER_EVICTED_FROM};

/// Namespaces and names of pods.
pub type PodNames = HashSet<(Arc<str>, Arc<str>)>;

/// A pod that is refused although its leaf owns what it asks for, and what there is to know for helping it.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The pods of the tree, and the tree.
    pub pods: &'a Candidates,
    /// What is used: by pods that count, and by pods that were admitted and are not seen yet.
    pub used: &'a Used,
    /// What older claims of other owners hold.
    pub claimed: &'a Used,
    /// What of `used` is held for pods that should have been seen by now. It may never come, so nobody is evicted for
    /// it.
    pub unseen: &'a Used,
    /// The leaf of the refused pod.
    pub leaf: NodeId,
    /// What the refused pod counts.
    pub charge: &'a Amounts,
    /// Why it is refused, as [`blocks`](crate::quota::blocks) says for the above.
    pub blocks: &'a [Block],
    /// Where pods may say that they must not be evicted.
    pub honour: &'a Honour,
    /// Pods that were tried and cannot be evicted now.
    pub excluded: &'a PodNames,
}

/// What is to be done for a refused pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// These pods make the room, all of them together and none in vain; in the order in which they are to be evicted.
    Victims(Vec<Victim>),
    /// Nothing: pods that end already make the room.
    Nothing,
    /// No pods that may be evicted would make the whole room, so none is.
    Impossible,
}

impl Plan {
    /// The pods to evict.
    pub fn victims(&self) -> &[Victim] {
        match self {
            Self::Victims(victims) => victims,
            Self::Nothing | Self::Impossible => &[],
        }
    }
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq)]
pub struct Victim {
    /// The pod.
    pub pod: Arc<QuotaPod>,
    /// Its leaf.
    pub leaf: NodeId,
}

/// The namespaces where pods may say by label or annotation that they must not be evicted. Who writes a pod writes
/// these too, so borrowers could keep what they borrowed; by default nobody is heeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Honour {
    /// In no namespace.
    #[default]
    Nowhere,
    /// In these.
    In(BTreeSet<String>),
    /// In all.
    Everywhere,
}

impl Honour {
    /// Namespaces as the setting `quota.reclaim.honourDoNotEvict` lists them; `*` is all.
    pub fn of<T: AsRef<str>>(namespaces: impl IntoIterator<Item = T>) -> Self {
        let named: BTreeSet<String> = namespaces.into_iter().map(|name| name.as_ref().to_owned()).collect();
        if named.contains("*") {
            Self::Everywhere
        } else if named.is_empty() {
            Self::Nowhere
        } else {
            Self::In(named)
        }
    }

    /// Whether pods of a namespace are heeded.
    pub fn heeds(&self, namespace: &str) -> bool {
        match self {
            Self::Nowhere => false,
            Self::In(namespaces) => namespaces.contains(namespace),
            Self::Everywhere => true,
        }
    }
}

/// Which pods are to be evicted for a refused pod that [`is_entitled`](crate::quota::is_entitled). Does not depend on
/// the order in which pods became known.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let tree = situation.pods.tree();
    if tree.no_reclaim.is_some() {
        return Plan::Impossible;
    }
    let deficits = deficits(situation);
    if deficits.is_empty() {
        return Plan::Nothing;
    }
    // Nobody outside of the leaf holds room that only the leaf itself lacks.
    if deficits.iter().any(|deficit| deficit.node == situation.leaf) {
        return Plan::Impossible;
    }
    for pass in [Pass::KeepMin, Pass::OnePodBelow] {
        if let Some(victims) = Search::new(situation, &deficits, pass).run() {
            return Plan::Victims(victims);
        }
    }
    Plan::Impossible
}

/// How much is missing at each blocked node, once all pods that terminate have gone.
fn deficits(situation: &Situation<'_>) -> Vec<Deficit> {
    let mut deficits = Vec::new();
    for block in situation.blocks {
        let resource = block.resource.as_ref();
        let at = |used: &Used| used.at(block.node).of(resource);
        let missing = at(situation.used)
            .saturating_add(at(situation.claimed))
            .saturating_add(situation.charge.of(resource))
            .saturating_sub(block.max)
            .saturating_sub(at(situation.pods.terminating()))
            .saturating_sub(at(situation.unseen));
        if missing > 0 {
            deficits.push(Deficit { node: block.node, resource: Arc::clone(&block.resource), missing });
        }
    }
    deficits
}
