//! `/validate` of pods in namespaces that a quota tree binds: what has to be asked of the ledger.

use std::sync::Arc;

use crate::admission::decide::Settings;
use crate::admission::envelope::Review;
use crate::admission::flavors;
use crate::admission::response::{Answer, Outcome};
use crate::admission::skip::Skip;
use crate::objects::Objects;
use crate::pod::{Json, PodView};
use crate::quota::flavor;
use crate::quota::ledger::{Claimant, Ledger, Request, ReservationKey, ReservationKind, Ruling, judge};
use crate::quota::words::Outlook;
use crate::quota::{Amounts, TREE_NAMESPACE, Tree, charge, counted, usage_by_namespace, words};

/// What becomes of a review before the ledger is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum QuotaStep {
    /// Quota has nothing to say about it.
    Skip(Skip),
    /// It is refused, whatever the ledger says.
    Refuse(String),
    /// It is refused for now: it cannot be judged yet.
    Wait(&'static str),
    /// The ledger decides.
    Ask {
        /// What it is asked.
        request: Box<Request>,
        /// What is odd about the pod.
        warnings: Vec<String>,
    },
}

/// Whether a review is about a pod that quota may count: a pod that is created, or resized in place.
pub fn is_about_pods(review: &Review<'_>) -> bool {
    review.group.is_empty()
        && review.kind == "Pod"
        && matches!(
            (review.operation.as_ref(), review.sub_resource.as_ref()),
            ("CREATE", "") | ("UPDATE", "resize")
        )
}

/// The answer to a ruling. `reclaims` is whether borrowers are evicted at all.
pub fn quota_answer(ruling: &Ruling, tree: &Tree, reclaims: bool) -> Answer {
    match ruling {
        Ruling::Admitted => Answer::allow(Outcome::Unchanged),
        Ruling::NotBound => Answer::allow(Outcome::Skipped(Skip::NotBound)),
        Ruling::Refused { leaf, blocks, entitled, .. } => {
            let outlook = match (entitled, reclaims) {
                (true, true) => Outlook::ReclaimStarted,
                (true, false) => Outlook::ReclaimIsOff,
                (false, _) => Outlook::Waits,
            };
            Answer::deny(words::refusal(tree, *leaf, blocks, outlook))
        }
    }
}

/// The answer to a review about a pod where the pods among the objects are all that count: without a cluster.
pub fn judge_pod(review: &Review<'_>, objects: &Objects, settings: &Settings, reclaims: bool) -> Answer {
    let (request, warnings) = match quota_step(review, objects, settings) {
        QuotaStep::Skip(skip) => return Answer::allow(Outcome::Skipped(skip)),
        QuotaStep::Refuse(why) => return Answer::deny(why),
        QuotaStep::Wait(why) => return Answer::deny_for_now(why.to_owned()),
        QuotaStep::Ask { request, warnings } => (request, warnings),
    };
    let Some(stored) = objects.quota_tree() else {
        return Answer::allow(Outcome::Skipped(Skip::NotBound));
    };
    let others = objects.pods().map(AsRef::as_ref).filter(|pod| {
        // A pod that is created again is not there twice.
        request.key.kind == ReservationKind::Resize
            || pod.namespace != request.namespace
            || pod.name != request.name
    });
    let ledger = Ledger {
        initialised: true,
        committed: usage_by_namespace(others),
        ..Ledger::unknown(&stored.tree, 0)
    };
    match judge(&ledger, &stored.tree, &[*request], 0) {
        Ok(judged) => {
            let ruling = judged.rulings.first().unwrap_or(&Ruling::NotBound);
            Answer { warnings, ..quota_answer(ruling, &stored.tree, reclaims) }
        }
        Err(busy) => Answer::deny_for_now(busy.to_string()),
    }
}

