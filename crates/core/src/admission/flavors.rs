//! The second step at `/mutate`: a pod of a quota gets the node affinity that its leaf's flavors ask for, whatever
//! became of its requests.

use crate::admission::decide::{Context, Decision};
use crate::admission::patch::Operation;
use crate::admission::response::{Answer, Outcome};
use crate::admission::self_check;
use crate::keys;
use crate::overcommit::Plan;
use crate::pod::{Json, Pruned, group_of};
use crate::quota::TREE_NAMESPACE;
use crate::quota::flavor::{FlavorRefusal, Injection, Placement, inject};

/// What flavors did to a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct FlavorStep {
    /// Where the pod may run; absent if that cannot be said.
    pub placement: Option<Placement>,
    /// Why it is refused.
    pub refusal: Option<FlavorRefusal>,
    /// Whether its affinity was changed; otherwise it implied the placement already.
    pub changed: bool,
}

/// Whether a pod says that it is the copy of a static pod. Anyone can write that: it must be known from elsewhere too.
pub(super) fn says_mirror(pod: &Pruned<'_>) -> bool {
    let annotations = pod.0.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(keys::MIRROR).is_some())
}

/// Whether a node is the pod's controller. Where it is not known who creates the pod, this is what mirror pods are
/// known by.
pub(super) fn is_controlled_by_node(pod: &Pruned<'_>) -> bool {
    let Some(Json::List(references)) =
        pod.0.get("metadata").and_then(|metadata| metadata.get("ownerReferences"))
    else {
        return false;
    };
    references.iter().any(|reference| {
        let text = |key: &str| reference.get(key).and_then(Json::as_str).unwrap_or_default();
        reference.get("controller") == Some(&Json::Bool(true))
            && text("kind") == "Node"
            && group_of(text("apiVersion")).is_empty()
    })
}

/// Adds what flavors ask for to a decision about a pod's requests.
pub(super) fn add(decision: &mut Decision, pod: &Pruned<'_>, namespace: &str, context: &Context<'_>) {
    let Some(stored) = context.objects.quota_tree() else { return };
    let tree = &stored.tree;
    let Some(leaf) = tree.leaf_of(namespace) else { return };
    // Blocked namespaces are refused at `/validate`, with the reason that is about the tree.
    if namespace == TREE_NAMESPACE
        || namespace == context.settings.own_namespace
        || tree.blocked.contains_key(namespace)
    {
        return;
    }
    let placement = match Placement::of(tree, leaf, |name| context.objects.flavor(name).cloned()) {
        Ok(None) => return,
        Ok(Some(placement)) => placement,
        Err(refusal) => return refuse(decision, None, refusal),
    };
    match inject(&pod.0, &placement) {
        Ok(injection) => change(decision, pod, placement, injection),
        Err(refusal) => refuse(decision, Some(placement), refusal),
    }
}

fn refuse(decision: &mut Decision, placement: Option<Placement>, refusal: FlavorRefusal) {
    decision.answer = Answer {
        profile: decision.answer.profile.take(),
        warnings: std::mem::take(&mut decision.answer.warnings),
        ..Answer::deny(format!("plimsoll: pod refused: {refusal}"))
    };
    decision.plan = Plan::default();
    decision.flavors = Some(FlavorStep { placement, refusal: Some(refusal), changed: false });
}

fn change(decision: &mut Decision, pod: &Pruned<'_>, placement: Placement, injection: Injection) {
    let answer = &mut decision.answer;
    answer.warnings.extend(injection.warnings);
    let add = |(path, value)| Operation::Add { path, value };
    let operations: Vec<Operation> = injection.set.into_iter().map(add).collect();
    let changed = !operations.is_empty();
    if changed && let Err(error) = self_check::check_affinity(pod, &placement, &operations) {
        answer.warnings.insert(0, format!("plimsoll: node affinity left as it is: {error}"));
        if answer.patch.is_empty() {
            answer.outcome = Outcome::Error;
        }
        decision.self_check = Some(error);
        return;
    }
    if changed {
        if decision.self_check.is_some() {
            // The requests stay as they were.
            decision.plan = Plan::default();
        }
        answer.outcome = Outcome::Applied;
        let nodes = format!("nodes: {placement} ({})", placement.levels());
        answer.changed = Some(match answer.changed.take() {
            Some(requests) => format!("{requests}; {nodes}"),
            None => nodes,
        });
        let annotations =
            answer.patch.iter().position(|operation| operation.path().starts_with("/metadata/"));
        let at = annotations.unwrap_or(answer.patch.len());
        answer.patch.splice(at..at, operations);
    }
    decision.flavors = Some(FlavorStep { placement: Some(placement), refusal: None, changed });
}
