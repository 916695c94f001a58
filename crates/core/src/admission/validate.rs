//! `/validate`: objects of our own group, and quota trees.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::decide::Settings;
use crate::admission::envelope::Review;
use crate::admission::response::{Answer, Outcome};
use crate::admission::skip::Skip;
use crate::objects::Objects;
use crate::pod::Pruned;
use crate::problem::{Problem, join};
use crate::profile;
use crate::quota::{
    Judgement, StoredTree, TREE_GROUP, TREE_KIND, TREE_NAMESPACE, TreePlace, UsageByNamespace,
};

/// What an object is judged by, besides itself.
#[derive(Clone, Copy, Debug)]
pub struct ValidateContext<'a> {
    /// The cluster.
    pub objects: &'a Objects,
    /// The configuration.
    pub settings: &'a Settings,
    /// What counted pods use; none if it is not known.
    pub usage: Option<&'a UsageByNamespace>,
}

/// Whether it depends on what is in use whether the object of a review is refused.
pub fn needs_usage(review: &Review<'_>) -> bool {
    is_tree(review)
        && why_skipped(review).is_none()
        && review.namespace == TREE_NAMESPACE
        && (review.operation == "DELETE" || (review.operation == "UPDATE" && !keeps_spec(review)))
}

/// Judges the object of a review. Anything that is not ours is allowed.
pub fn validate(review: &Review<'_>, context: &ValidateContext<'_>) -> Answer {
    if let Some(skip) = why_skipped(review) {
        return Answer::allow(Outcome::Skipped(skip));
    }
    if is_tree(review) { tree(review, context) } else { profile(review) }
}

fn why_skipped(review: &Review<'_>) -> Option<Skip> {
    let is_profile = review.group == "plimsoll.dev" && review.kind == "OvercommitProfile";
    let operation = review.operation.as_ref();
    if !is_profile && !is_tree(review) {
        Some(Skip::Kind)
    } else if !review.sub_resource.is_empty() {
        Some(Skip::SubResource)
    } else if !matches!(operation, "CREATE" | "UPDATE") && (is_profile || operation != "DELETE") {
        Some(Skip::Operation)
    } else {
        None
    }
}

fn is_tree(review: &Review<'_>) -> bool {
    review.group == TREE_GROUP && review.kind == TREE_KIND
}

/// Whether an update leaves `spec` as it was. A label or finalizer of an object that was bad before can be changed.
fn keeps_spec(review: &Review<'_>) -> bool {
    let old = review.old_object.as_ref().and_then(|old| old.0.get("spec"));
    let new = review.object.as_ref().and_then(|new| new.0.get("spec"));
    review.operation == "UPDATE" && old.is_some() && old == new
}

fn manifest(object: Option<&Pruned<'_>>) -> Value {
    object.map_or(Value::Null, |object| object.0.to_value())
}

fn tree(review: &Review<'_>, context: &ValidateContext<'_>) -> Answer {
    let read = |manifest: &Value| {
        let mut tree = StoredTree::read(manifest);
        review.namespace.as_ref().clone_into(&mut tree.namespace);
        if tree.name.is_empty() {
            review.name.as_ref().clone_into(&mut tree.name);
        }
        tree
    };
    let stored: Vec<_> = context.objects.quota_trees().cloned().collect();
    let old_manifest = manifest(review.old_object.as_ref());
    let old = (!old_manifest.is_null()).then(|| read(&old_manifest));
    let has_flavor = |name: &str| context.objects.flavor(name).is_some();
    let place = TreePlace {
        own_namespace: Some(context.settings.own_namespace.as_str()).filter(|own| !own.is_empty()),
        allocatable: context.objects.allocatable(),
        refuse_above_cluster: context.settings.refuse_above_cluster,
        has_flavor: Some(&has_flavor),
        stored: &stored,
        usage: context.usage,
        old: old.as_ref(),
        forced: StoredTree::is_forced(&old_manifest),
    };
    if review.operation == "DELETE" {
        // An API server sends what is deleted; what is stored stands in for it.
        let same = |tree: &&Arc<StoredTree>| {
            tree.namespace == review.namespace.as_ref() && tree.name == review.name.as_ref()
        };
        let deleted = old.as_ref().or_else(|| stored.iter().find(same).map(AsRef::as_ref));
        let judgement = deleted.map(|deleted| place.judge_deletion(deleted)).unwrap_or_default();
        return judged(&judgement, &format!("{TREE_KIND} {:?} is not deleted", &*review.name));
    }
    let new = read(&manifest(review.object.as_ref()));
    let judgement = place.judge(&new);
    let refusal = format!("{TREE_KIND} {:?} is not valid", new.name);
    if keeps_spec(review) {
        let Judgement { mut problems, mut warnings } = judgement;
        problems.append(&mut warnings);
        return judged(&Judgement { problems: Vec::new(), warnings: problems }, &refusal);
    }
    judged(&judgement, &refusal)
}

/// More would be a burden to whoever reads it, and to the API server.
const MOST_TEXT: usize = 64 * 1024;

fn judged(judgement: &Judgement, refusal: &str) -> Answer {
    if judgement.problems.is_empty() {
        let warnings = judgement.warnings.iter().map(|warning: &Problem| format!("plimsoll: {warning}"));
        return Answer { warnings: warnings.collect(), ..Answer::allow(Outcome::Unchanged) };
    }
    let mut message = format!("{refusal}: {}", join(&judgement.problems));
    if message.len() > MOST_TEXT {
        let end = (0..=MOST_TEXT).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str(".. (plimsoll validate shows the rest)");
    }
    Answer::deny(message)
}

fn profile(review: &Review<'_>) -> Answer {
    let object = manifest(review.object.as_ref());
    let problems = match profile::from_manifest(&object) {
        Err(problems) => problems,
        Ok(profile) => {
            let warnings = profile::advice(&profile).into_iter().map(|remark| format!("plimsoll: {remark}"));
            return Answer { warnings: warnings.collect(), ..Answer::allow(Outcome::Unchanged) };
        }
    };
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&review.name);
    let message = format!("OvercommitProfile {name:?} is not valid: {}", join(&problems));
    if keeps_spec(review) {
        return Answer { warnings: vec![message], ..Answer::allow(Outcome::Unchanged) };
    }
    Answer::deny(message)
}
