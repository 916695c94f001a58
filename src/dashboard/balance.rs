//! The rounds of the balance controller: who goes, who stays, and why.

use maud::{Markup, html};
use serde_json::Value;

use super::View;
use super::format::{bytes, counted, foreign, moment, number, share, visible};
use super::layout::{badge, nothing};
use super::table::scrolled;
use crate::balance::{Candidate, Outcome, Report, SparedPod};

/// So many pods of a round are told of.
const MOST: usize = 50;

pub(super) fn rounds(view: &View<'_>) -> Markup {
    let Some(rounds) = &view.known.balance else {
        return nothing(
            "This replica does not balance; placement.balance.enabled must be true, in a cluster.",
        );
    };
    let about = rounds.json();
    let leads = about.get("leads").and_then(Value::as_bool).unwrap_or_default();
    let leader = about.get("leader").and_then(Value::as_str);
    let is_dry = about.get("dryRun").and_then(Value::as_bool).unwrap_or_default();
    let reports = rounds.all();
    html! {
        p {
            @if leads { "This replica leads. " }
            @else if let Some(leader) = leader { "The rounds are made by " (foreign(leader)) "; its own page tells of them. " }
            @else { "Nobody leads at the moment. " }
            @if is_dry { (badge("info", "Dry run")) " Nobody is evicted; it is told who would be." }
        }
        @if reports.is_empty() && leads { (nothing("No round was made yet.")) }
        @for (index, report) in reports.iter().enumerate() {
            details open[index == 0] {
                summary { (moment(report.at, view.now)) ": " strong { (report.verdict) } }
                (round(report))
            }
        }
    }
}

fn round(report: &Report) -> Markup {
    html! {
        p { (visible(&report.why)) ". " (counted(report.node_count, "node")) " count, " (report.target_count) " of them have room." }
        @if !report.candidates.is_empty() { (scrolled("Pods that may go", &candidates(&report.candidates))) }
        @if !report.spared.is_empty() { (spared("Pods of that node that stay", &report.spared)) }
        @for stuck in &report.stuck {
            (spared(&format!("Node {} is too busy at {}, and all of its pods stay", stuck.name, share(Some(stuck.usage))), &stuck.spared))
        }
        @if !report.came_back.is_empty() {
            ul { @for back in &report.came_back { li { "A pod of " (foreign(&back.workload)) " came back to " (foreign(&back.node)) "." } } }
        }
    }
}

fn candidates(candidates: &[Candidate]) -> Markup {
    html! {
        table {
            caption { "Pods that may go, the first one first" }
            thead {
                tr {
                    @for name in ["Pod", "Workload", "Outcome", "Uses", "Of the node's business", "To", "Why"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody {
                @for found in candidates.iter().take(MOST) {
                    @let (class, word) = outcome(found.outcome);
                    tr {
                        th scope="row" { (foreign(&found.namespace)) "/" (foreign(&found.name)) }
                        td { (foreign(&found.workload)) }
                        td { (badge(class, word)) }
                        td { (number(found.cpu)) " cores, " (bytes(found.memory)) }
                        td.num { (share(Some(found.part))) }
                        td { (foreign(&found.target)) }
                        td.why { (foreign(found.message.as_deref().unwrap_or_default())) }
                    }
                }
            }
        }
        @if candidates.len() > MOST { p { "and " (candidates.len() - MOST) " more" } }
    }
}

const fn outcome(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Evicted => ("good", "Evicted"),
        Outcome::WouldBeEvicted => ("info", "Would be evicted"),
        Outcome::Gone => ("plain", "Gone already"),
        Outcome::Refused => ("warn", "Refused"),
        Outcome::Failed => ("bad", "Not known"),
        Outcome::Withheld => ("warn", "Withheld"),
        Outcome::Later => ("plain", "Later"),
    }
}

fn spared(caption: &str, pods: &[SparedPod]) -> Markup {
    let table = html! {
        table {
            caption { (visible(caption)) }
            thead { tr { @for name in ["Pod", "Reason", "Why"] { th scope="col" { (name) } } } }
            tbody {
                @for pod in pods.iter().take(MOST) {
                    tr {
                        th scope="row" { (foreign(&pod.namespace)) "/" (foreign(&pod.name)) }
                        td { (pod.reason) }
                        td.why { (foreign(&pod.why)) }
                    }
                }
            }
        }
    };
    html! {
        (scrolled(&visible(caption), &table))
        @if pods.len() > MOST { p { "and " (pods.len() - MOST) " more" } }
    }
}
