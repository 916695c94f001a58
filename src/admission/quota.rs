//! Pods in bound namespaces: from what the ledger says to the answer.

use std::sync::Arc;

use http::StatusCode;
use plimsoll_core::admission::{Answer, Outcome, QuotaStep, Review, quota_answer, write_to};
use plimsoll_core::quota::UsageByNamespace;
use plimsoll_core::quota::ledger::Ruling;

use super::{operation, written};
use crate::decisions::{Decided, Decisions, why};
use crate::metrics::{Metrics, QuotaOutcome};
use crate::quota::admission::{Verdict, not_now, usage as ledger_usage};
use crate::quota::run::Door;
use crate::server::{Answered, Reply, Stage};

/// The answer to a review about a pod, now or when the ledger was written.
pub(super) fn answer(
    review: &Review<'_>,
    step: QuotaStep,
    door: &Door,
    metrics: &Arc<Metrics>,
    decisions: Option<&Decisions>,
) -> Answered {
    let operation = operation(&review.operation);
    let now = |answer: Answer| {
        metrics.admission_request(Stage::Validate, operation, answer.outcome.word());
        if let Some(decisions) = decisions {
            decisions.record(Decided::now(Stage::Validate, review, &answer));
        }
        Answered::Now(written(review, &answer))
    };
    let (request, warnings) = match step {
        QuotaStep::Ask { request, warnings } => (request, warnings),
        QuotaStep::Skip(skip) => return now(Answer::allow(Outcome::Skipped(skip))),
        QuotaStep::Refuse(why) => {
            metrics.quota_decision(QuotaOutcome::Blocked);
            return now(Answer::deny(why));
        }
        QuotaStep::Wait(why) => {
            metrics.quota_decision(QuotaOutcome::NotReady);
            return now(Answer::deny_for_now(why.to_owned()));
        }
    };
    // What is waited for must not hold on to the request.
    let (version, uid) = (review.version, review.uid.to_owned());
    let begun = || Decided::now(Stage::Validate, review, &Answer::allow(Outcome::Unchanged));
    let kept = decisions.map(|decisions| (decisions.clone(), begun()));
    let (queue, metrics, reclaims) = (door.queue.clone(), Arc::clone(metrics), door.reclaims);
    Answered::Later(Box::pin(async move {
        let (namespace, name) = (Arc::clone(&request.namespace), Arc::clone(&request.name));
        let verdict = queue.ask(*request).await;
        let (outcome, answer) = judged(&verdict, reclaims);
        let answer = Answer { warnings, ..answer };
        metrics.quota_decision(outcome);
        metrics.admission_request(Stage::Validate, operation, answer.outcome.word());
        tracing::debug!(
            namespace = &*namespace,
            pod = &*name,
            decision = answer.outcome.word(),
            why = why(&answer),
            "quota"
        );
        if let Some((decisions, mut decided)) = kept {
            decided.judged(&answer);
            decisions.record(decided);
        }
        Reply { status: StatusCode::OK, body: write_to(version, &uid, &answer).into() }
    }))
}

fn judged(verdict: &Verdict, reclaims: bool) -> (QuotaOutcome, Answer) {
    match verdict {
        Verdict::Ruled(ruling, tree) => {
            let outcome = match ruling {
                Ruling::Admitted | Ruling::NotBound => QuotaOutcome::Admitted,
                Ruling::Refused { entitled: true, .. } => QuotaOutcome::Reclaim,
                Ruling::Refused { entitled: false, .. } => QuotaOutcome::Refused,
            };
            (outcome, quota_answer(ruling, tree, reclaims))
        }
        Verdict::NotReady(_) => (QuotaOutcome::NotReady, Answer::deny_for_now(not_now(verdict).to_owned())),
        Verdict::Late => (QuotaOutcome::Busy, Answer::deny_for_now(not_now(verdict).to_owned())),
    }
}

/// What is in use by namespace, for judging a change of a tree.
pub(super) async fn usage(door: &Door, review: &Review<'_>) -> Option<UsageByNamespace> {
    ledger_usage(&door.store, &review.name).await
}
