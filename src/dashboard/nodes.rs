//! `/nodes`: how loaded each node is, the score that this makes, and what balance makes of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use plimsoll_core::placement::{NodeReport, NodesReport};

use super::format::{amount, count, foreign, moment, number, percent, share, visible};
use super::layout::{Page, badge, nothing, section};
use super::plot::{Bar, bar};
use super::table::{Slice, field, filter, scrolled, sorted};
use super::{Refusal, View, balance};
use crate::placement::{PlacementState, now};

/// The word in the address.
const ORDERS: [&str; 4] = ["usage", "score", "pods", "name"];

pub(super) fn page(view: &View<'_>) -> Result<Page, Refusal> {
    let frame = &view.frame;
    let (order, page) = (frame.query.word("sort", &ORDERS)?, frame.query.page()?);
    let lead = html! { "How busy nodes really are, the score that this makes for a new pod, and who was moved away." };
    let loads = match &view.known.placement {
        Some(state) => table(view, state, order, page),
        None => nothing(
            "This replica does not know the load of nodes; placement.enabled must be true, in a cluster.",
        ),
    };
    let body = html! {
        (loads)
        (section("balance", "Balance", &balance::rounds(view)))
    };
    Ok(Page { title: "Nodes".to_owned(), lead, body })
}

fn table(view: &View<'_>, state: &PlacementState, order: &str, page: usize) -> Markup {
    let frame = &view.frame;
    let report = state.decide_at_leisure(now(), NodesReport::of);
    let wanted = frame.query.text("q").to_lowercase();
    let mut nodes: Vec<&NodeReport> = report
        .nodes
        .iter()
        .filter(|node| wanted.is_empty() || node.name.to_lowercase().contains(&wanted))
        .collect();
    match order {
        "score" => nodes.sort_by_cached_key(|node| Reverse(rank(Some(node.score)))),
        "pods" => nodes.sort_by_cached_key(|node| Reverse(node.pods)),
        "usage" => nodes.sort_by_cached_key(|node| Reverse(rank(node.usage))),
        // They come in the order of names.
        _ => {}
    }
    let slice = Slice::new(page, nodes.len());
    let (metrics, windows) = metrics(&report.nodes);
    let taken = report.taken.as_deref().and_then(|taken| taken.parse().ok());
    let rows = html! {
        table {
            caption { (slice.caption("node", ", the busiest first unless sorted otherwise")) }
            thead {
                tr {
                    (sorted(frame, "name", order, false, "Node"))
                    th scope="col" { "State" }
                    th scope="col" { "Class" }
                    (sorted(frame, "usage", order, true, "Busy (U)"))
                    th scope="col" { span.hidden { "As a bar" } }
                    (sorted(frame, "score", order, true, "Score"))
                    th.num scope="col" { "Bound lately" }
                    (sorted(frame, "pods", order, true, "Pods"))
                    th.num scope="col" { "CPU requested" }
                    th.num scope="col" { "Memory requested" }
                    @for metric in &metrics { th.num scope="col" { (metric) } }
                }
            }
            tbody { @for node in slice.of(&nodes) { (row(node, &metrics, &windows)) } }
        }
    };
    html! {
        p.taken {
            @match taken {
                Some(taken) => { "Load was read " (moment(taken, view.now)) ". " }
                None => { "Load was never read. " }
            }
            "U is the share of a node that is used over all windows and metrics, with what was bound lately."
            @if !windows.is_empty() { " The last columns are means over " (windows.join(" / ")) "." }
        }
        @if let Some(flood) = &report.flood { p { (badge("warn", "Flood")) " " (visible(flood)) } }
        (filter(frame, &["sort"], &field(frame, "q", "Name contains")))
        @if nodes.is_empty() { (nothing("No node is like that, or none is known.")) } @else {
            (scrolled("Nodes", &rows))
            (slice.links(frame))
        }
    }
}

