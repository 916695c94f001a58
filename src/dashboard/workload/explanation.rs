//! What would be decided about a new pod of a workload, and what was done to one that runs.

use maud::{Markup, html};
use plimsoll_core::admission::{Context, Outcome, Skip, decide, why_no_profile};
use plimsoll_core::keys;
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::pod::Pruned;
use serde_json::Value;

use super::super::format::{foreign, visible};
use super::super::layout::nothing;
use super::super::{View, explained as words};
use super::Read;

pub(super) fn explained(view: &View<'_>, key: &WorkloadKey, read: &Read) -> Markup {
    let pod = match &read.pod {
        Some(Ok(Some(pod))) => pod,
        Some(Err(why)) => return nothing(&format!("Its pods cannot be read: {why}")),
        Some(Ok(None)) => return nothing("The pod that was to be asked is gone; load the page again."),
        None => {
            return nothing(
                "No pod of it is known, so that there is none to explain. plimsoll explain workload reads its template.",
            );
        }
    };
    let settings = view.known.settings.load();
    let objects = view.known.objects.load();
    let context =
        Context { objects: &objects, settings: &settings, namespace: None, now: view.now, defaulted: None };
    let pruned = Pruned::of(pod);
    let decision = decide(&pruned, &key.namespace, &context);
    let reasons = if decision.answer.outcome == Outcome::Skipped(Skip::NoProfile) {
        why_no_profile(&pruned, &key.namespace, &context)
    } else {
        Vec::new()
    };
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let applied =
        pod.pointer("/metadata/annotations").and_then(|all| all.get(keys::APPLIED)).and_then(Value::as_str);
    let title = format!("{} {}", key.workload.kind, key);
    let title = title.replacen(&format!("{}/", key.workload.kind), "", 1);
    html! {
        p {
            "Pod " (foreign(name)) ", which runs: "
            @match applied { Some(applied) => { (visible(applied)) } None => { "nothing was done to it" } }
            ". The next one would be:"
        }
        (words::decision(&title, &decision, &reasons))
    }
}
