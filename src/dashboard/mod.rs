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
        Err(refusal) => return refused(&refusal, "", now),
    };
    let section = route.about().0;
    let parameters = match parameters.and_then(|query| Ok((query.refreshes()?, query))) {
        Ok(parameters) => parameters,
        Err(refusal) => return refused(&refusal, section, now),
    };
    if let Some(surveys) = &known.surveys
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
        refused(&refusal, section, now)
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
        Err(refusal) => refused(&refusal, frame.section, now),
    }
}

/// A page that says what is wrong with what was asked for.
fn refused(refusal: &Refusal, section: &str, now: Timestamp) -> Document {
    let title = match refusal.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "That cannot be shown",
        _ => "Something went wrong",
    };
    let page = Page {
        title: title.to_owned(),
        lead: html! { (format::visible(&refusal.message)) },
        body: html! { p { a href=(if section.is_empty() { "/" } else { section }) { "Go on from here" } } },
    };
    let frame = Frame { path: "/", query: &Query::default(), section: "none", refreshes: false, now };
    (refusal.status, layout::document(&page, &frame))
}

#[cfg(test)]
mod tests;
