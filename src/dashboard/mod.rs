//! The dashboard: pages for a person behind `kubectl port-forward`, made here and complete without a script.
//!
//! A page is made from what this replica knows at the moment; only the page of a workload asks the API server for
//! something. What comes from elsewhere (names, messages) is escaped by `maud`, and what could mislead the eye is written
//! as its number.

mod answer;
mod assets;
mod balance;
mod cluster;
mod decisions;
mod explained;
mod format;
mod layout;
mod namespaces;
mod nodes;
mod overview;
mod plot;
mod problems;
mod query;
mod quota;
mod savings;
mod status;
mod table;
mod workload;
mod workloads;

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use maud::html;

pub use self::cluster::Cluster;
use self::layout::{Frame, PAGES, Page};
use self::query::Query;
use crate::api::Sources;

/// How long the first page waits for the first look at the cluster.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Why a page is not shown, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    fn bad(message: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.to_owned() }
    }

    fn missing(message: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.to_owned() }
    }

    /// What may be there, as soon as the cluster was read.
    fn not_yet(message: &str) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, message: message.to_owned() }
    }
}

/// A page that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Overview,
    Namespaces,
    Workloads,
    Workload(workload::Address),
    Quota,
    Nodes,
    Decisions,
    Status,
}

impl Route {
    /// Whether it shows what pods request and use: only then the cluster need be read.
    const fn shows_figures(&self) -> bool {
        matches!(self, Self::Overview | Self::Namespaces | Self::Workloads | Self::Workload(_))
    }

    fn of(segments: &[String]) -> Option<Self> {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Some(match segments.as_slice() {
            [] => Self::Overview,
            ["namespaces"] => Self::Namespaces,
            ["workloads"] => Self::Workloads,
            ["workloads", namespace, kind, name] => {
                Self::Workload(workload::Address::new(namespace, kind, name))
            }
            ["quota"] => Self::Quota,
            ["nodes"] => Self::Nodes,
            ["decisions"] => Self::Decisions,
            ["status"] => Self::Status,
            _ => return None,
        })
    }

    /// The page of the navigation that it belongs to, and its parameters.
    const fn about(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Overview => ("/", &[]),
            Self::Namespaces => ("/namespaces", &["q", "sort", "page"]),
            Self::Workloads => ("/workloads", &["namespace", "q", "sort", "page"]),
            Self::Workload(_) => ("/workloads", &["group"]),
            Self::Quota => ("/quota", &["page"]),
            Self::Nodes => ("/nodes", &["q", "sort", "page"]),
            Self::Decisions => ("/decisions", &["outcome", "namespace", "q", "page"]),
            Self::Status => ("/status", &[]),
        }
    }
}

/// What a page is made from.
#[derive(Clone, Copy)]
struct View<'a> {
    known: &'a Sources,
    frame: Frame<'a>,
    now: Timestamp,
}

/// The answer to a request that was found to come from this machine.
pub(crate) async fn answer(path: &str, query: Option<&str>, known: &Sources) -> Response<Full<Bytes>> {
    if let Some(asset) = assets::find(path) {
        return answer::asset(asset);
    }
    let (path, query) = (path.to_owned(), query.unwrap_or_default().to_owned());
    let known = known.clone();
    let html = page(path, query, known).await;
    answer::html(html)
}

/// A document, and its status.
type Document = (StatusCode, String);

async fn page(path: String, query: String, known: Sources) -> Document {
    let now = Timestamp::now();
    let route = match query::segments(&path) {
        Ok(segments) => Route::of(&segments).ok_or_else(|| {
            let all: Vec<&str> = PAGES.iter().map(|(path, _)| *path).collect();
            Refusal::missing(&format!("there is no page at {path}; there are {}", all.join(", ")))
        }),
        Err(refusal) => Err(refusal),
    };
    let (route, parameters) = match route {
        Ok(route) => {
            let parameters = Query::parse(&query, route.about().1);
            (route, parameters)
        }
        Err(refusal) => return refused(&refusal, "", &nowhere(now)),
    };
    let section = route.about().0;
    let parameters = match parameters.and_then(|query| Ok((query.refreshes()?, query))) {
        Ok(parameters) => parameters,
        Err(refusal) => return refused(&refusal, section, &nowhere(now)),
    };
    if route.shows_figures()
        && let Some(surveys) = &known.surveys
        && surveys.look().is_none()
        && surveys.problem().is_none()
    {
        surveys.first(FIRST_LOOK).await;
    }
    let read = match &route {
        Route::Workload(address) => workload::read(address, &parameters.1, &known).await,
        _ => workload::Read::default(),
    };
    // Some pages sort thousands of rows: not where other requests wait.
    let made =
        tokio::task::spawn_blocking(move || made(&route, &path, &parameters, &known, &read, now)).await;
    made.unwrap_or_else(|error| {
        tracing::error!(%error, "a page of the dashboard could not be made");
        let message = "this page could not be made; the log of this replica says more";
        let refusal = Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.to_owned() };
        refused(&refusal, section, &nowhere(now))
    })
}

fn made(
    route: &Route,
    path: &str,
    (refreshes, query): &(bool, Query),
    known: &Sources,
    read: &workload::Read,
    now: Timestamp,
) -> Document {
    let frame = Frame { path, query, section: route.about().0, refreshes: *refreshes, now };
    let view = View { known, frame, now };
    let page = match route {
        Route::Overview => Ok(overview::page(&view)),
        Route::Namespaces => namespaces::page(&view),
        Route::Workloads => workloads::page(&view),
        Route::Workload(address) => workload::page(address, &view, read),
        Route::Quota => quota::page(&view),
        Route::Nodes => nodes::page(&view),
        Route::Decisions => decisions::page(&view),
        Route::Status => Ok(status::page(&view)),
    };
    match page {
        Ok(page) => (StatusCode::OK, layout::document(&page, &frame)),
        // Who waits for it goes on looking at the same address.
        Err(refusal) if refusal.status == StatusCode::SERVICE_UNAVAILABLE => {
            refused(&refusal, frame.section, &Frame { section: "none", ..frame })
        }
        Err(refusal) => refused(&refusal, frame.section, &nowhere(now)),
    }
}

/// The frame of a page that is none of ours.
const fn nowhere(now: Timestamp) -> Frame<'static> {
    const NOTHING: &Query = &Query::EMPTY;
    Frame { path: "/", query: NOTHING, section: "none", refreshes: false, now }
}

/// A page that says what is wrong with what was asked for.
fn refused(refusal: &Refusal, section: &str, frame: &Frame<'_>) -> Document {
    let title = match refusal.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "That cannot be shown",
        StatusCode::SERVICE_UNAVAILABLE => "Not known yet",
        _ => "Something went wrong",
    };
    let page = Page {
        title: title.to_owned(),
        lead: html! { (format::visible(&refusal.message)) },
        body: html! { p { a href=(if section.is_empty() { "/" } else { section }) { "Go on from here" } } },
    };
    (refusal.status, layout::document(&page, frame))
}

#[cfg(test)]
mod tests;
