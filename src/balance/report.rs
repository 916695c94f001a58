//! What is told of a round: by the API of the leader, and by `plimsoll balance plan`.

use jiff::Timestamp;
use plimsoll_core::balance::{Move, NodeView, PodName, Round, Spared};
use plimsoll_core::placement::Qos;
use serde::Serialize;

/// So many of the busiest nodes are told of.
const BUSIEST: usize = 10;

/// A round. The form is an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When it was.
    pub at: Timestamp,
    /// What came of it, in one word.
    pub verdict: &'static str,
    /// And in words.
    pub why: String,
    /// The mean of how busy the nodes are, 0 to 1.
    pub mean: f64,
    /// The node that is relieved.
    pub source: Option<Source>,
    /// The busiest nodes, the busiest first.
    pub nodes: Vec<Node>,
    /// How many nodes count.
    pub node_count: usize,
    /// How many of them have room.
    pub target_count: usize,
    /// Who may go, the first one first.
    pub candidates: Vec<Candidate>,
    /// Every other pod of the source.
    pub spared: Vec<SparedPod>,
    /// Other nodes that are to be relieved, none of whose pods may go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stuck: Vec<StuckNode>,
    /// Evictions in vain: a pod of the workload came back to the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub came_back: Vec<CameBack>,
}

/// A workload of which a pod came back to the node that one had left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CameBack {
    /// Namespace, kind and name.
    pub workload: String,
    /// The node.
    pub node: String,
}

/// A node that is too busy, and none of its pods may go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckNode {
    /// Its name.
    pub name: String,
    /// How busy it is.
    pub usage: f64,
    /// How far above the mean.
    pub deviation: f64,
    /// Its pods.
    pub spared: Vec<SparedPod>,
}

/// The node that is relieved.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its name.
    pub name: String,
    /// How busy it is.
    pub usage: f64,
    /// How far above the mean.
    pub deviation: f64,
    /// How much is to go.
    pub excess: f64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub name: String,
    /// How busy it is, as measured, less what was evicted and still shows.
    pub usage: f64,
    /// The same with what was bound to it and does not show yet.
    pub expected: f64,
    /// How far above the mean.
    pub deviation: f64,
    /// For how many rounds in a row it has been too busy.
    pub rounds: u32,
    /// Whether pods may be moved to it.
    pub target: bool,
}

/// A pod that may go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Kind and name of its workload.
    pub workload: String,
    /// Its priority.
    pub priority: i32,
    /// Its QoS class.
    pub qos: &'static str,
    /// Cores that it uses.
    pub cpu: f64,
    /// Bytes that it uses.
    pub memory: f64,
    /// How much of the source's business it is.
    pub part: f64,
    /// The least busy node that it fits on.
    pub target: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, if there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What became of a pod that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It is being deleted.
    Evicted,
    /// It would have been evicted; nothing was done.
    WouldBeEvicted,
    /// It was gone already.
    Gone,
    /// A `PodDisruptionBudget`, or a webhook, did not allow it.
    Refused,
    /// Nobody knows whether it was evicted.
    Failed,
    /// It could not be noted first, so that nothing was done.
    Withheld,
    /// Another one goes first.
    Later,
}

/// A pod that stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SparedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why it stays, in one word.
    pub reason: &'static str,
    /// And in words.
    pub why: String,
}

impl Report {
    /// Of a round of which nothing is done yet.
    pub fn of(round: &Round) -> Self {
        let nanos = i128::from(round.now);
        Self {
            at: Timestamp::from_nanosecond(nanos).unwrap_or_default(),
            verdict: round.verdict.name(),
            why: why(round),
            mean: rounded(round.mean),
            source: round.source.as_ref().map(|source| Source {
                name: source.name.to_string(),
                usage: rounded(source.usage),
                deviation: rounded(source.deviation),
                excess: rounded(round.excess),
            }),
            nodes: round.nodes.iter().take(BUSIEST).map(Node::of).collect(),
            node_count: round.nodes.len(),
            target_count: round.nodes.iter().filter(|node| node.is_target).count(),
            candidates: round.candidates.iter().map(Candidate::of).collect(),
            spared: spared(&round.spared),
            stuck: round
                .stuck
                .iter()
                .map(|stuck| StuckNode {
                    name: stuck.node.name.to_string(),
                    usage: rounded(stuck.node.usage),
                    deviation: rounded(stuck.node.deviation),
                    spared: spared(&stuck.spared),
                })
                .collect(),
            came_back: round
                .came_back
                .iter()
                .map(|past| CameBack { workload: past.workload.clone(), node: past.node.clone() })
                .collect(),
        }
    }

    /// Notes what became of a candidate.
    pub fn note(&mut self, index: usize, outcome: Outcome, message: Option<String>) {
        if let Some(candidate) = self.candidates.get_mut(index) {
            candidate.outcome = outcome;
            candidate.message = message;
        }
    }
}

fn spared(spared: &[(PodName, Spared)]) -> Vec<SparedPod> {
    let told = spared.iter().map(|(pod, why)| SparedPod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        reason: why.name(),
        why: why.to_string(),
    });
    told.collect()
}

impl Node {
    /// All that is known of it.
    pub fn of(view: &NodeView) -> Self {
        Self {
            name: view.name.to_string(),
            usage: rounded(view.usage),
            expected: rounded(view.expected),
            deviation: rounded(view.deviation),
            rounds: view.rounds,
            target: view.is_target,
        }
    }
}

impl Candidate {
    fn of(found: &Move) -> Self {
        let workload = &found.workload.workload;
        Self {
            namespace: found.pod.namespace.to_string(),
            name: found.pod.name.to_string(),
            workload: format!("{}/{}", workload.kind, workload.name),
            priority: found.priority,
            qos: qos_name(found.qos),
            cpu: rounded(found.uses.cpu),
            memory: found.uses.memory.round(),
            part: rounded(found.part),
            target: found.target.to_string(),
            outcome: Outcome::Later,
            message: None,
        }
    }
}

/// The verdict in words, with the figures.
fn why(round: &Round) -> String {
    match &round.source {
        Some(source) => format!(
            "{}; {} is used by {:.4}, and nodes by {:.4} on average",
            round.verdict, source.name, source.usage, round.mean
        ),
        None => round.verdict.to_string(),
    }
}

const fn qos_name(qos: Qos) -> &'static str {
    match qos {
        Qos::BestEffort => "BestEffort",
        Qos::Burstable => "Burstable",
        Qos::Guaranteed => "Guaranteed",
    }
}

/// Without the last digits, which are none of the figures' but of their representation.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
