//! What all pages have in common.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::assets::{ICON, STYLE};
use super::format::visible;
use super::query::{Query, REFRESH};

/// The pages that the navigation leads to: their address, and what they are called.
pub(super) const PAGES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/namespaces", "Namespaces"),
    ("/workloads", "Workloads"),
    ("/quota", "Quota"),
    ("/nodes", "Nodes"),
    ("/decisions", "Decisions"),
    ("/status", "Status"),
];

/// A page without what is around it.
#[derive(Debug)]
pub(super) struct Page {
    /// The heading.
    pub(super) title: String,
    /// What the page is about, in a sentence.
    pub(super) lead: Markup,
    /// All else.
    pub(super) body: Markup,
}

/// Where a page is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Its path, encoded.
    pub(super) path: &'a str,
    /// Its parameters.
    pub(super) query: &'a Query,
    /// The page of the navigation that it belongs to.
    pub(super) section: &'a str,
    /// Whether it loads itself again.
    pub(super) refreshes: bool,
    /// The time that it shows.
    pub(super) now: Timestamp,
}

/// The whole document.
pub(super) fn document(page: &Page, frame: &Frame<'_>) -> String {
    let title = visible(&page.title);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if frame.refreshes { meta http-equiv="refresh" content="30"; }
                title { (title) " - Plimsoll" }
                link rel="stylesheet" href=(STYLE.path);
                link rel="icon" type="image/svg+xml" href=(ICON.path);
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" { (mark()) span { "Plimsoll" } }
                    nav aria-label="Pages" {
                        ul {
                            @for (path, name) in PAGES {
                                li {
                                    @let here = frame.section == path;
                                    a href=(path) aria-current=[here.then_some(if frame.path == path { "page" } else { "true" })] {
                                        (name)
                                    }
                                }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    h1 { bdi { (title) } }
                    p.lead { (page.lead) }
                    (page.body)
                }
                footer {
                    p {
                        "Plimsoll " (env!("CARGO_PKG_VERSION")) ", this replica's view at "
                        time datetime=(frame.now.to_string()) { (frame.now.strftime("%H:%M:%S UTC").to_string()) } ". "
                        @if frame.refreshes {
                            "The page loads itself every 30 s. "
                            a href=(frame.query.with(frame.path, &[(REFRESH, "")])) { "Stop that" }
                        } @else {
                            a href=(frame.query.with(frame.path, &[(REFRESH, "30")])) { "Refresh every 30 s" }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}

/// A load line, as ships have it.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 32 32" width="28" height="28" aria-hidden="true" focusable="false" {
            circle cx="16" cy="16" r="9" {}
            path d="M2 16h28" {}
        }
    }
}

/// A section with its heading, which it is named by.
pub(super) fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! {
        section.card aria-labelledby=(id) {
            h2 id=(id) { (heading) }
            (content)
        }
    }
}

/// What is not there, and why.
pub(super) fn nothing(why: &str) -> Markup {
    html! { p.empty { (visible(why)) } }
}

/// A word that says how something stands; never by its colour alone.
pub(super) fn badge(class: &str, word: &str) -> Markup {
    html! { span class={ "badge " (class) } { (visible(word)) } }
}

/// Markup that was made here.
pub(super) fn made_here(svg: String) -> Markup {
    PreEscaped(svg)
}
