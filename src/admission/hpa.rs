//! Reviews of autoscalers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::Timestamp;
use plimsoll_core::admission::{Answer, Context, Outcome, Review, Settings, Skip};
use plimsoll_core::hpa::{self, Conversion, HpaDecision, Note};
use plimsoll_core::objects::Objects;

use super::operation;
use crate::decisions::why;
use crate::metrics::{HpaOutcome, Metrics};
use crate::server::Stage;

/// Answers a review of an autoscaler. Without `enabled` nobody would keep what is converted, so nothing is.
pub(super) fn answer(
    review: &Review<'_>,
    objects: &Objects,
    settings: &Settings,
    enabled: bool,
    metrics: &Metrics,
) -> Answer {
    let decision = if enabled {
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let now = Timestamp::now();
            hpa::mutate(review, &Context { objects, settings, namespace: None, now, defaulted: None })
        }));
        decided.unwrap_or_else(|_| after_panic(metrics))
    } else {
        of(Answer::allow(Outcome::Skipped(Skip::Kind)))
    };
    count(review, &decision, metrics);
    decision.answer
}

fn of(answer: Answer) -> HpaDecision {
    HpaDecision { answer, conversion: Conversion::default(), self_check: None }
}

/// A mistake of ours must not keep anybody from changing an autoscaler.
fn after_panic(metrics: &Metrics) -> HpaDecision {
    metrics.admission_panic();
    let warning = "plimsoll: left as it is: an internal error, see the server's log";
    of(Answer { warnings: vec![warning.to_owned()], ..Answer::allow(Outcome::Error) })
}

fn count(review: &Review<'_>, decision: &HpaDecision, metrics: &Metrics) {
    let outcome = decision.answer.outcome;
    metrics.admission_request(Stage::Mutate, operation(&review.operation), outcome.word());
    if let Some(error) = &decision.self_check {
        metrics.self_check_failure();
        tracing::error!(namespace = &*review.namespace, name = &*review.name, %error, "a patch was not sent");
    } else if !review.dry_run {
        decision.conversion.notes.iter().for_each(|note| metrics.hpa_conversion(outcome_of(note)));
    }
    tracing::debug!(
        namespace = &*review.namespace,
        autoscaler = &*review.name,
        decision = outcome.word(),
        why = why(&decision.answer),
        "reviewed"
    );
}

const fn outcome_of(note: &Note) -> HpaOutcome {
    match note {
        Note::Converted { .. } => HpaOutcome::Converted,
        Note::Restored { .. } => HpaOutcome::Restored,
        Note::NoBase { .. } => HpaOutcome::NoBase,
        Note::OutOfRange { .. } => HpaOutcome::OutOfRange,
        Note::Several { .. } => HpaOutcome::Several,
        Note::Edited => HpaOutcome::Edited,
        Note::Unreadable { .. } => HpaOutcome::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use plimsoll_core::objects::read_manifest;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::Engine;
    use crate::server::Admission as _;

    fn objects() -> Objects {
        let mut objects = Objects::default();
        let container = json!({"name": "app", "resources": {"requests": {"cpu": "1"}}});
        for manifest in [
            json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "half"},
                "spec": {"mode": "Static", "static": {"factors": {"cpu": "0.5"}}}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}}),
        ] {
            objects.put(read_manifest(&manifest).unwrap().unwrap());
        }
        objects
    }

    fn review(dry_run: bool) -> Bytes {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let hpa = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 10,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
            "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
            "namespace": "shop", "name": "web", "operation": "CREATE", "dryRun": dry_run, "object": hpa,
        }});
        review.to_string().into()
    }

    #[tokio::test]
    async fn an_autoscaler_is_converted_where_somebody_keeps_it() {
        for (rule, enabled, dry_run, patched, counted) in [
            ("converted", true, false, true, 1),
            ("tried", true, true, true, 0),
            ("off", false, false, false, 0),
        ] {
            let metrics = Arc::new(Metrics::new("test"));
            let state = Arc::new(arc_swap::ArcSwap::from_pointee(objects()));
            let engine =
                Engine::new(state, Arc::default(), None, Arc::clone(&metrics)).with_autoscalers(enabled);
            let reply = engine.review(Stage::Mutate, review(dry_run)).await;
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(answer["response"]["allowed"], true, "{rule}");
            assert_eq!(answer["response"].get("patch").is_some(), patched, "{rule}: {answer}");
            let series = format!("plimsoll_hpa_conversions_total{{outcome=\"converted\"}} {counted}\n");
            assert!(metrics.encode().contains(&series), "{rule}");
        }
    }
}
