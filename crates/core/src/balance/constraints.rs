//! What other pods say about where a pod may run: affinity, anti-affinity and spread, by the domains of a topology key.
//!
//! Pods of one template say the same, so all is worked out once for each template on the source.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::balance::node::BalanceNode;
use crate::balance::rules::{DomainRule, KnownDomains, NodeRule};
use crate::balance::selector::{at, items, selects, text};
use crate::balance::spared::Misfit;
use crate::placement::{Placed, PlacedShape};
use crate::pod::Json;

/// The pods of the cluster by template, and where they are.
#[derive(Debug)]
pub(super) struct Templates<'a> {
    nodes: &'a [BalanceNode<'a>],
    groups: Vec<Group<'a>>,
    /// Where the groups of a namespace are.
    by_namespace: HashMap<&'a str, Vec<usize>>,
    /// Those that keep other pods of their own namespace away, and nobody else.
    repelling: HashMap<&'a str, Vec<usize>>,
    /// Those that may keep pods of any namespace away.
    repelling_far: Vec<usize>,
    domains: KnownDomains<'a>,
}

/// The pods of a template.
#[derive(Debug)]
struct Group<'a> {
    shape: &'a Arc<PlacedShape>,
    /// The index of a node, how many pods there are, and how many of them do not end.
    on: Vec<(usize, u32, u32)>,
}

/// What pods of a template may not do, and where.
#[derive(Debug, Default)]
pub(super) struct Constraints<'a> {
    /// Topology keys, and the domains that are closed.
    closed: Vec<(&'a str, HashSet<&'a str>)>,
    /// Topology keys, and the domains that are open; all must be.
    open: Vec<(&'a str, HashSet<&'a str>)>,
    spread: Vec<Spread<'a>>,
}

/// A hard topology spread constraint.
#[derive(Debug)]
struct Spread<'a> {
    key: &'a str,
    counts: HashMap<&'a str, u32>,
    least: u32,
    most: u32,
}

impl<'a> Templates<'a> {
    pub(super) fn of(nodes: &'a [BalanceNode<'a>], pods: &'a Placed) -> Self {
        let mut index: HashMap<*const PlacedShape, usize> = HashMap::new();
        let mut groups: Vec<Group<'a>> = Vec::new();
        for (node, facts) in nodes.iter().enumerate() {
            for pod in pods.on(facts.name()).map_or(&[][..], |on| on.pods()) {
                let at = *index.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| {
                    groups.push(Group { shape: &pod.shape, on: Vec::new() });
                    groups.len() - 1
                });
                let Some(group) = groups.get_mut(at) else { continue };
                let live = u32::from(!pod.terminating);
                match group.on.last_mut() {
                    Some((last, all, alive)) if *last == node => {
                        *all += 1;
                        *alive += live;
                    }
                    _ => group.on.push((node, 1, live)),
                }
            }
        }
        let mut by_namespace: HashMap<&'a str, Vec<usize>> = HashMap::new();
        let mut repelling: HashMap<&'a str, Vec<usize>> = HashMap::new();
        let mut repelling_far = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let namespace = group.shape.workload.namespace.as_ref();
            by_namespace.entry(namespace).or_default().push(at);
            let terms = terms(group.shape, "podAntiAffinity");
            if !terms.iter().all(is_near) {
                repelling_far.push(at);
            } else if !terms.is_empty() {
                repelling.entry(namespace).or_default().push(at);
            }
        }
        Self { nodes, groups, by_namespace, repelling, repelling_far, domains: KnownDomains::default() }
    }

    fn at<'t>(&'t self, indices: &'t [usize]) -> impl Iterator<Item = &'t Group<'a>> {
        indices.iter().filter_map(|at| self.groups.get(*at))
    }

    /// The groups of a namespace.
    fn of_namespace<'t>(&'t self, namespace: &str) -> impl Iterator<Item = &'t Group<'a>> + use<'t, 'a> {
        self.at(self.by_namespace.get(namespace).map_or(&[][..], Vec::as_slice))
    }

    /// The groups that a term of a template in this namespace may select.
    fn within_reach<'t>(
        &'t self,
        term: &Json<'_>,
        namespace: &str,
    ) -> Box<dyn Iterator<Item = &'t Group<'a>> + 't> {
        if is_near(term) { Box::new(self.of_namespace(namespace)) } else { Box::new(self.groups.iter()) }
    }

    /// What holds for a pod of this template that leaves the node `source`.
    pub(super) fn constraints(&self, shape: &'a Arc<PlacedShape>, source: &str) -> Constraints<'a> {
        let mut found = Constraints::default();
        let namespace = shape.workload.namespace.as_ref();
        let own = terms(shape, "podAntiAffinity");
        for term in own {
            let within_reach = self.within_reach(term, namespace);
            let matching = within_reach.filter(|group| selected(term, shape, group.shape, true));
            found.closed.push(self.domains(text(term, "topologyKey"), matching, shape, source));
        }
        let near = self.repelling.get(namespace).map_or(&[][..], Vec::as_slice);
        for group in self.at(near).chain(self.at(&self.repelling_far)) {
            for term in terms(group.shape, "podAntiAffinity") {
                if selected(term, group.shape, shape, true) {
                    let key = text(term, "topologyKey");
                    found.closed.push(self.domains(key, std::iter::once(group), shape, source));
                }
            }
        }
        let with = terms(shape, "podAffinity");
        for term in with {
            // As the scheduler has it, a pod counts that all terms select.
            let matching = self.within_reach(term, namespace).filter(|group| {
                with.iter().all(|term| {
                    term.get("matchLabelKeys").is_none()
                        && term.get("mismatchLabelKeys").is_none()
                        && selected(term, shape, group.shape, false)
                })
            });
            found.open.push(self.domains(text(term, "topologyKey"), matching, shape, source));
        }
        let hard: Vec<&'a Json<'static>> = items(shape.spec.0.get("topologySpreadConstraints"))
            .iter()
            .filter(|constraint| text(constraint, "whenUnsatisfiable") != "ScheduleAnyway")
            .collect();
        for constraint in &hard {
            found.spread.push(self.spread(constraint, &hard, shape, source));
        }
        found
    }

    /// The domains in which there is a pod of these groups, but for the one that leaves.
    fn domains<'g>(
        &self,
        key: &'a str,
        groups: impl Iterator<Item = &'g Group<'a>>,
        leaving: &Arc<PlacedShape>,
        source: &str,
    ) -> (&'a str, HashSet<&'a str>)
    where
        'a: 'g,
    {
        let mut domains = HashSet::new();
        for group in groups {
            let same = Arc::ptr_eq(group.shape, leaving);
            for (node, all, _) in &group.on {
                let Some(node) = self.nodes.get(*node) else { continue };
                let leaves = u32::from(same && node.name() == source);
                if let Some(domain) = node.label(key).filter(|_| *all > leaves) {
                    domains.insert(domain);
                }
            }
        }
        (key, domains)
    }

    fn spread(
        &self,
        constraint: &'a Json<'static>,
        hard: &[&'a Json<'static>],
        shape: &'a Arc<PlacedShape>,
        source: &str,
    ) -> Spread<'a> {
        let key = text(constraint, "topologyKey");
        let policy = |name: &str, default: bool| match text(constraint, name) {
            "Honor" => true,
            "Ignore" => false,
            _ => default,
        };
        let (by_affinity, by_taints) =
            (policy("nodeAffinityPolicy", true), policy("nodeTaintsPolicy", false));
        let rule = DomainRule {
            nodes: NodeRule::of(shape),
            by_affinity,
            by_taints,
            keys: hard.iter().map(|constraint| text(constraint, "topologyKey")).collect(),
            key,
        };
        let domains = self.domains.of(rule, self.nodes);
        let mut counts = domains.empty.clone();
        let same_version = |group: &PlacedShape| {
            items(constraint.get("matchLabelKeys")).iter().filter_map(Json::as_str).all(|label| {
                shape.labels.get(label).is_none_or(|value| group.labels.get(label) == Some(value))
            })
        };
        let selector = constraint.get("labelSelector");
        for group in self.of_namespace(&shape.workload.namespace) {
            if !same_version(group.shape)
                || !selects(selector, &|key| group.shape.labels.get(key).map(AsRef::as_ref), true)
            {
                continue;
            }
            let same = Arc::ptr_eq(group.shape, shape);
            for (at, _, live) in &group.on {
                let Some(node) = self.nodes.get(*at) else { continue };
                if domains.takes_part.get(*at) == Some(&true)
                    && let Some(count) = node.label(key).and_then(|domain| counts.get_mut(domain))
                {
                    let leaves = u32::from(same && node.name() == source);
                    *count += live.saturating_sub(leaves);
                }
            }
        }
        let number = |name: &str| match constraint.get(name) {
            Some(Json::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        let enough_domains = number("minDomains").is_none_or(|least| counts.len() >= least as usize);
        let least = counts.values().copied().min().filter(|_| enough_domains).unwrap_or(0);
        Spread { key, counts, least, most: number("maxSkew").unwrap_or(1) }
    }
}

