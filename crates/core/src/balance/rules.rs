//! What templates say about nodes, whatever runs on them. Most templates of a cluster say the same, so that it is worked out once
//! for each rule and not once for each template.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::balance::node::BalanceNode;
use crate::balance::selector::{at, items, node_selector, node_terms, untolerated};
use crate::objects::Taint;
use crate::placement::PlacedShape;
use crate::pod::Json;

/// Which nodes pods may run on, by node selector, required node affinity and tolerations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeRule<'a> {
    selector: Option<&'a Json<'static>>,
    required: Option<&'a Json<'static>>,
    tolerations: &'a [Json<'static>],
}

impl<'a> NodeRule<'a> {
    pub(super) fn of(shape: &'a PlacedShape) -> Self {
        let spec = &shape.spec.0;
        let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        Self {
            selector: spec.get("nodeSelector"),
            required: at(spec, &required),
            tolerations: items(spec.get("tolerations")),
        }
    }

    /// Whether node selector and required node affinity allow a node.
    pub(super) fn allows(&self, node: &BalanceNode<'_>) -> bool {
        let labels = |key: &str| node.label(key);
        node_selector(self.selector, &labels)
            && self.required.is_none_or(|required| node_terms(required, node.name(), &labels))
    }

    /// The first taint of a node that is not tolerated.
    pub(super) fn untolerated<'n>(&self, node: &BalanceNode<'n>) -> Option<&'n Taint> {
        untolerated(&node.node.taints, self.tolerations)
    }
}

/// Which nodes make domains for a topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DomainRule<'a> {
    pub(super) nodes: NodeRule<'a>,
    pub(super) by_affinity: bool,
    pub(super) by_taints: bool,
    /// The topology keys of all hard constraints of the template: a node must have each of them.
    pub(super) keys: Vec<&'a str>,
    /// That of this one.
    pub(super) key: &'a str,
}

/// The nodes and domains of a rule.
#[derive(Debug)]
pub(super) struct Domains<'a> {
    /// Whether a node takes part, by its index.
    pub(super) takes_part: Vec<bool>,
    /// The domains, without a pod in any.
    pub(super) empty: HashMap<&'a str, u32>,
}

/// The domains of all rules that were asked for.
#[derive(Debug, Default)]
pub(super) struct KnownDomains<'a>(RefCell<HashMap<DomainRule<'a>, Rc<Domains<'a>>>>);

impl<'a> KnownDomains<'a> {
    pub(super) fn of(&self, rule: DomainRule<'a>, nodes: &[BalanceNode<'a>]) -> Rc<Domains<'a>> {
        let mut known = self.0.borrow_mut();
        let found = known.entry(rule).or_insert_with_key(|rule| Rc::new(Domains::of(rule, nodes)));
        Rc::clone(found)
    }
}

impl<'a> Domains<'a> {
    /// Those that have the keys of all constraints, and that the pod could go to.
    fn of(rule: &DomainRule<'a>, nodes: &[BalanceNode<'a>]) -> Self {
        let mut empty = HashMap::new();
        let takes_part = nodes.iter().map(|node| {
            let takes_part = rule.keys.iter().all(|key| node.label(key).is_some())
                && (!rule.by_affinity || rule.nodes.allows(node))
                && (!rule.by_taints || rule.nodes.untolerated(node).is_none());
            if let Some(domain) = node.label(rule.key).filter(|_| takes_part) {
                empty.insert(domain, 0);
            }
            takes_part
        });
        Self { takes_part: takes_part.collect(), empty }
    }
}
