//! `/mutate` for autoscalers.

use serde_json::Value;

use crate::admission::{
    Answer, Context, Outcome, Review, SelfCheckError, Skip, apply_patch, fits_annotations,
};
use crate::hpa::{
    Bases, Conversion, Hpa, KeyBase, Originals, TargetFacts, Verdict, Why, apply_to, convert, judge,
    operations, read_sync,
};
use crate::pod::Json;

/// Whether a review is about an autoscaler.
pub fn is_hpa(review: &Review<'_>) -> bool {
    review.group == "autoscaling" && review.kind == "HorizontalPodAutoscaler"
}

/// What was decided about an autoscaler.
#[derive(Clone, Debug)]
pub struct HpaDecision {
    /// The answer.
    pub answer: Answer,
    /// What was done to it.
    pub conversion: Conversion,
    /// Why the patch was not sent, if it was found wrong.
    pub self_check: Option<SelfCheckError>,
}

/// The decision about an autoscaler that is about to be created or changed.
pub fn mutate(review: &Review<'_>, context: &Context<'_>) -> HpaDecision {
    let skipped = |skip, warnings| HpaDecision {
        answer: Answer { warnings, ..Answer::allow(Outcome::Skipped(skip)) },
        conversion: Conversion::default(),
        self_check: None,
    };
    if !review.sub_resource.is_empty() {
        return skipped(Skip::SubResource, Vec::new());
    }
    if !matches!(review.operation.as_ref(), "CREATE" | "UPDATE") {
        return skipped(Skip::Operation, Vec::new());
    }
    let object = review.object.as_ref().map_or(Value::Null, |object| object.0.to_value());
    let read = |object: &Value| {
        let mut hpa = Hpa::read(object)?;
        review.namespace.as_ref().clone_into(&mut hpa.namespace);
        Ok::<_, crate::hpa::HpaError>(hpa)
    };
    if object.get("apiVersion").and_then(Value::as_str) != Some("autoscaling/v2") {
        let warning = "plimsoll: only autoscaling/v2 is converted; set matchPolicy Equivalent in the webhook, and the \
                       API server sends others as that";
        return skipped(Skip::Kind, vec![warning.to_owned()]);
    }
    let new = match read(&object) {
        Ok(new) => new,
        Err(error) => {
            return skipped(
                Skip::Malformed,
                vec![format!("plimsoll: left as it is: {}: {error}", error.path())],
            );
        }
    };
    let old = review.old_object.as_ref().map(|old| old.0.to_value()).and_then(|old| read(&old).ok());
    // What was converted before its namespace was excluded must not be stuck.
    let is_marked = [Some(&new), old.as_ref()]
        .into_iter()
        .flatten()
        .any(|hpa| hpa.original.is_some() || hpa.sync.is_some());
    if context.settings.excluded_namespaces.contains(review.namespace.as_ref()) && !is_marked {
        return skipped(Skip::ExcludedNamespace, Vec::new());
    }
    let mut warnings = Vec::new();
    let verdict = match new.sync.as_deref().map(read_sync) {
        // Whatever the keeper thought a moment ago.
        _ if new.opted_out => Verdict::Restore(Why::OptedOut),
        Some(Ok(verdict)) => verdict,
        Some(Err(error)) => {
            warnings.push(format!("plimsoll: annotation {} is ignored: {error}", crate::keys::HPA_SYNC));
            by_template(&new, old.as_ref(), context)
        }
        None => by_template(&new, old.as_ref(), context),
    };
    let conversion = convert(&new, old.as_ref(), &verdict);
    warnings.extend(
        conversion.notes.iter().filter(|note| note.is_warning()).map(|note| format!("plimsoll: {note}")),
    );
    answer(review, &object, conversion, warnings)
}

/// The verdict without the pods, which only the keeper sees. What it found when it last wrote counts, not what the
/// template says: both would write in turn for ever.
fn by_template(new: &Hpa, old: Option<&Hpa>, context: &Context<'_>) -> Verdict {
    let target = context.objects.workload(&new.namespace, &new.target);
    let template = target.and_then(|workload| workload.template.as_deref());
    let facts = TargetFacts { pods: &[], template };
    // Of the object as it was stored: what comes with a new one, or one that scales something else now, may be a copy.
    let stored = old.filter(|old| old.target == new.target).and_then(|old| old.original.as_deref());
    let recorded = stored.and_then(|text| Originals::read(text).ok());
    let mut verdict = judge(new, &facts, context);
    match &mut verdict {
        Verdict::Convert(Bases(bases)) => {
            bases.retain(|key, _| {
                let original = recorded.as_ref().and_then(|recorded| recorded.0.get(key));
                // One that waits has something that the template does not show.
                original.is_none_or(|original| original.written.is_some())
            });
            for (key, base) in bases {
                let written = recorded.as_ref().and_then(|recorded| recorded.0.get(key)?.written.as_ref());
                if let Some(written) = written {
                    *base = KeyBase::Known(written.base);
                }
            }
        }
        // Its pods may be lowered still: that is for the keeper to say. It was converted: what is new is too.
        Verdict::Restore(Why::NotOurs(_)) if recorded.as_ref().is_some_and(Originals::has_written) => {
            verdict = Verdict::Unknown;
        }
        _ => {}
    }
    // Where nothing is ever lowered, nothing has to be remembered.
    if verdict == Verdict::Unknown && recorded.is_none() && context.objects.profiles().iter().next().is_none()
    {
        return Verdict::Restore(Why::NotOurs(Skip::NoProfile));
    }
    verdict
}

fn answer(review: &Review<'_>, object: &Value, conversion: Conversion, warnings: Vec<String>) -> HpaDecision {
    let patch = operations(object, &conversion);
    let mut answer = Answer {
        warnings,
        ..Answer::allow(if patch.is_empty() { Outcome::Unchanged } else { Outcome::Applied })
    };
    let said: Vec<String> =
        conversion.notes.iter().filter(|note| !note.is_warning()).map(ToString::to_string).collect();
    answer.changed = (!said.is_empty()).then(|| said.join("; "));
    let checked = if patch.is_empty() { Ok(()) } else { check(review, object, &conversion, &patch) };
    let self_check = answer.send(patch, checked, "left as it is");
    HpaDecision { answer, conversion, self_check }
}

/// Applies the patch to what was received and compares.
fn check(
    review: &Review<'_>,
    object: &Value,
    conversion: &Conversion,
    patch: &[crate::admission::Operation],
) -> Result<(), SelfCheckError> {
    let Some(received) = &review.object else { return Err(SelfCheckError::Differs("object".to_owned())) };
    let mut patched = received.0.clone();
    apply_patch(&mut patched, patch).map_err(SelfCheckError::DoesNotApply)?;
    let wanted = apply_to(object, conversion);
    if patched != Json::borrowed(&wanted) {
        return Err(SelfCheckError::Differs("spec.metrics".to_owned()));
    }
    let annotations = patched.get("metadata").and_then(|metadata| metadata.get("annotations"));
    fits_annotations(annotations.and_then(Json::as_object))
}
