//! `/decisions`: what this replica decided lately, in the words of `plimsoll explain`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};

use super::format::{count, counted, foreign, moment};
use super::layout::{Page, badge, nothing};
use super::table::{Slice, choice, field, filter, scrolled};
use super::{Refusal, View};
use crate::decisions::Decided;
use crate::server::Stage;

/// The outcomes that are asked for; that of skipped requests stands for all reasons.
const OUTCOMES: [&str; 6] = ["", "applied", "unchanged", "skipped", "denied", "error"];

pub(super) fn page(view: &View<'_>) -> Result<Page, Refusal> {
    let frame = &view.frame;
    let (outcome, number) = (frame.query.word("outcome", &OUTCOMES)?, frame.query.page()?);
    let (namespace, wanted) = (frame.query.text("namespace"), frame.query.text("q").to_lowercase());
    let all = view.known.decisions.newest_first();
    let mut by_outcome: BTreeMap<&str, usize> = BTreeMap::new();
    for decided in &all {
        *by_outcome.entry(class(decided.outcome)).or_default() += 1;
    }
    let is_wanted = |decided: &&Arc<Decided>| {
        (outcome.is_empty() || class(decided.outcome) == outcome)
            && (namespace.is_empty() || *decided.namespace == *namespace)
            && (wanted.is_empty()
                || decided.name.to_lowercase().contains(&wanted)
                || decided.why.to_lowercase().contains(&wanted))
    };
    let rows: Vec<_> = all.iter().filter(is_wanted).cloned().collect();
    let slice = Slice::new(number, rows.len());
    let options: Vec<(String, String)> =
        OUTCOMES.iter().skip(1).map(|word| ((*word).to_owned(), (*word).to_owned())).collect();
    let fields = html! {
        (choice(frame, "outcome", "Outcome", &options))
        (field(frame, "namespace", "Namespace"))
        (field(frame, "q", "Name or reason contains"))
    };
    let body = html! {
        @if !all.is_empty() {
            ul.counts aria-label="How many of each outcome" {
                @for (word, number) in &by_outcome {
                    li { a href={ "/decisions?outcome=" (word) } { (badge(colour(word), word)) " " (count(number)) } }
                }
            }
        }
        (filter(frame, &[], &fields))
        @if all.is_empty() {
            (nothing("This replica has decided nothing since it started."))
        } @else if rows.is_empty() {
            (nothing("No decision that is kept is like that."))
        } @else {
            (table(slice.of(&rows), view.now, &slice.caption("decision", ", the newest first")))
            (slice.links(frame))
        }
    };
    let lead = html! {
        "The last " (counted(all.len(), "decision")) " of this replica, of " (count(view.known.decisions.made()))
        " since it started. Each replica keeps its own: where there are several, a port-forward to another pod shows the "
        "decisions of that one. A restart forgets them."
    };
    Ok(Page { title: "Decisions".to_owned(), lead, body })
}

/// The outcome without the reason.
pub(super) fn class(outcome: &str) -> &str {
    if outcome.starts_with("skipped") { "skipped" } else { outcome }
}

fn colour(outcome: &str) -> &'static str {
    match class(outcome) {
        "applied" => "good",
        "denied" => "warn",
        "error" => "bad",
        _ => "plain",
    }
}

/// Decisions as a table.
pub(super) fn table(decisions: &[Arc<Decided>], now: Timestamp, caption: &str) -> Markup {
    let table = html! {
        table.decisions {
            caption { (caption) }
            thead {
                tr {
                    @for name in ["When", "Object", "Outcome", "Profile", "What was changed, or why not"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody {
                @for decided in decisions {
                    tr {
                        td.when { (moment(decided.at, now)) }
                        th scope="row" {
                            span.muted { (foreign(&decided.kind)) " " }
                            @if !decided.namespace.is_empty() { (foreign(&decided.namespace)) "/" }
                            @if decided.name.is_empty() { "(no name)" } @else { (foreign(&decided.name)) }
                            @if &*decided.operation != "CREATE" { " " span.muted { (foreign(&decided.operation)) } }
                            @if decided.stage == Stage::Validate { " " span.muted { "validated" } }
                            @if decided.dry_run { " " span.muted { "dry run" } }
                        }
                        td { (badge(colour(decided.outcome), class(decided.outcome))) }
                        td.profile { (foreign(decided.profile.as_deref().unwrap_or("-"))) }
                        td.why { (foreign(&decided.why)) }
                    }
                }
            }
        }
    };
    scrolled("Decisions", &table)
}
