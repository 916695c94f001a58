//! How loaded a node is, in one word: for clusters whose scheduler cannot be asked to look at anything but labels.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::keys;
use crate::objects::{Node, Objects};

/// How loaded a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadClass {
    /// Pods are welcome.
    Low,
    /// In between.
    Mid,
    /// Better not.
    High,
}

impl LoadClass {
    /// Every class, the least loaded first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Mid, Self::High];

    /// The value of the label [`keys::LOAD_CLASS`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Mid => "mid",
            Self::High => "high",
        }
    }

    /// The class of a value of the label.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl fmt::Display for LoadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A bound minus a hysteresis is not what people calculate: 0.75 - 0.05 > 0.7.
const SLACK: f64 = 1e-9;

/// Where classes begin, as shares of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassBounds {
    /// From here on a node is [`LoadClass::Mid`].
    pub mid: f64,
    /// From here on it is [`LoadClass::High`].
    pub high: f64,
    /// How far usage must fall below a bound for the class to fall with it.
    pub hysteresis: f64,
}

impl ClassBounds {
    /// The class of a node with this usage that has had the class `before`. It rises at once, and falls late: a node
    /// whose usage swings around a bound is not written all the time.
    pub fn class(&self, usage: f64, before: Option<LoadClass>) -> LoadClass {
        let is_above = |bound: f64, class: LoadClass| {
            let kept = before.is_some_and(|before| before >= class);
            usage >= if kept { bound - self.hysteresis - SLACK } else { bound - SLACK }
        };
        if is_above(self.high, LoadClass::High) {
            LoadClass::High
        } else if is_above(self.mid, LoadClass::Mid) {
            LoadClass::Mid
        } else {
            LoadClass::Low
        }
    }
}

/// A label to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassChange {
    /// The node.
    pub node: Arc<Node>,
    /// What its label is to be; `None`: it is to be taken off.
    pub class: Option<LoadClass>,
}

/// In so many rounds in a row a node must be without load before its label is taken off.
const MISSED: u32 = 3;

/// Which labels are to be written, over the rounds in which nodes are looked at: a label is not worth much that changes with
/// each of them.
#[derive(Debug, Default)]
pub struct ClassRounds {
    /// By name and uid of the node.
    seen: HashMap<(String, String), Seen>,
}

/// What the last rounds told about a node.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// In the last round it was of this class.
    Class(LoadClass),
    /// In so many rounds it had no load.
    Missing(u32),
}

impl ClassRounds {
    /// A round: the labels that are to be written, by name of the node; `usage` is that of the node of a name.
    ///
    /// A node without a label gets one at once. Another class than the written one counts when two rounds in a row tell of
    /// it; if they tell of different ones, by the one that both of them reach. The label is taken off a node that has been
    /// without load for three rounds. Where no node has a load the source is away, and nothing is known: nothing is written,
    /// and rounds are counted anew.
    pub fn next(
        &mut self,
        objects: &Objects,
        usage: impl Fn(&str) -> Option<f64>,
        bounds: &ClassBounds,
    ) -> Vec<ClassChange> {
        let nodes: Vec<_> = objects.nodes().map(|node| (node, usage(&node.name))).collect();
        let last = std::mem::take(&mut self.seen);
        if nodes.iter().all(|(_, usage)| usage.is_none()) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (node, usage) in nodes {
            let key = (node.name.clone(), node.uid.clone());
            let before = last.get(&key).copied();
            let written = node.labels.get(keys::LOAD_CLASS).map(String::as_str);
            let labelled = written.and_then(LoadClass::from_name);
            let (seen, wanted) = if let Some(usage) = usage {
                let class = bounds.class(usage, labelled);
                (Seen::Class(class), Some(settled(class, before, labelled)))
            } else {
                let missing = match before {
                    Some(Seen::Missing(rounds)) => rounds.saturating_add(1),
                    _ => 1,
                };
                // Until then it keeps what it has, be it a word of somebody else.
                if missing < MISSED {
                    self.seen.insert(key, Seen::Missing(missing));
                    continue;
                }
                (Seen::Missing(missing), None)
            };
            self.seen.insert(key, seen);
            if written != wanted.map(LoadClass::name) {
                changes.push(ClassChange { node: Arc::clone(node), class: wanted });
            }
        }
        changes.sort_by(|left, right| left.node.name.cmp(&right.node.name));
        changes
    }
}

/// The class that this round and the last one agree upon, for a node that is labelled.
fn settled(class: LoadClass, before: Option<Seen>, labelled: Option<LoadClass>) -> LoadClass {
    let Some(labelled) = labelled else { return class };
    match before {
        Some(Seen::Class(last)) if class > labelled && last > labelled => class.min(last),
        Some(Seen::Class(last)) if class < labelled && last < labelled => class.max(last),
        _ => labelled,
    }
}
