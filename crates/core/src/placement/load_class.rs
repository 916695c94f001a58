//! How loaded a node is, in one word: for clusters whose scheduler cannot be asked to look at anything but labels.

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

/// The labels that are not as they should be, by name of the node; `usage` is that of the node of a name. A node of whose load nothing is known has none.
pub fn class_changes(
    objects: &Objects,
    usage: impl Fn(&str) -> Option<f64>,
    bounds: &ClassBounds,
) -> Vec<ClassChange> {
    let mut changes: Vec<_> = objects
        .nodes()
        .filter_map(|node| {
            let written = node.labels.get(keys::LOAD_CLASS).map(String::as_str);
            let before = written.and_then(LoadClass::from_name);
            let class = usage(&node.name).map(|usage| bounds.class(usage, before));
            let is_right = written == class.map(LoadClass::name);
            (!is_right).then(|| ClassChange { node: Arc::clone(node), class })
        })
        .collect();
    changes.sort_by(|left, right| left.node.name.cmp(&right.node.name));
    changes
}
