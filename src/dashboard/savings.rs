//! Savings by rows: what namespaces and workloads requested before, request now and use.

use std::sync::Arc;

use maud::{Markup, html};
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::savings::{Figures, Measured, Row};

use super::format::{cores, count, foreign, memory, percent, units};
use super::plot::{Bar, bar};
use super::query::{encoded, is_segment};
use super::{Sources, format};
use crate::survey::{Survey, Surveys};

/// What rows are sorted by: the word in the address.
pub(super) const ORDERS: [&str; 6] = ["cpu", "memory", "used-cpu", "used-memory", "pods", "name"];

/// The last look at the cluster, or why there is none.
pub(super) fn survey(known: &Sources) -> Result<Arc<Survey>, String> {
    let Some(surveys) = &known.surveys else {
        return Err(
            "This server runs without a cluster, so there are no pods to count. What it decided is told by \
                    the decisions."
                .to_owned(),
        );
    };
    surveys.look().ok_or_else(|| match surveys.problem() {
        Some(problem) => format!("The pods of the cluster cannot be read: {problem}"),
        None => {
            "The cluster is being read for the first time since somebody looks; load the page again in some \
                 seconds."
                .to_owned()
        }
    })
}

/// By what a row is sorted: the greatest first, the same by name.
pub(super) fn rank(row: &Row, order: &str) -> i128 {
    match order {
        "memory" => row.saved().memory,
        // What is not known comes last.
        "used-cpu" => row.used().cpu.unwrap_or(-1),
        "used-memory" => row.used().memory.unwrap_or(-1),
        "pods" => row.pods.into(),
        _ => row.saved().cpu,
    }
}

/// Sorts rows once; those that are alike stay in the order of names.
pub(super) fn sort<K>(rows: &mut [(K, &Row)], order: &str) {
    if order != "name" {
        rows.sort_by_cached_key(|(_, row)| std::cmp::Reverse(rank(row, order)));
    }
}

/// The cells of figures that a row has: pods, then of each resource before, now, used and saved.
pub(super) fn cells(row: &Row) -> Markup {
    let (saved, used, of) = (row.saved(), row.used(), row.now_of_measured());
    html! {
        td.num { (count(row.pods)) }
        (resource_cells([row.before.cpu, row.now.cpu, saved.cpu], &part(row, used.cpu, of.cpu, row.measured.cpu), cores))
        (resource_cells([row.before.memory, row.now.memory, saved.memory], &part(row, used.memory, of.memory, row.measured.memory), memory))
    }
}

/// What is used by those pods that were measured.
struct MeasuredPart {
    /// Nothing where none was.
    used: Option<i128>,
    /// What these request.
    now: i128,
    /// How many of how many, where it is not all.
    note: Option<String>,
}

fn part(row: &Row, used: Option<i128>, now: Option<i128>, measured: u64) -> MeasuredPart {
    let note = format!("{} of {} measured", count(measured), count(row.pods));
    let is_part = used.is_some() && measured < row.pods;
    MeasuredPart { used, now: now.unwrap_or_default(), note: is_part.then_some(note) }
}

impl MeasuredPart {
    /// How far a bar goes whose whole is `before`: as far as if those that were not measured used the same share.
    fn share(&self, now: i128, before: i128) -> f64 {
        if self.note.is_none() {
            return ratio(self.used.unwrap_or(0), before);
        }
        ratio(self.used.unwrap_or(0), self.now) * ratio(now, before)
    }
}

fn resource_cells([before, now, saved]: [i128; 3], part: &MeasuredPart, shown: fn(i128) -> String) -> Markup {
    html! {
        td.num { (shown(before)) }
        td.num { (shown(now)) }
        td.num {
            (part.used.map_or_else(|| "-".to_owned(), shown))
            @if let Some(note) = &part.note { " " span.muted { "(" (note) ")" } }
        }
        td.num.strong { (shown(saved)) " " span.muted { "(" (percent(saved, before)) ")" } }
        td.picture {
            (bar(&Bar { room: Some(1.0), parts: &[("now", ratio(now, before)), ("used", part.share(now, before))], line: None }, ""))
        }
    }
}

