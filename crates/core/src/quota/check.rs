//! The rules that a tree can be judged by alone: T1, T2, T3, T5, T6, T7, T9, T12, T13.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use plimsoll_quantity::{Format, Quantity};

use crate::quota::TREE_NAMESPACE;
use crate::quota::walk::{Bounds, Walk, reason};

/// Namespaces that are blocked, and why.
pub(super) type Blocked = BTreeMap<Arc<str>, String>;

/// Judges what was read. The answer is what single namespaces are blocked for; nodes that are blocked are in the walk.
pub(super) fn check(walk: &mut Walk<'_>) -> Blocked {
    for index in 0..walk.nodes.len() {
        own_bounds(walk, index);
        sum_of_children(walk, index);
        bounded_by_parent(walk, index);
    }
    names(walk);
    namespaces(walk)
}

fn own_bounds(walk: &mut Walk<'_>, index: usize) {
    let Some(node) = walk.nodes.get(index) else { return };
    let is_root = node.parent.is_none();
    let resources: BTreeSet<&Arc<str>> = node.min.keys().chain(node.max.keys()).collect();
    let mut found = Vec::new();
    for resource in resources {
        let (min, max) = (node.min.get(resource), node.max.get(resource));
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            found.push((
                format!(".min.{resource}"),
                "T1",
                format!("{resource}: min {min} is above max {max}; lower min or raise max"),
            ));
        }
        if is_root && min != max {
            let absent = || "absent".to_owned();
            let (min, max) =
                (min.map_or_else(absent, ToString::to_string), max.map_or_else(absent, ToString::to_string));
            found.push((
                format!(".min.{resource}"),
                "T3",
                format!("{resource}: min {min} differs from max {max}; at the root both are the same"),
            ));
        }
    }
    for (below, rule, message) in found {
        walk.problem(index, &below, rule, &message);
    }
}

fn sum_of_children(walk: &mut Walk<'_>, index: usize) {
    let Some(node) = walk.nodes.get(index) else { return };
    let mut sums: BTreeMap<&Arc<str>, (i128, Format)> = BTreeMap::new();
    for child in node.children.iter().filter_map(|child| walk.nodes.get(*child)) {
        for (resource, min) in &child.min {
            let sum = sums.entry(resource).or_insert((0, min.format()));
            sum.0 = sum.0.saturating_add(min.nanos());
        }
    }
    let mut found = Vec::new();
    for (resource, (sum, format)) in sums {
        let own = node.min.get(resource);
        if sum > own.map_or(0, Quantity::nanos) {
            let sum = Quantity::from_nanos(sum, format);
            let own = own.map_or_else(|| "0 (absent)".to_owned(), ToString::to_string);
            found.push((
                format!(".min.{resource}"),
                format!("{resource}: min of its children adds up to {sum}, above its own min {own}; lower theirs or raise its own"),
            ));
        }
    }
    for (below, message) in found {
        walk.problem(index, &below, "T2", &message);
    }
}

fn bounded_by_parent(walk: &mut Walk<'_>, index: usize) {
    let Some(node) = walk.nodes.get(index) else { return };
    let Some(parent) = node.parent.and_then(|parent| walk.nodes.get(parent)) else { return };
    let wider = |(resource, max): (&Arc<str>, &Quantity), above: &Bounds| {
        let bound = above.get(resource).filter(|bound| max > bound)?;
        let message =
            format!("{resource}: max {max} is above max {bound} of its parent, which bounds it anyway");
        Some((format!(".max.{resource}"), message))
    };
    let found: Vec<_> = node.max.iter().filter_map(|entry| wider(entry, &parent.max)).collect();
    for (below, message) in found {
        walk.warning(index, &below, "T9", &message);
    }
}

fn names(walk: &mut Walk<'_>) {
    let mut first: HashMap<Arc<str>, usize> = HashMap::new();
    for index in 0..walk.nodes.len() {
        let Some(node) = walk.nodes.get(index) else { continue };
        let name = Arc::clone(&node.name);
        if name.is_empty() {
            if node.named {
                let text = walk.problem(index, ".name", "T7", "has no name; give it one of its own");
                walk.blocked.entry(index).or_insert_with(|| reason(&text));
            }
            continue;
        }
        let Some(other) = first.get(&name).copied() else {
            first.insert(name, index);
            continue;
        };
        let message = format!(
            "the name {name:?} is that of {} too; every node has a name of its own",
            walk.dotted(other)
        );
        let text = walk.problem(index, ".name", "T7", &message);
        walk.blocked.entry(other).or_insert_with(|| reason(&text));
        walk.blocked.entry(index).or_insert_with(|| reason(&text));
    }
}

fn namespaces(walk: &mut Walk<'_>) -> Blocked {
    let mut blocked = Blocked::new();
    // Where a namespace was met first, at a leaf.
    let mut bound: HashMap<&str, usize> = HashMap::new();
    for index in 0..walk.nodes.len() {
        let Some(node) = walk.nodes.get(index) else { continue };
        let (list, has_children) = (node.namespaces.clone(), node.has_children);
        if has_children {
            if !list.is_empty() {
                let names = list.iter().take(5).map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
                let message =
                    format!("has namespaces ({names}) and children; bind namespaces to a leaf below it");
                let text = walk.problem(index, ".namespaces", "T6", &message);
                for (_, name) in &list {
                    blocked.entry(Arc::from(*name)).or_insert_with(|| reason(&text));
                }
            }
        } else if list.is_empty() {
            walk.warning(index, ".namespaces", "T13", "is a leaf without namespaces; nothing counts there");
        }
        let mut here = BTreeSet::new();
        for (position, name) in list {
            let place = format!(".namespaces[{position}]");
            if name == TREE_NAMESPACE {
                let message = format!("{name} is never bound by a quota; take it out");
                walk.problem(index, &place, "T12", &message);
            }
            if !here.insert(name) {
                walk.warning(index, &place, "T13", &format!("namespace {name} stands here twice"));
                continue;
            }
            if has_children {
                continue;
            }
            let Some(other) = bound.get(name).copied() else {
                bound.insert(name, index);
                continue;
            };
            let message = format!(
                "namespace {name} is bound to {} and to {}; a namespace belongs to one leaf",
                walk.dotted(other),
                walk.dotted(index)
            );
            let text = walk.problem(index, &place, "T5", &message);
            blocked.entry(Arc::from(name)).or_insert_with(|| reason(&text));
        }
    }
    blocked
}