/// The first step of judging a pod: whose quota it is, where it may run, and what it counts.
pub fn quota_step(review: &Review<'_>, objects: &Objects, settings: &Settings) -> QuotaStep {
    let namespace = review.namespace.as_ref();
    let Some(tree) = objects.quota_tree().map(|stored| &stored.tree) else {
        return QuotaStep::Skip(Skip::NotBound);
    };
    if namespace == TREE_NAMESPACE || namespace == settings.own_namespace {
        return QuotaStep::Skip(Skip::ExcludedNamespace);
    }
    if let Some(why) = tree.blocked.get(namespace) {
        return QuotaStep::Refuse(words::blocked(tree, namespace, why));
    }
    // Also where no leaf binds the namespace: the API server asks about bound ones only, so this replica may be behind,
    // which the ledger's generation shows.
    let Some(object) = &review.object else {
        return QuotaStep::Refuse("the review has no object, so its quota cannot be judged".to_owned());
    };
    // Anyone can write the annotation; a node's own credentials cannot be had so easily.
    if review.from_node && flavors::says_mirror(object) {
        return QuotaStep::Skip(Skip::MirrorPod);
    }
    match ask(review, object, objects, tree) {
        Ok((request, warnings)) => QuotaStep::Ask { request: Box::new(request), warnings },
        Err(why) => QuotaStep::Refuse(why),
    }
}

/// The same where it is not known which tree counts: since the API server asks about bound namespaces only, whoever is asked
/// about must wait.
pub fn quota_step_without_tree(review: &Review<'_>, settings: &Settings) -> QuotaStep {
    let namespace = review.namespace.as_ref();
    if namespace == TREE_NAMESPACE || namespace == settings.own_namespace {
        return QuotaStep::Skip(Skip::ExcludedNamespace);
    }
    if review.from_node && review.object.as_ref().is_some_and(flavors::says_mirror) {
        return QuotaStep::Skip(Skip::MirrorPod);
    }
    QuotaStep::Wait(words::TREE_UNKNOWN)
}

fn ask(
    review: &Review<'_>,
    object: &crate::pod::Pruned<'_>,
    objects: &Objects,
    tree: &Tree,
) -> Result<(Request, Vec<String>), String> {
    let pod = PodView::read(object).map_err(|error| format!("the pod cannot be counted: {error}"))?;
    let metadata = object.0.get("metadata");
    let text = |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Json::as_str);
    let uid: Arc<str> = text("uid").unwrap_or_default().into();
    if uid.is_empty() {
        return Err(
            "the pod has no metadata.uid, which the API server gives every pod before this webhook is \
                    called; call it at the validating stage"
                .to_owned(),
        );
    }
    if pod.name.is_empty() {
        return Err("the pod has no metadata.name, which the API server gives every pod before this webhook is called; \
                    call it at the validating stage"
            .to_owned());
    }
    let namespace = review.namespace.as_ref();
    let is_resize = review.operation == "UPDATE";
    let mut warnings = Vec::new();
    let (from, to) = if is_resize {
        let old = review.old_object.as_ref().map(|old| old.0.to_value()).unwrap_or_default();
        let count = |pod| counted(pod).map_err(|error| format!("the pod cannot be counted: {error}"));
        let from = count(&old)?;
        let mut to = count(&object.0.to_value())?;
        // What the node still holds counts until it has let go.
        to.raise_to(&from);
        (from, to)
    } else {
        if let Some(leaf) = tree.leaf_of(namespace) {
            let lookup = |name: &str| objects.flavor(name).map(Arc::clone);
            warnings = flavor::check(&object.0, tree, leaf, lookup).map_err(|refusal| refusal.to_string())?;
        }
        let to = charge(&pod).map_err(|error| format!("the pod cannot be counted: {error}"))?;
        (Amounts::new(), to)
    };
    let kind = if is_resize { ReservationKind::Resize } else { ReservationKind::Create };
    let request = Request {
        key: ReservationKey { uid, kind },
        namespace: namespace.into(),
        name: pod.name.into(),
        from,
        to,
        claimant: claimant(&pod, namespace),
        dry_run: review.dry_run,
    };
    Ok((request, warnings))
}

/// Who claims for a pod: its controller, or the pod itself.
fn claimant(pod: &PodView<'_>, namespace: &str) -> Claimant {
    let mut references = pod.owner_references.iter();
    let controller = references.find(|reference| reference.get("controller") == Some(&Json::Bool(true)));
    let text = |key: &str| controller.and_then(|reference| reference.get(key)).and_then(Json::as_str);
    match (text("uid"), text("kind"), text("name")) {
        (Some(uid), Some(kind), Some(name)) if !uid.is_empty() => Claimant {
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            api_version: text("apiVersion").unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        },
        _ => Claimant {
            namespace: namespace.to_owned(),
            uid: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.to_owned(),
        },
    }
}
