//! `/`: what is saved, where, and what does not work.

use maud::{Markup, html};
use plimsoll_core::savings::Row;

use super::decisions;
use super::format::{amount, count, counted, foreign, percent, units};
use super::layout::{Page, nothing, section};
use super::plot::{Bar, bar};
use super::savings::{self, both, named, namespace_link, ratio};
use super::table::scrolled;
use super::{View, problems};
use crate::survey::Survey;

/// How many rows the short tables have.
const TOP: usize = 8;

pub(super) fn page(view: &View<'_>) -> Page {
    let survey = savings::survey(view.known);
    let problems = problems::all(view);
    let (lead, figures) = match &survey {
        Ok(survey) => of_cluster(view, survey),
        Err(why) => of_decisions(view, why),
    };
    let body = html! {
        (figures)
        (section("attention", "What needs attention", &problems::list(&problems)))
        @if let Ok(survey) = &survey {
            div.columns {
                (section("by-namespace", "Saved by namespace", &by_namespace(survey)))
                (section("by-workload", "Saved by workload", &by_workload(survey)))
            }
        }
        (section("recent", "Last decisions", &recent(view)))
    };
    Page { title: "Overview".to_owned(), lead, body }
}

/// One of the three lengths.
struct Line<'a> {
    name: &'a str,
    class: &'a str,
    nanos: i128,
    note: String,
}

/// A resource with its lengths and, where it is known, the load line: what the nodes have.
fn picture(resource: &'static str, title: &str, lines: &[Line<'_>], load_line: Option<i128>) -> Markup {
    let whole = lines.iter().map(|line| line.nanos).chain(load_line).max().unwrap_or(0);
    html! {
        figure.load {
            figcaption { h3 { (title) } }
            @for line in lines {
                div.row {
                    span.name { span class={ "key " (line.class) } {} (line.name) }
                    (bar(
                        &Bar {
                            room: None,
                            parts: &[(line.class, ratio(line.nanos, whole))],
                            line: load_line.map(|nodes| ratio(nodes, whole)),
                        },
                        &format!("{title}, {}: {}", line.name, amount(resource, line.nanos)),
                    ))
                    span.value { strong { (amount(resource, line.nanos)) } " " span.muted { (line.note) } }
                }
            }
            @if let Some(nodes) = load_line {
                p.line-note { span.key.mark {} "the load line: nodes have " (amount(resource, nodes)) }
            }
        }
    }
}

fn of_cluster(view: &View<'_>, survey: &Survey) -> (Markup, Markup) {
    let total = survey.savings.total();
    let saved = total.saved();
    let lead = html! {
        "Lowering frees " strong { (both(saved)) } " that pods would request otherwise: "
        (percent(saved.cpu, total.before.cpu)) " of their CPU and "
        (percent(saved.memory, total.before.memory)) " of their memory."
    };
    let objects = view.known.objects.load();
    let nodes =
        |resource: &str| objects.allocatable().and_then(|all| all.get(resource)).filter(|all| *all > 0);
    let of = |resource, title, [before, now]: [i128; 2], [used, of_measured]: [Option<i128>; 2]| {
        let mut lines = vec![
            Line { name: "Requested before", class: "before", nanos: before, note: String::new() },
            Line {
                name: "Requested now",
                class: "now",
                nanos: now,
                note: format!("{} less", percent(before.saturating_sub(now), before)),
            },
        ];
        if let Some((used, of_measured)) = used.zip(of_measured) {
            let note = format!("{} of the requests", percent(used, of_measured));
            lines.push(Line { name: "Really used", class: "used", nanos: used, note });
        }
        picture(resource, title, &lines, nodes(resource))
    };
    let (used, of_measured) = (total.used(), total.now_of_measured());
    let figures = html! {
        div.loads {
            (of("cpu", "CPU", [total.before.cpu, total.now.cpu], [used.cpu, of_measured.cpu]))
            (of("memory", "Memory", [total.before.memory, total.now.memory], [used.memory, of_measured.memory]))
        }
        (savings::taken(view.known, survey, &total, view.now))
        @match (used.cpu, used.memory) {
            (Some(_), Some(_)) => {}
            (None, None) => { (nothing("Nothing was measured, so that real use is not known.")) }
            (None, Some(_)) => { (nothing("CPU was not measured, so that its real use is not known.")) }
            (Some(_), None) => { (nothing("Memory was not measured, so that its real use is not known.")) }
        }
    };
    (lead, figures)
}