/// The two lines of headings over [`cells`], which `first` stands before. `order` gives a heading that sorts.
pub(super) fn head(first: &Markup, pods: &Markup, order: &dyn Fn(&str, &str) -> Markup) -> Markup {
    html! {
        thead {
            tr {
                (first)
                (pods)
                @for resource in ["CPU, cores", "Memory"] {
                    th.group scope="colgroup" colspan="5" { (resource) }
                }
            }
            tr {
                @for (used, saved) in [("used-cpu", "cpu"), ("used-memory", "memory")] {
                    th.num scope="col" { "Before" }
                    th.num scope="col" { "Now" }
                    (order(used, "Used"))
                    (order(saved, "Saved"))
                    th scope="col" { span.hidden { "As a bar" } }
                }
            }
        }
    }
}

/// What the colours of bars in rows mean.
pub(super) fn legend() -> Markup {
    html! {
        p.legend {
            span { span.key.room {} "requested before (the whole bar)" }
            span { span.key.now {} "requested now" }
            span { span.key.used {} "really used (the thin bar)" }
        }
    }
}

/// A part of a whole, for pictures.
pub(super) fn ratio(part: i128, whole: i128) -> f64 {
    if whole <= 0 { 0.0 } else { units(part) / units(whole) }
}

/// Both figures in words.
pub(super) fn both(figures: Figures) -> String {
    format!("{} cores and {}", cores(figures.cpu), memory(figures.memory))
}

/// The groups of Kubernetes' own workloads, which a link need not name.
pub(super) const OWN_GROUPS: [&str; 3] = ["", "apps", "batch"];

/// Where the page of a workload is. `None`: it has a name that no object can have, such as an owner reference may hold,
/// and no page.
pub(super) fn link(key: &WorkloadKey) -> Option<String> {
    let workload = &key.workload;
    let parts = [&*key.namespace, workload.kind.as_str(), workload.name.as_str()];
    if !parts.into_iter().all(is_segment) {
        return None;
    }
    let path = format!("/workloads/{}", parts.map(encoded).join("/"));
    let group = workload.group.as_str();
    Some(if OWN_GROUPS.contains(&group) { path } else { format!("{path}?group={}", encoded(group)) })
}

/// A workload with a link to its page, if it has one.
pub(super) fn named(key: &WorkloadKey) -> Markup {
    let name = foreign(&key.workload.name);
    html! { @if let Some(link) = link(key) { a href=(link) { (name) } } @else { (name) } }
}

/// Where the workloads of a namespace are.
pub(super) fn namespace_link(namespace: &str) -> Markup {
    html! { a href={ "/workloads?namespace=" (encoded(namespace)) } { (foreign(namespace)) } }
}

/// When the figures were taken, and of how many pods usage is known.
pub(super) fn taken(known: &Sources, survey: &Survey, total: &Row, now: jiff::Timestamp) -> Markup {
    let problem = known.surveys.as_ref().and_then(Surveys::problem);
    html! {
        @if let Some(problem) = problem {
            p.taken { (super::layout::badge("warn", "Old")) " The cluster could not be read since: " (format::visible(&problem)) }
        }
        p.taken {
            "Read " (format::moment(survey.taken, now)) ": " (count(total.pods)) " pods, "
            (count(total.lowered)) " of them with lowered requests; usage was measured for " (measured(total.measured)) "."
        }
    }
}

/// Of how many pods usage is known: one number where it is the same for both resources.
pub(super) fn measured(measured: Measured) -> String {
    if measured.cpu == measured.memory {
        return count(measured.cpu);
    }
    format!("{} (CPU) and {} (memory)", count(measured.cpu), count(measured.memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_in_part_is_not_shown_as_the_whole() {
        const CORE: i128 = 1_000_000_000;
        for (rule, pods, measured, used, now, note, share) in [
            ("all", 2, 2, Some(CORE), 2 * CORE, None, 0.25),
            ("one of ten", 10, 1, Some(CORE * 9 / 10), CORE, Some("1 of 10 measured"), 0.45),
            ("none", 2, 0, None, 0, None, 0.0),
            ("without requests", 2, 1, Some(CORE), 0, Some("1 of 2 measured"), 0.0),
        ] {
            let row = Row { pods, ..Row::default() };
            let part = part(&row, used, Some(now), measured);
            assert_eq!(part.note.as_deref(), note, "{rule}");
            let (before, all) = (i128::from(pods) * 2 * CORE, i128::from(pods) * CORE);
            assert!((part.share(all, before) - share).abs() < 1e-9, "{rule}");
        }
    }
}
