//! The autoscalers of a workload, and what was made of their targets.

use maud::{Markup, html};
use plimsoll_core::hpa::{Hpa, MetricTarget};
use plimsoll_core::placement::WorkloadKey;

use super::super::View;
use super::super::format::{foreign, visible};
use super::super::layout::{badge, nothing};
use super::super::table::scrolled;

pub(super) fn all(view: &View<'_>, key: &WorkloadKey) -> Markup {
    let objects = view.known.objects.load();
    let found: Vec<_> = objects.hpas_in(&key.namespace).filter(|hpa| hpa.target == *key.workload).collect();
    if found.is_empty() {
        return nothing("No autoscaler that is known here scales it.");
    }
    let table = html! {
        table {
            caption { "HorizontalPodAutoscalers" }
            thead { tr { @for name in ["Name", "Replicas", "Metric", "Target", "As its author wrote it"] { th scope="col" { (name) } } } }
            tbody { @for hpa in &found { (rows(hpa)) } }
        }
    };
    html! {
        (scrolled("Autoscalers", &table))
        p.more { code { "plimsoll explain hpa" } " says what each target becomes, and why." }
    }
}

fn rows(hpa: &Hpa) -> Markup {
    let written = match (&hpa.original, hpa.opted_out) {
        (_, true) => html! { (badge("info", "Opted out")) },
        (Some(original), _) => html! { code { (visible(original)) } },
        (None, _) => html! { "as it stands" },
    };
    html! {
        @for (index, metric) in hpa.metrics.iter().enumerate() {
            tr {
                th scope="row" { (foreign(&hpa.name)) }
                td { (hpa.min_replicas) " to " (hpa.max_replicas) }
                td { (visible(&metric.key.as_ref().map_or_else(|| metric.type_name.clone(), ToString::to_string))) }
                td {
                    @match &metric.target {
                        MetricTarget::Utilization(percent) => { (percent) " % of the request" }
                        MetricTarget::AverageValue(amount) => { (visible(&amount.text)) " on average" }
                        MetricTarget::Other => { "another kind" }
                    }
                }
                td.why { @if index == 0 { (written) } }
            }
        }
        @if hpa.metrics.is_empty() {
            tr { th scope="row" { (foreign(&hpa.name)) } td { (hpa.min_replicas) " to " (hpa.max_replicas) } td { "none" } td {} td.why { (written) } }
        }
    }
}
