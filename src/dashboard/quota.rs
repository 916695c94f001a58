//! `/quota`: the tree, open claims, and what was refused lately.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use plimsoll_core::quota::{Borrowing, Node, NodeId, PODS, Tree, Used, shown};

use super::format::{count, foreign, moment, visible};
use super::layout::{Page, badge, nothing, section};
use super::plot::{Bar, bar};
use super::savings::ratio;
use super::table::{Slice, scrolled};
use super::{Refusal, View, decisions};
use crate::quota::content::Known;
use crate::server::Stage;

/// So many claims and refusals are told of.
const MOST: usize = 20;

pub(super) fn page(view: &View<'_>) -> Result<Page, Refusal> {
    let number = view.frame.query.page()?;
    let title = "Quota".to_owned();
    let lead = html! { "What every node of the quota tree uses, is guaranteed, may use at most, and borrows from others." };
    let refused = section("refusals", "Recent refusals", &refusals(view));
    let Some(known) = view.known.ledger.load_full() else {
        let why = "This replica has read no quota ledger: quota.enabled must be true and there must be a tree. The replica \
                   that holds the lease plimsoll-quota always has one; the others read it when they decide about a pod.";
        return Ok(Page { title, lead, body: html! { (nothing(why)) (refused) } });
    };
    let body = html! {
        p.taken {
            "Tree " strong { (foreign(&known.tree.name)) } ", ledger read " (moment(known.at, view.now)) "; "
            (count(known.ledger.reservations.len())) " reservations of pods that are being created."
            @if !known.ledger.initialised { " " (badge("warn", "Being counted")) " Pods are still being counted; until then none is admitted." }
        }
        @for (namespace, why) in &known.tree.blocked {
            p { (badge("bad", "Blocked")) " " (foreign(namespace)) ": " (foreign(why)) }
        }
        (tree(view, &known, number))
        (section("claims", "Open claims", &claims(&known, view.now)))
        (refused)
    };
    Ok(Page { title, lead, body })
}

/// A line of the table.
struct Line {
    id: NodeId,
    resource: Arc<str>,
    first: bool,
}

fn tree(view: &View<'_>, known: &Known, number: usize) -> Markup {
    let (tree, ledger) = (&known.tree, &known.ledger);
    let used = ledger.used(tree);
    let lines = lines(tree, &used);
    let slice = Slice::new(number, lines.len());
    let borrowing = Borrowing::of(tree);
    let table = html! {
        table {
            caption { (slice.caption("line", ": one for each node and resource, nodes below the ones that they belong to")) }
            thead {
                tr {
                    th scope="col" { "Node" }
                    th scope="col" { "Resource" }
                    @for name in ["Used", "Min", "Max", "Borrowed"] { th.num scope="col" { (name) } }
                    th scope="col" { span.hidden { "As a bar" } }
                    th scope="col" { "Namespaces" }
                }
            }
            tbody {
                @for (index, line) in slice.of(&lines).iter().enumerate() {
                    // A page may begin inside a node, whose name must be seen all the same.
                    @if let Some(node) = tree.node(line.id) { (row(tree, &used, &borrowing, line, node, line.first || index == 0)) }
                }
            }
        }
    };
    html! {
        @if lines.is_empty() { (nothing("The tree has no nodes.")) } @else {
            p.legend {
                span { span.key.owned {} "used within min" }
                span { span.key.borrowed {} "borrowed" }
                span { span.key.room {} "up to max" }
                span { span.key.mark {} "min" }
            }
            (scrolled("Quota tree", &table))
            (slice.links(&view.frame))
        }
    }
}

/// Every node before what is below it; of each the resources that are bounded there or used.
fn lines(tree: &Tree, used: &Used) -> Vec<Line> {
    let mut lines = Vec::new();
    for id in tree.depth_first() {
        let Some(node) = tree.node(id) else { continue };
        let bounded: BTreeSet<&Arc<str>> =
            node.min.iter().chain(node.max.iter()).map(|(name, _)| name).collect();
        // How many pods there are is of interest where it is bounded.
        let busy =
            used.at(id).iter().filter(|(name, amount)| *amount > 0 && ***name != *PODS).map(|(name, _)| name);
        let mut names: BTreeSet<Arc<str>> = bounded.into_iter().chain(busy).cloned().collect();
        if names.is_empty() {
            names.insert("cpu".into());
        }
        lines.extend(names.into_iter().enumerate().map(|(index, resource)| Line {
            id,
            resource,
            first: index == 0,
        }));
    }
    lines
}

