//! Which pod should leave the node that is busiest by real load.
//!
//! [`plan`] is a pure function of what is known: the leader asks it each minute, `plimsoll balance plan` asks it about
//! files. What one round must know of those before it is in [`State`].
//!
//! ```text
//! nodes with their load -> how busy each is, the mean -> the source: too busy for some rounds in a row
//!                                                     -> targets: not busy, and not flooded
//! pods of the source -> who may go at all -> who fits on a target -> in which order
//! ```
//!
//! Evicting is somebody else's work, and so is finding the pod a new node: the scheduler does, by scores that make the
//! source the last choice. A pod that cannot be shown to fit elsewhere is not touched.

mod candidates;
mod claims;
mod constraints;
mod fit;
mod node;
mod pod_uses;
mod quota;
mod round;
mod rules;
mod selector;
mod settings;
mod spared;
mod state;
mod usage;

use std::fmt;
use std::sync::Arc;

pub use self::candidates::claims_of;
pub use self::claims::{Claim, Claims};
pub use self::node::BalanceNode;
pub use self::pod_uses::PodUses;
pub use self::quota::{QuotaRoom, Shortage};
pub use self::round::{Move, NodeView, PodName, Round, Stuck, Verdict};
pub use self::settings::BalanceSettings;
pub use self::spared::{Misfit, Pause, Spared, Unsettled};
pub use self::state::{PastEviction, State};

use self::candidates::Search;
use self::constraints::Templates;
use self::fit::{Fitter, Target};
use self::state::Hot;
use self::usage::{NodeUsage, Usages, count, usages};
use crate::placement::{Figures, LoadSettings, Placed, PlacedPod};

/// With fewer nodes a mean says nothing.
const LEAST_NODES: usize = 3;
/// The least share of the nodes that must have fresh load.
const LEAST_FRESH: f64 = 0.8;
/// So many nodes are looked at in a round for a pod that may go.
const MOST_SOURCES: usize = 3;

/// What a round is planned from.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// All nodes, in any order.
    pub nodes: &'a [BalanceNode<'a>],
    /// All pods.
    pub pods: &'a Placed,
    /// What a pod uses: cores and bytes. `None`: nobody knows; it stays.
    pub usage: &'a dyn Fn(&PlacedPod) -> Option<Figures>,
    /// What is known of claims.
    pub claims: &'a Claims,
    /// What the quota tree has room for. `None`: nobody knows, or there is no tree.
    pub quota: Option<&'a QuotaRoom<'a>>,
    /// By which windows and metrics nodes are busy.
    pub load: &'a LoadSettings,
    /// What an operator decided.
    pub settings: &'a BalanceSettings,
    /// Nanoseconds since 1970.
    pub now: i64,
    /// When a node was lost last, likewise; 0: never.
    pub node_lost: i64,
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("nodes", &self.nodes.len())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// One round: what should be evicted, and why everything else stays.
pub fn plan(input: &Input<'_>, state: &State) -> Round {
    let mut state = state.clone();
    state.forget(input.settings, input.load, input.now);
    let came_back = state.note_returns(input.pods);
    let mut round = Round {
        state,
        now: input.now,
        nodes: Vec::new(),
        mean: 0.0,
        verdict: Verdict::Balanced,
        source: None,
        excess: 0.0,
        candidates: Vec::new(),
        spared: Vec::new(),
        stuck: Vec::new(),
        unread: Vec::new(),
        came_back,
    };
    round.verdict = round.run(input);
    round
}

impl Round {
    fn run(&mut self, input: &Input<'_>) -> Verdict {
        let taking_part = || input.nodes.iter().filter(|node| node.takes_part());
        let mut fresh: Vec<BalanceNode<'_>> =
            taking_part().filter(|node| node.is_fresh(input.load)).copied().collect();
        fresh.sort_by(|a, b| a.name().cmp(b.name()));
        let (fresh_nodes, of) = (fresh.len(), taking_part().count());
        let is_few = fresh_nodes < LEAST_NODES;
        if is_few || count(fresh_nodes) < LEAST_FRESH * count(of) {
            // In a row means without a gap.
            self.state.hot.clear();
            return if is_few {
                Verdict::FewNodes { fresh: fresh_nodes, of }
            } else {
                Verdict::Stale { fresh: fresh_nodes, of }
            };
        }
        let usages = usages(&fresh, &self.state, input.load);
        self.note_busy(&usages, input.settings);
        if !input.pods.is_complete() {
            return Verdict::PodsUnknown;
        }
        let ago = input.now.saturating_sub(input.node_lost) / 1_000_000_000;
        if input.node_lost > 0 && ago < input.settings.node_lost {
            return Verdict::NodeLost { ago };
        }
        let hot = |view: &NodeView| self.state.hot.get(&view.name).copied().unwrap_or_default();
        let active = |view: &&NodeView| hot(view).active && hot(view).news;
        let sources: Vec<NodeView> = self.nodes.iter().filter(active).take(MOST_SOURCES).cloned().collect();
        let Some(first) = sources.first() else {
            let waiting = self.nodes.iter().find(|view| view.rounds > 0);
            return waiting.map_or(Verdict::Balanced, |view| {
                let node = Arc::clone(&view.name);
                if hot(view).news {
                    Verdict::Waiting { node, rounds: view.rounds, of: input.settings.rounds.max(1) }
                } else {
                    Verdict::NoNews { node }
                }
            });
        };
        self.set_source(first, input.settings);
        let evictions = self.state.last_hour(input.now);
        if evictions >= input.settings.evictions_per_hour {
            return Verdict::Capped { evictions };
        }
        if !self.nodes.iter().any(|view| view.is_target) {
            return Verdict::NoTarget { node: Arc::clone(&first.name) };
        }
        self.search(input, &usages, &sources)
    }

