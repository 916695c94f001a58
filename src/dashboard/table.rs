//! Tables: their pages, orders and filters.

use maud::{Markup, html};

use super::format::{count, counted};
use super::layout::Frame;

/// Rows of a page.
pub(super) const ROWS: usize = 50;

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Which page, from 1.
    pub(super) page: usize,
    /// How many there are; at least 1.
    pub(super) pages: usize,
    /// How many rows all pages have.
    pub(super) all: usize,
}

impl Slice {
    /// The page that was asked for; the last one where there are not so many.
    pub(super) fn new(page: usize, all: usize) -> Self {
        let pages = all.div_ceil(ROWS).max(1);
        Self { page: page.clamp(1, pages), pages, all }
    }

    /// Its rows.
    pub(super) fn of<T>(self, rows: &[T]) -> &[T] {
        let from = (self.page - 1).saturating_mul(ROWS).min(rows.len());
        rows.get(from..from.saturating_add(ROWS).min(rows.len())).unwrap_or_default()
    }

    /// Links to the other pages; nothing where there is one only.
    pub(super) fn links(self, frame: &Frame<'_>) -> Markup {
        let to = |page: usize| frame.query.with(frame.path, &[("page", &page.to_string())]);
        let first = (self.page - 1) * ROWS + 1;
        let last = (self.page * ROWS).min(self.all);
        html! {
            @if self.pages > 1 {
                nav.pager aria-label="Parts of the table" {
                    span { (count(first)) " to " (count(last)) " of " (count(self.all)) }
                    @if self.page > 1 {
                        a href=(to(1)) { "First" }
                        a href=(to(self.page - 1)) rel="prev" { "Previous" }
                    }
                    @if self.page < self.pages {
                        a href=(to(self.page + 1)) rel="next" { "Next" }
                        a href=(to(self.pages)) { "Last" }
                    }
                }
            }
        }
    }

    /// What a table is called: its name and how many rows there are.
    pub(super) fn caption(self, noun: &str, rest: &str) -> String {
        format!("{}{rest}", counted(self.all, noun))
    }
}

/// A heading that sorts: the link asks for the order, or is marked as the one in force.
pub(super) fn sorted(frame: &Frame<'_>, key: &str, current: &str, numeric: bool, name: &str) -> Markup {
    let is_current = key == current;
    let order = if numeric { "descending" } else { "ascending" };
    html! {
        th scope="col" class=[numeric.then_some("num")] aria-sort=[is_current.then_some(order)] {
            @if is_current {
                (name) " " span aria-hidden="true" { @if numeric { "\u{2193}" } @else { "\u{2191}" } }
            } @else {
                a href=(frame.query.with(frame.path, &[("sort", key), ("page", "")])) { (name) }
            }
        }
    }
}

/// A table that may be wider than the page, and is scrolled by itself then, by keys too.
pub(super) fn scrolled(name: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(name) tabindex="0" { (table) } }
}

/// A form that filters by parameters. `kept` are those that stay as they are.
pub(super) fn filter(frame: &Frame<'_>, kept: &[&str], fields: &Markup) -> Markup {
    html! {
        form.filter method="get" action=(frame.path) role="search" aria-label="Filter the table" {
            (fields)
            @for name in kept {
                @if !frame.query.text(name).is_empty() {
                    input type="hidden" name=(name) value=(frame.query.text(name));
                }
            }
            button type="submit" { "Show" }
            a.reset href=(frame.path) { "Show all" }
        }
    }
}

/// A field to write in.
pub(super) fn field(frame: &Frame<'_>, name: &str, label: &str) -> Markup {
    let id = format!("f-{name}");
    html! {
        div {
            label for=(id) { (label) }
            input type="text" id=(id) name=(name) value=(frame.query.text(name)) autocomplete="off" spellcheck="false";
        }
    }
}

/// A field to choose from: values and what they are called.
pub(super) fn choice(frame: &Frame<'_>, name: &str, label: &str, options: &[(String, String)]) -> Markup {
    let id = format!("f-{name}");
    let current = frame.query.text(name);
    // What is filtered by is shown, though there is no such thing (any more).
    let is_listed = current.is_empty() || options.iter().any(|(value, _)| value == current);
    html! {
        div {
            label for=(id) { (label) }
            select id=(id) name=(name) {
                option value="" { "all" }
                @if !is_listed { option value=(current) selected { (super::format::visible(current)) } }
                @for (value, shown) in options {
                    option value=(value) selected[value == current] { (super::format::visible(shown)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_in_force_is_shown_though_it_is_not_listed() {
        use super::super::query::Query;
        for (rule, query, listed, gone) in
            [("none", "", false, false), ("listed", "n=a", true, false), ("gone", "n=z", false, true)]
        {
            let query = Query::parse(query, &["n"]).unwrap();
            let frame = Frame {
                path: "/",
                query: &query,
                section: "none",
                refreshes: false,
                now: jiff::Timestamp::UNIX_EPOCH,
            };
            let text = choice(&frame, "n", "N", &[("a".to_owned(), "a".to_owned())]).into_string();
            assert_eq!(text.contains("<option value=\"a\" selected"), listed, "{rule}: {text}");
            assert_eq!(text.contains("<option value=\"z\" selected"), gone, "{rule}: {text}");
        }
    }

    #[test]
    fn parts() {
        let rows: Vec<usize> = (0..120).collect();
        for (asked, page, first, len) in
            [(1, 1, 0, 50), (3, 3, 100, 20), (4, 3, 100, 20), (usize::MAX, 3, 100, 20)]
        {
            let slice = Slice::new(asked, rows.len());
            assert_eq!((slice.page, slice.pages), (page, 3), "{asked}");
            assert_eq!((slice.of(&rows)[0], slice.of(&rows).len()), (first, len), "{asked}");
        }
        let none = Slice::new(7, 0);
        assert_eq!((none.page, none.pages, none.of(&rows[..0]).len()), (1, 1, 0));
    }
}
