//! The flavors of a leaf and of everything above it, combined: the nodes on which its pods may run.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::quota::flavor::{Flavor, FlavorRefusal};
use crate::quota::{Node, NodeId, Tree};

/// How many terms a required node affinity may have after flavors were added.
pub const MOST_TERMS: usize = 1024;
/// How many combinations are looked at. Contradictions among them cost time as well.
const MOST_COMBINATIONS: usize = 16 * MOST_TERMS;
/// How much of a long list is shown.
const SHOWN: usize = 4;

/// A node label that must have one of some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: Arc<str>,
    /// The values, of which one is enough, in declared order.
    pub values: Vec<Arc<str>>,
}

/// On which nodes the pods of a leaf may run: those that satisfy one of the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    leaf: Arc<str>,
    levels: Vec<Level>,
    alternatives: Vec<Vec<Requirement>>,
}

/// A node of the tree that names flavors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    path: Arc<str>,
    flavors: Vec<Arc<Flavor>>,
}

type Labels = BTreeMap<Arc<str>, Arc<str>>;

impl Placement {
    /// Where the pods of a leaf may run; `None` if that is not restricted. `lookup` finds flavors by name.
    ///
    /// # Errors
    /// A flavor is missing, the levels contradict each other, or there are too many combinations.
    pub fn of(
        tree: &Tree,
        leaf: NodeId,
        lookup: impl Fn(&str) -> Option<Arc<Flavor>>,
    ) -> Result<Option<Self>, FlavorRefusal> {
        let Some(leaf_path) = tree.node(leaf).map(|node| &node.path) else { return Ok(None) };
        let mut levels = Vec::new();
        for (_, node) in tree.upwards(leaf).filter(|(_, node)| !node.flavors.is_empty()) {
            levels.push(level(node, leaf_path, &lookup)?);
        }
        // One flavor that any node satisfies makes its whole level so.
        levels.retain(|level| level.flavors.iter().all(|flavor| !flavor.labels.is_empty()));
        if levels.is_empty() {
            return Ok(None);
        }
        let mut placement = Self { leaf: Arc::clone(leaf_path), levels, alternatives: Vec::new() };
        placement.alternatives = collapsed(placement.combined()?);
        if placement.alternatives.len() > MOST_TERMS {
            return Err(placement.too_many_terms());
        }
        Ok(Some(placement))
    }

    /// One label set of each level, in every way that does not contradict itself; the leaf's order first.
    fn combined(&self) -> Result<Vec<Labels>, FlavorRefusal> {
        let mut sets = vec![Labels::new()];
        let mut looked_at = 0_usize;
        for level in &self.levels {
            looked_at = looked_at.saturating_add(sets.len().saturating_mul(level.flavors.len()));
            if looked_at > MOST_COMBINATIONS {
                return Err(self.too_many_terms());
            }
            let mut seen = HashSet::new();
            let mut next = Vec::new();
            for set in &sets {
                for both in level.flavors.iter().filter_map(|flavor| union(set, &flavor.labels)) {
                    if seen.insert(both.clone()) {
                        next.push(both);
                    }
                }
            }
            sets = next;
        }
        if sets.is_empty() {
            let levels = join(&self.levels, "; ", |level| {
                let of = |flavor: &Arc<Flavor>| {
                    let labels = join(&flavor.labels, ", ", |(key, value)| format!("{key}={value}"));
                    format!("{} ({labels})", flavor.name)
                };
                format!("{}: {}", level.path, join(&level.flavors, " or ", of))
            });
            return Err(FlavorRefusal::Contradiction { leaf: self.leaf.to_string(), levels });
        }
        Ok(sets)
    }

    /// The path of the leaf.
    pub fn leaf(&self) -> &Arc<str> {
        &self.leaf
    }

    /// The alternatives; there is at least one. The requirements of each hold together, sorted by key.
    pub fn alternatives(&self) -> &[Vec<Requirement>] {
        &self.alternatives
    }

    /// The nodes of the tree that restrict, and their flavors, as in `root.a.a1: spot, od; root.a: za`.
    pub fn levels(&self) -> String {
        join(&self.levels, "; ", |level| {
            format!("{}: {}", level.path, join(&level.flavors, ", ", |flavor| flavor.name.to_string()))
        })
    }

    pub(super) fn too_many_terms(&self) -> FlavorRefusal {
        FlavorRefusal::TooManyTerms { leaf: self.leaf.to_string(), levels: self.levels(), most: MOST_TERMS }
    }
}

/// The labels that a node must have, as in `disk In [ssd], zone In [a] or zone In [b]`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(&self.alternatives, " or ", |all| join(all, ", ", ToString::to_string)))
    }
}

/// As in `zone In [a, b]`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} In [{}]", self.key, join(&self.values, ", ", ToString::to_string))
    }
}

impl Requirement {
    /// As it stands in `matchExpressions`.
    pub(super) fn expression(&self) -> Value {
        let values: Vec<&str> = self.values.iter().map(AsRef::as_ref).collect();
        json!({"key": self.key.as_ref(), "operator": "In", "values": values})
    }
}

fn level(
    node: &Node,
    leaf: &Arc<str>,
    lookup: &impl Fn(&str) -> Option<Arc<Flavor>>,
) -> Result<Level, FlavorRefusal> {
    let found = node.flavors.iter().map(|name| {
        lookup(name).ok_or_else(|| FlavorRefusal::Missing {
            flavor: name.to_string(),
            node: node.path.to_string(),
            leaf: leaf.to_string(),
        })
    });
    Ok(Level { path: Arc::clone(&node.path), flavors: found.collect::<Result<_, _>>()? })
}

/// Both sets; nothing if they contradict each other.
fn union(one: &Labels, other: &Labels) -> Option<Labels> {
    let mut both = one.clone();
    for (key, value) in other {
        if both.insert(Arc::clone(key), Arc::clone(value)).is_some_and(|old| old != *value) {
            return None;
        }
    }
    Some(both)
}

/// Sets that all have the same single key are one requirement.
fn collapsed(sets: Vec<Labels>) -> Vec<Vec<Requirement>> {
    let single = |set: &Labels| (set.len() == 1).then(|| set.keys().next().map(Arc::clone)).flatten();
    if let Some(key) = sets.first().and_then(single)
        && sets.iter().all(|set| single(set).as_ref() == Some(&key))
    {
        let values = sets.into_iter().flat_map(BTreeMap::into_values).collect();
        return vec![vec![Requirement { key, values }]];
    }
    let requirements =
        |set: Labels| set.into_iter().map(|(key, value)| Requirement { key, values: vec![value] }).collect();
    sets.into_iter().map(requirements).collect()
}

/// The first few, as text.
pub(super) fn join<T>(
    items: impl IntoIterator<Item = T>,
    between: &str,
    text: impl Fn(T) -> String,
) -> String {
    let mut items = items.into_iter();
    let mut shown: Vec<String> = items.by_ref().take(SHOWN).map(text).collect();
    match items.count() {
        0 => {}
        more => shown.push(format!("{more} more")),
    }
    shown.join(between)
}