    fn set_source(&mut self, source: &NodeView, settings: &BalanceSettings) {
        self.excess = source.deviation - settings.threshold / 2.0;
        self.source = Some(source.clone());
    }

    /// How busy each node is, for how long, and which have room.
    fn note_busy(&mut self, usages: &Usages<'_>, settings: &BalanceSettings) {
        self.mean = usages.mean;
        let mut hot = std::collections::BTreeMap::new();
        for usage in &usages.nodes {
            let name: Arc<str> = usage.node.name().into();
            let deviation = usage.settled - usages.mean;
            let sampled = usage.node.load.map_or(0, |load| load.sampled);
            let known = self.state.hot.get(&name).copied();
            let news = known.is_none_or(|hot| sampled > hot.sampled);
            let before = Hot { sampled, news: true, ..known.unwrap_or_default() };
            let now = if !news {
                // It says neither that the node is still busy nor that it is not.
                known.map(|hot| Hot { news, ..hot })
            } else if deviation > settings.threshold {
                let rounds = before.rounds.saturating_add(1);
                Some(Hot { rounds, active: before.active || rounds >= settings.rounds, ..before })
            } else {
                Some(before).filter(|hot| hot.active && deviation > settings.threshold / 2.0)
            };
            hot.extend(now.map(|hot| (Arc::clone(&name), hot)));
            self.nodes.push(NodeView {
                name,
                usage: usage.settled,
                expected: usage.expected,
                deviation,
                rounds: now.map_or(0, |hot| hot.rounds),
                is_target: is_target(usage, usages, settings),
            });
        }
        self.state.hot = hot;
        // Nodes come by name, so that of those that are equally busy the first one by name is first.
        self.nodes.sort_by(|a, b| b.usage.total_cmp(&a.usage));
    }

    /// Looks for a pod that may go: on the first of these nodes, and on the next one only if none of its pods may. A node
    /// whose pods are all bound to it must not keep the others from being relieved.
    fn search<'a>(&mut self, input: &Input<'a>, usages: &Usages<'a>, sources: &[NodeView]) -> Verdict {
        let mut targets: Vec<Target<'a>> = usages
            .nodes
            .iter()
            .filter(|usage| is_target(usage, usages, input.settings))
            .map(|usage| Target::new(usage.node, usage.expected))
            .collect();
        targets.sort_by(|a, b| a.expected.total_cmp(&b.expected));
        let templates = Templates::of(input.nodes, input.pods);
        let mut stuck = Vec::new();
        for source in sources {
            let Some(from) = usages.nodes.iter().find(|usage| usage.node.name() == source.name.as_ref())
            else {
                continue;
            };
            self.set_source(source, input.settings);
            let cooldowns = self.state.cooldowns(input.settings, input.now);
            let search = Search {
                input,
                expected: source.expected,
                excess: self.excess,
                mean: usages.expected_mean,
                busiest: busiest_but(&source.name, &usages.nodes),
                parts: usages.parts,
                cooldowns: &cooldowns,
                targets: &targets,
            };
            let found = search.run(&mut Fitter::new(from.node, &templates, input.pods));
            self.unread.extend(found.unread);
            if !found.moves.is_empty() {
                (self.candidates, self.spared, self.stuck) = (found.moves, found.spared, stuck);
                return Verdict::Evict { node: Arc::clone(&source.name) };
            }
            stuck.push(Stuck { node: source.clone(), spared: found.spared });
        }
        let mut stuck = stuck.into_iter();
        let Some(Stuck { node, spared }) = stuck.next() else { return Verdict::Balanced };
        self.set_source(&node, input.settings);
        (self.spared, self.stuck) = (spared, stuck.collect());
        Verdict::NoCandidate { node: node.name }
    }
}

/// The busiest two nodes other than this one, and how busy they are.
fn busiest_but<'a>(name: &str, nodes: &[NodeUsage<'a>]) -> [Option<(&'a str, f64)>; 2] {
    let mut busiest = [None, None];
    for usage in nodes.iter().filter(|usage| usage.node.name() != name) {
        let found = Some((usage.node.name(), usage.expected));
        let is_busier = |than: Option<(&str, f64)>| than.is_none_or(|(_, busy)| usage.expected > busy);
        if is_busier(busiest[0]) {
            busiest = [found, busiest[0]];
        } else if is_busier(busiest[1]) {
            busiest[1] = found;
        }
    }
    busiest
}

/// Whether a node has room: as measured, and still with what was bound to it and does not show yet.
fn is_target(usage: &NodeUsage<'_>, of_all: &Usages<'_>, settings: &BalanceSettings) -> bool {
    let below = -settings.threshold / 2.0;
    usage.measured - of_all.mean < below
        && usage.expected - of_all.expected_mean < below
        && !usage.node.hot_spot
}