fn row(node: &NodeReport, metrics: &[String], windows: &[String]) -> Markup {
    let requested = |resource: &'static str| {
        let of = |amounts: &plimsoll_core::quota::Amounts| amounts.get(resource).filter(|amount| *amount > 0);
        let (requested, whole) =
            (node.requested.of(resource), of(&node.allocatable).or_else(|| of(&node.capacity)));
        html! {
            td.num {
                (amount(resource, requested))
                @if let Some(whole) = whole { " " span.muted { "(" (percent(requested, whole)) ")" } }
            }
        }
    };
    html! {
        tr {
            th scope="row" { (foreign(&node.name)) }
            td {
                @if node.ready { (badge("good", "Ready")) } @else { (badge("bad", "Not ready")) }
                @if node.unschedulable { " " (badge("info", "Cordoned")) }
            }
            td { (foreign(node.class.as_deref().unwrap_or("-"))) }
            td.num.strong { (share(node.usage)) }
            td.picture { (bar(&Bar { room: Some(1.0), parts: &[("load-part", node.usage.unwrap_or(0.0))], line: None }, "")) }
            td.num { (number(node.score)) }
            td.num {
                (count(node.bindings))
                @if node.expected > 0 { " (" (count(node.expected)) " expected)" }
                @if node.penalty > 0.0 { " " (badge("warn", &format!("hot spot, score -{}", number(node.penalty)))) }
            }
            td.num { (count(node.pods)) }
            (requested("cpu"))
            (requested("memory"))
            @for metric in metrics { td.num.windows { (means(node.load.get(metric), windows)) } }
        }
    }
}

/// The metrics that any node has, and the windows that any of their means are over, the shortest first.
fn metrics(nodes: &[NodeReport]) -> (Vec<String>, Vec<String>) {
    let metrics: BTreeSet<&String> = nodes.iter().flat_map(|node| node.load.keys()).collect();
    let all = nodes.iter().flat_map(|node| node.load.values()).flat_map(BTreeMap::keys);
    let windows: BTreeSet<&String> = all.collect();
    let mut windows: Vec<String> = windows.into_iter().cloned().collect();
    windows.sort_by_key(|name| crate::config::duration(name));
    (metrics.into_iter().cloned().collect(), windows)
}

/// `80 / - / 60 %`, a place for each window; a dash where nothing fresh was measured.
fn means(means: Option<&BTreeMap<String, f64>>, windows: &[String]) -> String {
    let Some(means) = means.filter(|means| !means.is_empty()) else { return "-".to_owned() };
    let shown = windows.iter().map(|name| means.get(name)).map(|mean| match mean {
        Some(mean) => format!("{:.0}", mean * 100.0),
        None => "-".to_owned(),
    });
    format!("{} %", shown.collect::<Vec<_>>().join(" / "))
}

/// Shares and scores in an order that is total; what is not known comes last.
fn rank(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 100, of which nine digits are kept")]
    value.filter(|value| value.is_finite()).map_or(i64::MIN, |value| (value * 1e9) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_without_a_mean_keeps_its_place() {
        let load = |means: &[(&str, f64)]| {
            let means = means.iter().map(|(name, mean)| ((*name).to_owned(), *mean)).collect();
            BTreeMap::from([("cpu".to_owned(), means)])
        };
        let nodes = [load(&[("15m", 0.8), ("1d", 0.6)]), load(&[("1h", 0.7), ("15m", 0.5)])];
        let nodes = nodes.map(|load| NodeReport { load, ..NodeReport::default() });
        let (metrics, windows) = metrics(&nodes);
        assert_eq!((metrics, windows.join(" / ")), (vec!["cpu".to_owned()], "15m / 1h / 1d".to_owned()));
        for (node, expected) in nodes.iter().zip(["80 / - / 60 %", "50 / 70 / - %"]) {
            assert_eq!(means(node.load.get("cpu"), &windows), expected);
        }
        assert_eq!(means(None, &windows), "-");
    }
}