fn row(tree: &Tree, used: &Used, borrowing: &Borrowing, line: &Line, node: &Node, first: bool) -> Markup {
    let resource = &*line.resource;
    let used_here = used.at(line.id).of(resource);
    let (min, max) = (node.min.get(resource), node.max.get(resource));
    let borrowed = borrowing.at(node, used.at(line.id)).of(resource);
    let own = used_here.saturating_sub(borrowed);
    let whole = whole(tree, used, resource);
    let drawn = Bar {
        room: Some(max.map_or(1.0, |max| ratio(max, whole))),
        parts: &[("borrowed", ratio(used_here, whole)), ("owned", ratio(own, whole))],
        line: min.map(|min| ratio(min, whole)),
    };
    let bound = |bound: Option<i128>| bound.map_or_else(|| "-".to_owned(), |nanos| shown(resource, nanos));
    html! {
        tr class=[first.then_some("first")] {
            th scope="row" class={ "depth-" (node.depth.min(6)) } {
                @if first { span aria-hidden="true" { (foreign(&node.name)) } }
                span.hidden { (foreign(&node.path)) }
            }
            td { (foreign(resource)) }
            td.num.strong { (shown(resource, used_here)) }
            td.num { (bound(min)) }
            td.num { (bound(max)) }
            td.num { @if borrowed > 0 { (shown(resource, borrowed)) } @else { "-" } }
            td.picture.wide { (bar(&drawn, "")) }
            td { @if first { (namespaces(node)) } }
        }
    }
}

fn namespaces(node: &Node) -> Markup {
    const SHOWN: usize = 6;
    html! {
        @for (index, name) in node.namespaces.iter().take(SHOWN).enumerate() {
            @if index > 0 { ", " }
            (foreign(name))
        }
        @if node.namespaces.len() > SHOWN { " and " (node.namespaces.len() - SHOWN) " more" }
    }
}

/// What a whole bar stands for: the root's maximum or what the root uses, whichever is more; without them the greatest
/// bound.
fn whole(tree: &Tree, used: &Used, resource: &str) -> i128 {
    let root = tree.nodes().first().and_then(|root| root.max.get(resource));
    let bounds = || tree.nodes().iter().map(|node| node.max.of(resource).max(node.min.of(resource)));
    let bound = root.or_else(|| bounds().max()).unwrap_or(0);
    bound.max(tree.id(0).map_or(0, |root| used.at(root).of(resource))).max(1)
}

fn claims(known: &Known, now: Timestamp) -> Markup {
    let claims = &known.ledger.claims;
    if claims.is_empty() {
        return nothing("Nobody waits for room that is theirs.");
    }
    let table = html! {
        table {
            caption { "Room that owners are entitled to and wait for, the oldest first" }
            thead { tr { @for name in ["Number", "Owner", "Node", "Waits for", "Since"] { th scope="col" { (name) } } } }
            tbody {
                @for claim in claims.iter().take(MOST) {
                    @let of = &claim.claimant;
                    @let leaf = known.tree.leaf_of(&of.namespace).and_then(|leaf| known.tree.node(leaf));
                    tr {
                        td.num { (claim.number) }
                        th scope="row" { (foreign(&of.kind)) " " (foreign(&of.namespace)) "/" (foreign(&of.name)) }
                        td { (foreign(leaf.map_or("-", |leaf| &leaf.path))) }
                        td { (visible(&claim.charge.to_string())) }
                        td { @if let Ok(at) = Timestamp::from_second(claim.created) { (moment(at, now)) } }
                    }
                }
            }
        }
    };
    html! {
        (scrolled("Open claims", &table))
        @if claims.len() > MOST { p { "and " (claims.len() - MOST) " more" } }
    }
}

fn refusals(view: &View<'_>) -> Markup {
    let all = view.known.decisions.newest_first();
    let refused: Vec<_> = all
        .into_iter()
        .filter(|decided| decided.stage == Stage::Validate && decided.outcome == "denied")
        .take(MOST)
        .collect();
    if refused.is_empty() {
        return nothing("This replica refused nothing lately.");
    }
    html! {
        (decisions::table(&refused, view.now, "What was refused by this replica, the newest first"))
        p.more { a href="/decisions?outcome=denied" { "All refusals that are kept" } }
    }
}