impl Constraints<'_> {
    /// Why a pod may not go to a node.
    pub(super) fn misfit(&self, node: &BalanceNode<'_>) -> Option<Misfit> {
        let is_in = |(key, domains): &(&str, HashSet<&str>)| {
            node.label(key).is_some_and(|domain| domains.contains(domain))
        };
        if self.closed.iter().any(is_in) {
            return Some(Misfit::AntiAffinity);
        }
        if !self.open.iter().all(is_in) {
            return Some(Misfit::PodAffinity);
        }
        let fits = |spread: &Spread<'_>| {
            let count = node.label(spread.key).and_then(|domain| spread.counts.get(domain));
            count.is_some_and(|count| count.saturating_add(1).saturating_sub(spread.least) <= spread.most)
        };
        (!self.spread.iter().all(fits)).then_some(Misfit::Spread)
    }
}

/// The required terms of a pod's affinity to pods, or of its anti-affinity.
fn terms<'a>(shape: &'a PlacedShape, which: &str) -> &'a [Json<'static>] {
    items(at(&shape.spec.0, &["affinity", which, "requiredDuringSchedulingIgnoredDuringExecution"]))
}

/// Whether a term selects in the namespace of its pod only.
fn is_near(term: &Json<'_>) -> bool {
    items(term.get("namespaces")).is_empty() && term.get("namespaceSelector").is_none_or(Json::is_null)
}

/// Whether a term of a pod of the template `of` selects pods of another one. `unsure` is the answer where that cannot be
/// told.
fn selected(term: &Json<'_>, of: &PlacedShape, other: &PlacedShape, unsure: bool) -> bool {
    let namespaces = items(term.get("namespaces"));
    let by_selector = term.get("namespaceSelector").is_some_and(|selector| !selector.is_null());
    let namespace = other.workload.namespace.as_ref();
    let listed = if namespaces.is_empty() && !by_selector {
        of.workload.namespace.as_ref() == namespace
    } else {
        namespaces.iter().any(|listed| listed.as_str() == Some(namespace))
    };
    (listed || by_selector && unsure)
        && selects(term.get("labelSelector"), &|key| other.labels.get(key).map(AsRef::as_ref), unsure)
}
