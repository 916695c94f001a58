//! What would be decided about a new pod of a workload, and what was done to one that runs.

use maud::{Markup, html};
use plimsoll_core::admission::{Context, Outcome, Skip, explain, why_no_profile};
use plimsoll_core::keys;
use plimsoll_core::overcommit::restored;
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
    // The one that runs was lowered; the next one is written as this one was.
    let next = restored(pod);
    let pruned = Pruned::of(&next);
    let decision = explain(&pruned, &key.namespace, &context);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use jiff::Timestamp;
    use plimsoll_core::objects::{Objects, read_manifest};
    use plimsoll_core::pod::Workload;
    use serde_json::json;

    use super::*;
    use crate::api::Sources;
    use crate::dashboard::{Frame, Query};

    #[test]
    fn the_next_pod_is_the_one_that_was_written() {
        let mut objects = Objects::default();
        for manifest in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "all"},
                "spec": {"mode": "Static", "static": {"factors": {"cpu": "0.25"}}},
            }),
        ] {
            objects.put(read_manifest(&manifest).unwrap().unwrap());
        }
        let known = Sources { objects: Arc::new(ArcSwap::from_pointee(objects)), ..Sources::default() };
        let record = json!({
            "basis": "original", "profile": "all",
            "containers": {"app": {"requests": {"cpu": "2"}, "set": {"cpu": "500m"}, "limits": {}}},
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "shop", "annotations": {
                "plimsoll.dev/applied": "cpu: 2->500m",
                "plimsoll.dev/original-resources": record.to_string(),
            }},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]},
        });
        let workload = Workload { group: "apps".into(), kind: "Deployment".into(), name: "web".into() };
        let key = WorkloadKey { namespace: "shop".into(), workload: workload.into() };
        let read = Read { pod: Some(Ok(Some(pod))), ..Read::default() };
        let (query, now) = (Query::default(), Timestamp::UNIX_EPOCH);
        let frame = Frame { path: "/", query: &query, section: "none", refreshes: false, now };
        let view = View { known: &known, frame, now };
        let text = explained(&view, &key, &read).into_string();
        assert!(text.contains("applied (profile all)"), "{text}");
        assert!(text.contains("500m") && !text.contains("unchanged"), "{text}");
    }
}
