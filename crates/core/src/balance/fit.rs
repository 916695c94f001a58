//! Whether a pod fits on a node. What cannot be shown to fit does not.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::balance::claims::Claim;
use crate::balance::constraints::{Constraints, Templates};
use crate::balance::node::BalanceNode;
use crate::balance::rules::NodeRule;
use crate::balance::selector::{items, node_terms, text};
use crate::balance::spared::Misfit;
use crate::placement::{Placed, PlacedPod, PlacedShape};
use crate::pod::Json;
use crate::quota::{Amounts, PODS};

/// A node that pods may be moved to.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) node: BalanceNode<'a>,
    /// How busy it is expected to be.
    pub(super) expected: f64,
    /// What is free of it, and which host ports are taken.
    taken: OnceCell<(Amounts, BTreeSet<(String, String)>)>,
}

/// What is known for the pods of one source.
#[derive(Debug)]
pub(super) struct Fitter<'t, 'a> {
    pub(super) source: BalanceNode<'a>,
    pods: &'a Placed,
    templates: &'t Templates<'a>,
    constraints: HashMap<*const PlacedShape, Constraints<'a>>,
    elsewhere: HashMap<NodeRule<'a>, bool>,
    /// Whether a rule lets pods run on a target, by the target's index, as far as it was asked for.
    by_rule: HashMap<NodeRule<'a>, Vec<Option<Result<(), Misfit>>>>,
}

impl<'a> Target<'a> {
    pub(super) const fn new(node: BalanceNode<'a>, expected: f64) -> Self {
        Self { node, expected, taken: OnceCell::new() }
    }

    fn taken(&self, pods: &Placed) -> &(Amounts, BTreeSet<(String, String)>) {
        self.taken.get_or_init(|| {
            let mut free = self.node.node.allocatable.clone();
            let mut ports = BTreeSet::new();
            for pod in pods.on(self.node.name()).map_or(&[][..], |on| on.pods()) {
                free.subtract(&pod.shape.requests);
                ports.extend(host_ports(&pod.shape));
            }
            (free, ports)
        })
    }
}

/// Port and protocol. The address is not looked at: the same port on two addresses is rare.
fn host_ports(shape: &PlacedShape) -> impl Iterator<Item = (String, String)> {
    items(shape.spec.0.get("hostPorts")).iter().map(|port| {
        let protocol = text(port, "protocol");
        let protocol = if protocol.is_empty() { "TCP" } else { protocol };
        (port.get("hostPort").map(Json::to_string).unwrap_or_default(), protocol.to_owned())
    })
}

impl<'t, 'a> Fitter<'t, 'a> {
    pub(super) fn new(source: BalanceNode<'a>, templates: &'t Templates<'a>, pods: &'a Placed) -> Self {
        Self {
            source,
            pods,
            templates,
            constraints: HashMap::new(),
            elsewhere: HashMap::new(),
            by_rule: HashMap::new(),
        }
    }

    /// Whether node selector and required affinity allow a node other than the source.
    pub(super) fn allows_another(&mut self, pod: &'a PlacedPod, nodes: &[BalanceNode<'_>]) -> bool {
        let source = self.source.name();
        let rule = NodeRule::of(&pod.shape);
        *self
            .elsewhere
            .entry(rule)
            .or_insert_with(|| nodes.iter().any(|node| node.name() != source && rule.allows(node)))
    }

    /// The first of the targets that a pod fits on and that `accepts` it; else how many are out of the question why.
    pub(super) fn target<'s>(
        &mut self,
        pod: &'a PlacedPod,
        claims: &[&Claim],
        targets: &'s [Target<'a>],
        accepts: impl Fn(&Target<'a>) -> Result<(), Misfit>,
    ) -> Result<&'s Target<'a>, BTreeMap<Misfit, usize>> {
        let source = self.source.name();
        let constraints = self
            .constraints
            .entry(Arc::as_ptr(&pod.shape))
            .or_insert_with(|| self.templates.constraints(&pod.shape, source));
        let rule = NodeRule::of(&pod.shape);
        let by_rule = self.by_rule.entry(rule).or_default();
        by_rule.resize(targets.len(), None);
        let mut misfits = BTreeMap::new();
        for (target, known) in targets.iter().zip(by_rule) {
            let fits = has_room(pod, target, self.pods)
                .and_then(|()| known.get_or_insert_with(|| by_node(&rule, &target.node)).clone())
                .and_then(|()| on_node(pod, claims, target, self.pods))
                .and_then(|()| constraints.misfit(&target.node).map_or(Ok(()), Err))
                .and_then(|()| accepts(target));
            match fits {
                Ok(()) => return Ok(target),
                Err(misfit) => *misfits.entry(misfit).or_default() += 1,
            }
        }
        Err(misfits)
    }
}

/// Whether a node has what a pod requests.
fn has_room(pod: &PlacedPod, target: &Target<'_>, pods: &Placed) -> Result<(), Misfit> {
    let (node, shape) = (&target.node, &pod.shape);
    let (free, _) = target.taken(pods);
    // Manifests that people write often do not say how many pods a node takes.
    let counts = |name: &str| name != PODS || node.node.allocatable.get(PODS).is_some();
    let lacking = shape.requests.iter().find(|(name, asked)| counts(name) && *asked > free.of(name));
    lacking.map_or(Ok(()), |(name, _)| Err(Misfit::Requests(Arc::clone(name))))
}

/// Whether a rule lets pods run on a node.
fn by_node(rule: &NodeRule<'_>, node: &BalanceNode<'_>) -> Result<(), Misfit> {
    if !rule.allows(node) {
        return Err(Misfit::Affinity);
    }
    rule.untolerated(node).map_or(Ok(()), |taint| Err(Misfit::Taint(taint.key.clone())))
}

/// Whether a pod fits on a node that has room, as far as the node alone decides.
fn on_node(pod: &PlacedPod, claims: &[&Claim], target: &Target<'_>, pods: &Placed) -> Result<(), Misfit> {
    let (node, shape) = (&target.node, &pod.shape);
    let (_, ports) = target.taken(pods);
    if host_ports(shape).any(|port| ports.contains(&port)) {
        return Err(Misfit::HostPort);
    }
    if !items(shape.spec.0.get("resourceClaims")).is_empty() {
        return Err(Misfit::Device);
    }
    let labels = |key: &str| node.label(key);
    let reaches = |claim: &&Claim| match claim {
        Claim::Everywhere => true,
        Claim::On(required) => node_terms(&required.0, node.name(), &labels),
        Claim::Here | Claim::Unknown(_) => false,
    };
    if claims.iter().all(reaches) { Ok(()) } else { Err(Misfit::Volume) }
}
