//! Recommendations as their objects have them.

use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use plimsoll_core::objects::Recommendation;
use serde_json::Value;

use super::super::View;
use super::super::format::{count, foreign, moment, span, visible};
use super::super::layout::{badge, nothing};
use super::super::table::scrolled;

/// So many are shown: one for each pod, at granularity Pod.
const MOST: usize = 5;

pub(super) fn all(view: &View<'_>, found: &[Arc<Recommendation>]) -> Markup {
    if found.is_empty() {
        return nothing(
            "No recommendation is about it. There is one where the profile's mode is Dynamic or StaticThenDynamic, and usage was seen.",
        );
    }
    html! {
        @for recommendation in found.iter().take(MOST) { (one(view, recommendation)) }
        @if found.len() > MOST { p { "and " (count(found.len() - MOST)) " more, one for each pod" } }
    }
}

fn one(view: &View<'_>, found: &Recommendation) -> Markup {
    // Written by us from what was JSON.
    let list = |text: &str| serde_json::from_str::<Vec<Value>>(text).unwrap_or_default();
    let (containers, conditions) = (list(&found.shown.containers), list(&found.shown.conditions));
    let table = html! {
        table {
            caption {
                (foreign(&found.name)) ": about " (foreign(&found.target.kind)) " " (foreign(&found.target.name))
                @if let Some(pod) = &found.pod_name { ", pod " (foreign(pod)) }
                ", profile " (foreign(&found.profile))
            }
            thead {
                tr {
                    th scope="col" { "Container" }
                    th scope="col" { "Resource" }
                    @for name in ["Target", "Lower", "Upper", "Original", "Effective", "Samples"] { th.num scope="col" { (name) } }
                    @for name in ["History", "Last sample"] { th scope="col" { (name) } }
                }
            }
            tbody {
                @for container in &containers {
                    @for resource in ["cpu", "memory"].into_iter().filter(|resource| container.get(resource).is_some()) {
                        (row(view, container, resource))
                    }
                }
            }
        }
    };
    html! {
        @if containers.is_empty() { (nothing("It has no figures yet.")) } @else { (scrolled("Recommendation", &table)) }
        @if !conditions.is_empty() {
            ul.problems {
                @for condition in &conditions {
                    @let of = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
                    li {
                        (badge(if of("status") == "True" { "good" } else { "info" }, &format!("{}: {}", of("type"), of("status")))) " "
                        (foreign(of("message")))
                    }
                }
            }
        }
    }
}

fn row(view: &View<'_>, container: &Value, resource: &str) -> Markup {
    let figure = |key: &str| match container.get(resource).and_then(|all| all.get(key)) {
        Some(Value::String(text)) => visible(text),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let time = |key: &str| container.get(key)?.as_str()?.parse::<Timestamp>().ok();
    let (first, last) = (time("firstSample"), time("lastSample"));
    let history = first.zip(last).map(|(first, last)| span(last.duration_since(first)));
    html! {
        tr {
            th scope="row" { (foreign(container.get("name").and_then(Value::as_str).unwrap_or_default())) }
            td { (resource) }
            td.num.strong { (figure("target")) }
            @for key in ["lower", "upper", "original", "effective"] { td.num { (figure(key)) } }
            td.num { (container.get("samples").and_then(Value::as_u64).map(count).unwrap_or_default()) }
            td { (history.unwrap_or_default()) }
            td { @if let Some(last) = last { (moment(last, view.now)) } }
        }
    }
}
