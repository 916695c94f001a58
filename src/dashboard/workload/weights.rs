//! By what weights nodes are scored for a workload.

use maud::{Markup, html};
use plimsoll_core::placement::WorkloadKey;
use serde_json::Value;

use super::super::format::share;
use super::super::plot::{Bar, bar};
use crate::api::weights;
use crate::placement::PlacementState;

pub(super) fn of(state: &PlacementState, key: &WorkloadKey) -> Markup {
    let text = weights::of_workload(state, &key.namespace, &key.workload.kind, &key.workload.name);
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let from = match answer.get("weightsFrom").and_then(Value::as_str) {
        Some("workload") => "They were learnt from what it uses.",
        Some("image") => "They were learnt from what its images use elsewhere.",
        _ => "They are the configuration's: nothing was learnt of it yet.",
    };
    let weights: Vec<(&str, f64)> = answer
        .get("weights")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(resource, weight)| Some((resource.as_str(), weight.as_f64()?)))
        .collect();
    html! {
        p { "How much each resource of a node counts when a pod of it is placed. " (from) }
        table.short {
            caption.hidden { "Weights by resource" }
            thead { tr { th scope="col" { "Resource" } th.num scope="col" { "Weight" } th scope="col" { span.hidden { "As a bar" } } } }
            tbody {
                @for (resource, weight) in &weights {
                    tr {
                        th scope="row" { (resource) }
                        td.num { (share(Some(*weight))) }
                        td.picture { (bar(&Bar { room: Some(1.0), parts: &[("load-part", *weight)], line: None }, "")) }
                    }
                }
            }
        }
    }
}