/// What can be said without pods: what the decisions of this replica sum up to.
fn of_decisions(view: &View<'_>, why: &str) -> (Markup, Markup) {
    let lead = html! { (super::format::visible(why)) };
    let Some(metrics) = &view.known.metrics else { return (lead, Markup::default()) };
    let [cpu, memory] = metrics.requested_totals();
    if cpu[0] <= 0.0 && memory[0] <= 0.0 {
        return (lead, nothing("No pod was decided about yet by a profile."));
    }
    let of = |resource, title, [before, after]: [f64; 2]| {
        let (before, after) = (nanos(before), nanos(after));
        let note = format!("{} less", percent(before.saturating_sub(after), before));
        let lines = [
            Line { name: "Requested before", class: "before", nanos: before, note: String::new() },
            Line { name: "Requested now", class: "now", nanos: after, note },
        ];
        picture(resource, title, &lines, None)
    };
    let figures = html! {
        div.loads { (of("cpu", "CPU", cpu)) (of("memory", "Memory", memory)) }
        p.taken { "Sums over all pods that were changed since this replica started; pods that are gone by now are included, dry runs are not." }
    };
    (lead, figures)
}

#[expect(clippy::cast_possible_truncation, reason = "for people; the cast saturates")]
fn nanos(units: f64) -> i128 {
    (units * 1e9) as i128
}

fn by_namespace(survey: &Survey) -> Markup {
    let namespaces = survey.savings.namespaces();
    let mut rows: Vec<_> = namespaces.iter().collect();
    let all = rows.len();
    savings::sort(&mut rows, "cpu");
    rows.truncate(TOP);
    let largest = rows.iter().map(|(_, row)| row.saved().cpu).max().unwrap_or(0);
    html! {
        (short("Namespace", rows.iter().map(|(name, row)| (namespace_link(name), *row)), largest))
        p.more { a href="/namespaces" { "All " (counted(all, "namespace")) } }
    }
}

fn by_workload(survey: &Survey) -> Markup {
    let mut rows: Vec<_> = survey.savings.workloads.iter().collect();
    let all = rows.len();
    savings::sort(&mut rows, "cpu");
    rows.truncate(TOP);
    let largest = rows.iter().map(|(_, row)| row.saved().cpu).max().unwrap_or(0);
    let name = |key: &plimsoll_core::placement::WorkloadKey| {
        html! { (named(key)) " " span.muted { (foreign(&key.namespace)) } }
    };
    html! {
        (short("Workload", rows.iter().map(|(key, row)| (name(key), *row)), largest))
        p.more { a href="/workloads" { "All " (counted(all, "workload")) } }
    }
}

/// A short table of savings.
fn short<'a>(what: &str, rows: impl Iterator<Item = (Markup, &'a Row)>, largest: i128) -> Markup {
    let caption = format!("The greatest savings of CPU by {}", what.to_lowercase());
    let table = html! {
        table.short {
            caption.hidden { (caption) }
            thead {
                tr {
                    th scope="col" { (what) }
                    th.num scope="col" { "Pods" }
                    th.num scope="col" { "CPU, cores" }
                    th.num scope="col" { "Memory" }
                    th scope="col" { span.hidden { "CPU as a bar" } }
                }
            }
            tbody {
                @for (name, row) in rows {
                    @let saved = row.saved();
                    tr {
                        th scope="row" { (name) }
                        td.num { (count(row.pods)) }
                        td.num { (super::format::number(units(saved.cpu))) }
                        td.num { (super::format::memory(saved.memory)) }
                        td.picture { (bar(&Bar { room: None, parts: &[("saved", ratio(saved.cpu, largest))], line: None }, "")) }
                    }
                }
            }
        }
    };
    scrolled(&caption, &table)
}

fn recent(view: &View<'_>) -> Markup {
    let all = view.known.decisions.newest_first();
    let newest = all.get(..TOP.min(all.len())).unwrap_or_default();
    html! {
        @if newest.is_empty() { (nothing("This replica has decided nothing since it started.")) } @else {
            (decisions::table(newest, view.now, "The last decisions of this replica"))
            p.more { a href="/decisions" { "All decisions that are kept" } }
        }
    }
}
