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
        @if !decision.plan.lines.is_empty() {
            (scrolled("Requests of a new pod", &requests(decision)))
        }
        @if let Some(nodes) = nodes { p { (visible(&nodes)) } }
        @for warning in &decision.answer.warnings { p { (visible(warning)) } }
    }
}

fn requests(decision: &Decision) -> Markup {
    html! {
        table {
            caption { "Requests of a pod that were created now" }
            thead {
                tr {
                    @for name in ["Container", "Resource", "Original", "Result", "Why"] { th scope="col" { (name) } }
                }
            }
            tbody {
                @for line in &decision.plan.lines {
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
