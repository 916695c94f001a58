//! `/namespaces`: what is saved in each.

use maud::html;

use super::layout::{Page, nothing};
use super::savings::{self, ORDERS, namespace_link};
use super::table::{Slice, field, filter, scrolled, sorted};
use super::{Refusal, View};

pub(super) fn page(view: &View<'_>) -> Result<Page, Refusal> {
    let frame = &view.frame;
    let (order, number) = (frame.query.word("sort", &ORDERS)?, frame.query.page()?);
    let lead = html! { "What the pods of each namespace would request had nothing been lowered, request now, and really use." };
    let title = "Namespaces".to_owned();
    let survey = match savings::survey(view.known) {
        Ok(survey) => survey,
        Err(why) => return Ok(Page { title, lead, body: nothing(&why) }),
    };
    let wanted = frame.query.text("q").to_lowercase();
    let namespaces = survey.savings.namespaces();
    let mut rows: Vec<_> = namespaces
        .iter()
        .filter(|(name, _)| wanted.is_empty() || name.to_lowercase().contains(&wanted))
        .collect();
    savings::sort(&mut rows, order);
    let slice = Slice::new(number, rows.len());
    let total = survey.savings.total();
    let heading = |key: &str, name: &str| sorted(frame, key, order, true, name);
    let table = html! {
        table {
            caption { (slice.caption("namespace", ", the greatest saving first unless sorted otherwise")) }
            (savings::head(
                &html! { th scope="col" rowspan="2" aria-sort=[(order == "name").then_some("ascending")] {
                    a href=(frame.query.with(frame.path, &[("sort", "name"), ("page", "")])) { "Namespace" }
                } },
                &html! { th.num scope="col" rowspan="2" aria-sort=[(order == "pods").then_some("descending")] {
                    a href=(frame.query.with(frame.path, &[("sort", "pods"), ("page", "")])) { "Pods" }
                } },
                &heading,
            ))
            tbody {
                @for (name, row) in slice.of(&rows) {
                    tr {
                        th scope="row" { (namespace_link(name)) }
                        (savings::cells(row))
                    }
                }
            }
        }
    };
    let body = html! {
        (savings::taken(view.known, &survey, &total, view.now))
        (filter(frame, &["sort"], &field(frame, "q", "Name contains")))
        @if rows.is_empty() { (nothing("No namespace is like that.")) } @else {
            (savings::legend())
            (scrolled("Savings by namespace", &table))
            (slice.links(frame))
        }
    };
    Ok(Page { title, lead, body })
}
