//! A decision in the words of `plimsoll explain`.

use maud::{Markup, html};
use plimsoll_core::admission::Decision;

use super::format::{foreign, visible};
use super::table::scrolled;
use crate::explained;

/// What was decided about a pod of `title`, and why.
pub(super) fn decision(title: &str, decision: &Decision, why_no_profile: &[String]) -> Markup {
    let nodes = explained::nodes(decision);
    html! {
        p { strong { (visible(&explained::headline(title, decision))) } }
        @if !why_no_profile.is_empty() {
            ul { @for reason in why_no_profile { li { (foreign(reason)) } } }
        }
        @if let Some(would_be) = explained::would_be(decision) { p { (would_be) } }
        @if !explained::requests(decision).lines.is_empty() {
            (scrolled("Requests of a new pod", &requests(decision)))
        }
        @if let Some(nodes) = nodes { p { (visible(&nodes)) } }
        @for warning in &decision.answer.warnings { p { (visible(warning)) } }
    }
}

fn requests(decision: &Decision) -> Markup {
    let (caption, result) = if decision.would_be.is_some() {
        ("Requests of a pod that were created now, with apply: true", "Would be")
    } else {
        ("Requests of a pod that were created now", "Result")
    };
    html! {
        table {
            caption { (caption) }
            thead {
                tr {
                    @for name in ["Container", "Resource", "Original", result, "Why"] { th scope="col" { (name) } }
                }
            }
            tbody {
                @for line in &explained::requests(decision).lines {
                    tr {
                        th scope="row" { (foreign(&line.target.to_string())) }
                        td { (line.resource) }
                        td.num { (visible(&line.original.text)) }
                        td.num.strong { (visible(&line.result.text)) }
                        td { (visible(&line.why())) }
                    }
                }
            }
        }
    }
}
