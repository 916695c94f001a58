//! `/workloads`: what is saved by each.

use maud::html;

use super::format::{foreign, visible};
use super::layout::{Page, nothing};
use super::savings::{self, ORDERS, named, namespace_link};
use super::table::{Slice, choice, field, filter, scrolled, sorted};
use super::{Refusal, View};

/// More namespaces than this are not chosen from a list but written.
const MOST_CHOICES: usize = 200;

pub(super) fn page(view: &View<'_>) -> Result<Page, Refusal> {
    let frame = &view.frame;
    let (order, number) = (frame.query.word("sort", &ORDERS)?, frame.query.page()?);
    let lead = html! { "What the pods of each workload would request had nothing been lowered, request now, and really use." };
    let title = "Workloads".to_owned();
    let survey = match savings::survey(view.known) {
        Ok(survey) => survey,
        Err(why) => return Ok(Page { title, lead, body: nothing(&why) }),
    };
    let (namespace, wanted) = (frame.query.text("namespace"), frame.query.text("q").to_lowercase());
    let mut rows: Vec<_> = survey
        .savings
        .workloads
        .iter()
        .filter(|(key, _)| {
            (namespace.is_empty() || *key.namespace == *namespace)
                && (wanted.is_empty() || key.workload.name.to_lowercase().contains(&wanted))
        })
        .collect();
    savings::sort(&mut rows, order);
    let slice = Slice::new(number, rows.len());
    let mut names: Vec<(String, String)> = Vec::new();
    for key in survey.savings.workloads.keys() {
        if names.last().is_none_or(|(last, _)| **last != *key.namespace) {
            names.push((key.namespace.to_string(), key.namespace.to_string()));
        }
    }
    let fields = html! {
        @if names.len() <= MOST_CHOICES { (choice(frame, "namespace", "Namespace", &names)) }
        @else { (field(frame, "namespace", "Namespace")) }
        (field(frame, "q", "Name contains"))
    };
    let heading = |key: &str, name: &str| sorted(frame, key, order, true, name);
    let table = html! {
        table {
            caption { (slice.caption("workload", ", the greatest saving first unless sorted otherwise")) }
            (savings::head(
                &html! {
                    th scope="col" rowspan="2" aria-sort=[(order == "name").then_some("ascending")] {
                        a href=(frame.query.with(frame.path, &[("sort", "name"), ("page", "")])) { "Workload" }
                    }
                    th scope="col" rowspan="2" { "Namespace" }
                },
                &html! { th.num scope="col" rowspan="2" aria-sort=[(order == "pods").then_some("descending")] {
                    a href=(frame.query.with(frame.path, &[("sort", "pods"), ("page", "")])) { "Pods" }
                } },
                &heading,
            ))
            tbody {
                @for (key, row) in slice.of(&rows) {
                    tr {
                        th scope="row" { (named(key)) " " span.muted { (foreign(&key.workload.kind)) } }
                        td { (namespace_link(&key.namespace)) }
                        (savings::cells(row))
                    }
                }
            }
        }
    };
    let body = html! {
        (savings::taken(view.known, &survey, &survey.savings.total(), view.now))
        (filter(frame, &["sort"], &fields))
        @if rows.is_empty() {
            (nothing(&visible("No workload is like that.")))
        } @else {
            (savings::legend())
            (scrolled("Savings by workload", &table))
            (slice.links(frame))
        }
    };
    Ok(Page { title, lead, body })
}
