//! `/validate`: objects of our own group.

use serde_json::Value;

use crate::admission::envelope::Review;
use crate::admission::response::{Answer, Outcome};
use crate::admission::skip::Skip;
use crate::problem::join;
use crate::profile;

/// Judges the object of a review. Anything that is not ours is allowed.
pub fn validate(review: &Review<'_>) -> Answer {
    if review.group != "plimsoll.dev" || review.kind != "OvercommitProfile" {
        return Answer::allow(Outcome::Skipped(Skip::Kind));
    }
    if !review.sub_resource.is_empty() {
        return Answer::allow(Outcome::Skipped(Skip::SubResource));
    }
    if review.operation != "CREATE" && review.operation != "UPDATE" {
        return Answer::allow(Outcome::Skipped(Skip::Operation));
    }
    let object = review.object.as_ref().map_or(Value::Null, |object| object.0.to_value());
    let problems = match profile::from_manifest(&object) {
        Err(problems) => problems,
        Ok(profile) => {
            let warnings = profile::advice(&profile).into_iter().map(|remark| format!("plimsoll: {remark}"));
            return Answer { warnings: warnings.collect(), ..Answer::allow(Outcome::Unchanged) };
        }
    };
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&review.name);
    let message = format!("OvercommitProfile {name:?} is not valid: {}", join(&problems));
    let old_spec = review.old_object.as_ref().and_then(|old| old.0.get("spec"));
    let spec = review.object.as_ref().and_then(|object| object.0.get("spec"));
    // A label or finalizer of a profile that was bad before can still be changed.
    if review.operation == "UPDATE" && old_spec.is_some() && old_spec == spec {
        return Answer { warnings: vec![message], ..Answer::allow(Outcome::Unchanged) };
    }
    Answer::deny(message)
}
